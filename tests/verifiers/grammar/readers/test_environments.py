"""Matrices, and equations below each other."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import List, Matrix, Node, ParseError, Rel, Set, Sym, Tuple, num

X, Y = Sym("x"), Sym("y")
ONE, TWO, THREE, FOUR = (num(value) for value in (1, 2, 3, 4))


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
