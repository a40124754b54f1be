"""Polynomials up to the second degree, and their zeros."""

from fractions import Fraction

import pytest

from verifiers.grammar.parse import parse
from verifiers.values.polynomials import coefficients, real_roots


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^2 - 5x + 6", (1, -5, 6)),
        ("(x-1)(x+1)", (1, 0, -1)),
        ("3x/2", (0, Fraction(3, 2), 0)),
        ("7", (0, 0, 7)),
        ("x^3", None),
        ("|x|", None),
        ("1/x", None),
        (r"\lfloor x \rfloor", None),
        ("x y", None),
    ],
)
def test_coefficients(text: str, expected: tuple | None) -> None:
    assert coefficients(parse(text), "x") == expected


@pytest.mark.parametrize(
    ("polynomial", "roots"),
    [((1, -5, 6), (2, 3)), ((-1, 5, -6), (2, 3)), ((1, -2, 1), (1,)), ((1, 0, 1), ()),
     ((0, 2, -3), (1.5,)), ((0, 0, 1), ())],
)  # fmt: skip
def test_roots_in_ascending_order(polynomial: tuple, roots: tuple) -> None:
    assert real_roots(*map(Fraction, polynomial), 30) == roots


def test_irrational_roots() -> None:
    low, high = real_roots(Fraction(1), Fraction(0), Fraction(-2), 30)
    assert low == -high
    assert abs(high**2 - 2) < 1e-25
