"""Brackets of every kind."""

import pytest
from verifier_nodes import Add, Base, Builder, Call, Empty, List, Matrix, Mul, Rel, Set, Sym, Tuple

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError, num

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


Y = Sym("y")
THREE = num(3)
FOUR = num(4)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", Matrix((2, 2), (ONE, TWO, THREE, FOUR))),
        (r"\begin{pmatrix}1\\2\\\end{pmatrix}", Matrix((2, 1), (ONE, TWO))),
        (r"\begin{bmatrix}1&2\end{bmatrix}", Matrix((1, 2), (ONE, TWO))),
        (r"\begin{pmatrix}x\end{pmatrix}", X),
        (
            r"\begin{cases}x=1\\y=2\end{cases}",
            List(",", (Rel(("=",), (X, ONE)), Rel(("=",), (Y, TWO)))),
        ),
        (
            r"\begin{aligned}x&=1\\y&=2\end{aligned}",
            List(",", (Rel(("=",), (X, ONE)), Rel(("=",), (Y, TWO)))),
        ),
        (r"\begin{array}{c}x=1\end{array}", Rel(("=",), (X, ONE))),
        (r"\begin{array}{cc}1&2\end{array}", Matrix((1, 2), (ONE, TWO))),
        (
            r"\begin{cases}x,&y\\1,&2\end{cases}",
            Set((Tuple("()", (X, Y)), Tuple("()", (ONE, TWO)))),
        ),
        (r"\left\{\begin{array}{l}x=1\end{array}\right.", Rel(("=",), (X, ONE))),
    ],
)
def test_environments(text: str, node: Node) -> None:
    assert parse(text) == node


@pytest.mark.parametrize(
    "text",
    [
        r"\begin{pmatrix}1&2\\3\end{pmatrix}",
        r"\begin{pmatrix}\end{pmatrix}",
        r"\begin{vmatrix}1\end{vmatrix}",
        r"\begin{tabular}1\end{tabular}",
        r"\begin{cases}x=1",
        r"\begin{pmatrix}1 = 2\end{pmatrix}",
    ],
)
def test_what_is_no_environment_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
