"""Letters, subscripts, primes, applied names and events."""

import pytest
from verifier_nodes import Call, Const, List, Mul, Opaque, Ratio, SetName, Sym, Text, Tuple, applied

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError, num


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("x", Sym("x")),
        ("x_1", Sym("x_1")),
        ("x_{12}", Sym("x_12")),
        ("x_12", Sym("x_12")),
        ("x_ab", Mul((Sym("x_a"), Sym("b")))),
        ("x''", Sym("x''")),
        ("e", Const("e")),
        ("e_1", Sym("e_1")),
        ("i", Const("i")),
        ("f(x)", Opaque("f", (Sym("x"),))),
        ("f (x)", Mul((Sym("f"), Sym("x")))),
        ("k(x)", applied((Sym("k"), Sym("x")))),
        ("I(0)", Opaque("I", (num(0),))),
        ("P(A|B)", Opaque("P", (Ratio((Sym("A"), Sym("B"))),))),
        ("P(1,2)", Opaque("P", (parse("1,2"),))),
        (r"\mathbb{Z}", SetName("Z")),
        ("(x_1,x_2)", Tuple("()", (Sym("x_1"), Sym("x_2")))),
    ],
)
def test_names(text: str, node: Node) -> None:
    assert parse(text) == node


def test_a_subscript_must_close() -> None:
    with pytest.raises(ParseError, match="unclosed subscript"):
        parse("x_{1")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("sin x", Call("sin", (Sym("x"),))),
        ("sqrt(4)", Call("root", (num(4), num(2)))),
        ("max(1, 2)", Call("max", (num(1), num(2)))),
        ("pi", Const("pi")),
        ("infinity", Const("inf")),
        ("pi_1", Sym("pi_1")),
        ("twelve", num(12)),
        ("twenty-one", num(21)),
        ("twenty one", num(21)),
        ("xy", Mul((Sym("x"), Sym("y")))),
        ("xyz", Mul((Sym("x"), Sym("y"), Sym("z")))),
        ("abcd", Text("abcd")),
        ("not sure", Text("not sure")),
        (r"\text{ab}", Text("ab")),
        (r"\text{e}", Const("e")),
        ("exactly 3", num(3)),
        ("blue and red", List("and", (Text("blue"), Text("red")))),
    ],
)
def test_words(text: str, node: Node) -> None:
    assert parse(text) == node
