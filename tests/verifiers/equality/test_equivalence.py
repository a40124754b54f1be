"""Which rule compares two parsed answers."""

import pytest

from verifiers.equality.equivalence import same_answer
from verifiers.grammar.parse import parse


@pytest.mark.parametrize(
    ("gold", "answer", "same", "reason"),
    [
        ("x + 1", "1 + x", True, "same structure"),
        (r"\frac{1}{0} + 1", r"1 + \frac{1}{0}", False, "same structure"),
        ("0^0", "{0}^{0}", False, "same structure"),
        ("5", r"\int_0^5 1", False, "not evaluated"),
        ("1, 2, 3", r"1, \ldots", False, "continued list"),
        (r"\{1\}", r"\{\}", False, "an empty set is not a member"),
        ("(1, 3)", "1 < x < 3", True, "sets of reals"),
        ("x < y", "y > x", True, "relation"),
        ("(1, 2, 3)", "(1, 2, 4)", False, "tuple"),
        ("y = 2x", "y - 2x = 0", True, "equation"),
        ("5 m", r"500 \text{ cm}", True, "value in another unit"),
        (r"\text{red}", r"\text{Red}", True, "text"),
        ("x^2 - 1", "x^2 - 1 = (x-1)(x+1)", True, "identity"),
        ("x^2 - 1", "x^2 - 1 = (x-1)(x+2)", False, "identity"),
    ],
)
def test_rules(gold: str, answer: str, same: bool, reason: str) -> None:
    assert same_answer(parse(gold), parse(answer)) == (same, reason)


MATRIX = r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"
COLUMN = r"\begin{pmatrix}1\\2\\3\\4\end{pmatrix}"


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (COLUMN, "(1,2,3,4)", True),
        ("(1,2,3,4)", COLUMN, True),
        (MATRIX, "(1,2,3,4)", False),
        ("(1,2,3,4)", MATRIX, False),
        (MATRIX, "[[1,2],[3,4]]", True),
        (MATRIX, COLUMN, False),
        (COLUMN, "(1,2,3,5)", False),
        (COLUMN, "(1,2,3,4]", False),
    ],
)
def test_only_a_vector_is_a_tuple(gold: str, answer: str, same: bool) -> None:
    assert same_answer(parse(gold), parse(answer))[0] is same


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("1, 2, 2", "2, 1", False),
        ("1, 2", "2, 1, 1", True),
        ("x = 1, y = 2", "(1, 2)", True),
        ("x = 1, y = 2", "y = 2, x = 1", True),
        ("x = 1, y = 2", "x = 2, y = 1", False),
        (r"2 \pm 1", "1, 3", True),
        (r"x \ne 1, 2", r"x \ne 1 \text{ and } x \ne 2", True),
        ("1, 2, 3", r"\{3, 2, 1\}", True),
        ("(1,2), (3,4)", "(3,4), (1,2)", True),
        ("(1,2), (3,4)", "(2,1), (3,4)", False),
    ],
)
def test_collections(gold: str, answer: str, same: bool) -> None:
    assert same_answer(parse(gold), parse(answer))[0] is same
