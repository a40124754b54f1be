"""Words: functions, constants, numbers in words, runs of letters, plain text."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Call, Const, List, Mul, Node, Sym, Text, num


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
