"""Matrix arithmetic that an answer leaves open."""

import pytest

from verifiers.equality.compare import compare
from verifiers.equality.matrices import as_matrix
from verifiers.grammar.parse import parse

MATRIX = r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"
TRANSPOSED = r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"
DOUBLE = r"\begin{pmatrix}2&4\\6&8\end{pmatrix}"
NEGATIVE = r"\begin{pmatrix}-1&-2\\-3&-4\end{pmatrix}"


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (DOUBLE, f"2{MATRIX}", True),
        (DOUBLE, f"{MATRIX}+{MATRIX}", True),
        (MATRIX, rf"\frac{{{DOUBLE}}}{{2}}", True),
        (NEGATIVE, f"-{MATRIX}", True),
        (MATRIX, f"{TRANSPOSED}^T", True),
        (MATRIX, TRANSPOSED, False),
        (DOUBLE, f"3{MATRIX}", False),
    ],
)
def test_arithmetic(gold: str, answer: str, same: bool) -> None:
    assert compare(gold, answer).equal is same
    assert compare(answer, gold).equal is same


def test_shapes() -> None:
    square, row = as_matrix(parse(MATRIX)), as_matrix(parse(r"\begin{pmatrix}1&2\end{pmatrix}"))
    assert square is not None
    assert row is not None
    assert square.value == (2, 2)
    assert row.value == (1, 2)
    nested = as_matrix(parse("[[1,2,3],[4,5,6]]"))
    assert nested is not None
    assert nested.value == (2, 3)


@pytest.mark.parametrize("text", ["[[1,2],[3]]", "(1, 2)", "x", f"{MATRIX}{MATRIX}", f"{MATRIX}+1"])
def test_what_is_no_matrix(text: str) -> None:
    assert as_matrix(parse(text)) is None
