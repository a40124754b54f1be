"""Equal answers share a key; most unequal ones do not."""

import pytest

from verifiers.equality.keys import keys

EQUAL = [
    ("1/2", r"\frac12", "50\\%", "0.5"),
    ("2", "x = 2", "two", "(C) 2"),
    ("1, 2", "{2, 1}"),
    ("5 m", "500 cm"),
    ("y=2x+1", "2x-y=-1"),
    (r"3<x\le4", "(3,4]"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\emptyset", "no solution"),
    (r"\log 1000", "3"),
    ("1/3", "0.3333333333333"),
    ("x=7", "2x=14"),
]


@pytest.mark.parametrize("group", EQUAL)
def test_equal_answers_share_a_key(group: tuple[str, ...]) -> None:
    for left in group:
        for right in group:
            assert keys(left) & keys(right), (left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", "2"),
        ("x+1", "x+2"),
        ("(1,2)", "(1,3)"),
        ("(1,3)", "(2,3)"),
        ("(9,3)", "(8,2)"),
        ("y=x", "y=2x"),
        ("sky", "sea"),
    ],
)
def test_unequal_answers_do_not(left: str, right: str) -> None:
    assert not keys(left) & keys(right)
