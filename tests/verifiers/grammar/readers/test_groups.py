"""Brackets of every kind."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import (
    Add,
    Base,
    Builder,
    Call,
    Empty,
    Mul,
    Node,
    ParseError,
    Rel,
    Set,
    Sym,
    Tuple,
    num,
)

X = Sym("x")
ONE, TWO = num(1), num(2)


def absolute(node: Node) -> Node:
    return Call("abs", (node,))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("(1, 2)", Tuple("()", (ONE, TWO))),
        ("[1, 2)", Tuple("[)", (ONE, TWO))),
        ("(1 + x)", Add((ONE, X))),
        ("(12)_3", Base(("12", 3), (num(12),))),
        (r"\langle 1, 2 \rangle", Tuple("<>", (ONE, TWO))),
        ("|x|", absolute(X)),
        (r"\left|x\right|", absolute(X)),
        ("|x||x|", Mul((absolute(X), absolute(X)))),
        ("|(|x|)|", absolute(absolute(X))),
        ("{1, 2}", Set((ONE, TWO))),
        ("{x}", X),
        ("{}", Empty()),
        (r"\{\}", Empty()),
        (r"\{1\}", Set((ONE,))),
        (r"\{1, 2\}", Set((ONE, TWO))),
        (r"\{x | x > 1\}", Builder((X, Rel((">",), (X, ONE))))),
        (r"\{x : x > 1\}", Builder((X, Rel((">",), (X, ONE))))),
        (r"\{ {x | x > 1} \}", Builder((X, Rel((">",), (X, ONE))))),
    ],
)
def test_groups(text: str, node: Node) -> None:
    assert parse(text) == node


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(1, 2", "bracket not closed"),
        ("(1]", "brackets do not match"),
        ("|x", "expected"),
        (r"\{1, 2", "set not closed"),
        ("!", "unexpected"),
    ],
)
def test_what_does_not_close_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse(text)
