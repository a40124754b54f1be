"""Letters, subscripts, primes, applied names and events."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.readers.names import letter_of_run
from verifiers.grammar.tree import (
    Applied,
    Const,
    Mul,
    Node,
    Opaque,
    ParseError,
    SetName,
    Sym,
    Tuple,
    num,
)


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
        ("k(x)", Applied((Sym("k"), Sym("x")))),
        ("I(0)", Opaque("I", (num(0),))),
        ("P(A|B)", Opaque("P", (Sym("A | B"),))),
        ("P(1,2)", Opaque("P", (parse("1,2"),))),
        (r"\mathbb{Z}", SetName("Z")),
        ("(x_1,x_2)", Tuple("()", (Sym("x_1"), Sym("x_2")))),
    ],
)
def test_names(text: str, node: Node) -> None:
    assert parse(text) == node


def test_letters_that_touch() -> None:
    assert letter_of_run("x") == Sym("x")
    assert letter_of_run("e") == Const("e")


def test_a_subscript_must_close() -> None:
    with pytest.raises(ParseError, match="unclosed subscript"):
        parse("x_{1")
