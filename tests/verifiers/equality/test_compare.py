"""The order of steps: string, number, choice and words, then the trees."""

import pytest

from verifiers.equality.compare import compare, readable


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("42", " 42 ", True),
        ("1,000", "1000", True),
        ("1,000", "1000.0", True),
        ("B", "(B)", True),
        ("B", "b", False),
        ("(C) 7", "C", True),
        ("(C) 7", "(C) 8", False),
        ("(C) 7", "7", True),
        ("A, C", "C and A", True),
        ("Paris", "paris", True),
        ("Paris", "London", False),
        ("10/3", r"10/3 \approx 3.33", True),
        ("3.33", r"10/3 \approx 3.33", False),
        (r"\frac12", "0.5", True),
        (r"\frac{AB}{CD}", "AB/CD", True),
        (r"\frac{AB \cdot D}{C}", "AB/CD", False),
        (r"\frac{xz}{y}", "x/yz", True),
        ("12", "", False),
        ("12", "(", False),
    ],
)
def test_pairs(gold: str, answer: str, equal: bool) -> None:
    assert compare(gold, answer).equal is equal


@pytest.mark.parametrize(
    ("gold", "expected"),
    [("42", True), ("x^2", True), ("Paris", True), ("two words", True), ("", False), ("(", False),
     (r"\frac{1}{0}", False), ("9" * 5000, True)],
)  # fmt: skip
def test_golds(gold: str, expected: bool) -> None:
    assert readable(gold) is expected


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("6", r"\det(A) = 6", True), ("8", "m + n = 8", True), ("8", "m + n = 9", False),
        ("1/3", r"\int_0^1 x^2 dx = \frac13", True),
        ("8", "2x = 8", False), ("7", "Say x = 7", False), ("4", "x^2 = 4", False),
    ],
)  # fmt: skip
def test_an_equation_gives_what_it_asks_for_but_no_unknown(
    gold: str, answer: str, equal: bool
) -> None:
    assert compare(gold, answer).equal is equal
