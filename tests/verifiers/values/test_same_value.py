"""Whether two expressions have one value, wherever both have one."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.values.same_value import (
    has_value,
    is_arithmetic,
    points,
    proportional,
    rational,
    same_value,
)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("1/2", "0.5", True),
        (r"\sqrt 8", r"2\sqrt 2", True),
        (r"\sqrt 2", "1.41421356", False),
        (r"\sqrt 2", "1.41421356237309", True),
        ("1/3", "0.3333333333333", True),
        ("1/3", "0.333333", False),
        ("1/4", "0.2500000000001", False),
        ("(x+1)^2", "x^2+2x+1", True),
        ("(x+1)^2", "x^2+2x+2", False),
        (r"\sin^2 x + \cos^2 x", "1", True),
        (r"\cos(n \pi)", "(-1)^n", True),
        ("(-1)^{n(n-1)(n+1)/6}", "1", False),
        (r"\sqrt{x^2}", "|x|", True),
        (r"\sqrt{x^2}", "x", False),
        (r"\log 100", "2", True),
        (r"\log e", "1", True),
        ("n!", "n (n-1)!", True),
        ("e^{i \\pi}", "-1", True),
        ("1/0", "1/0", False),
        ("f(x)+1", "1+f(x)", True),
        ("f(x)", "f(y)", False),
        ("x, y", "y, x", False),
    ],
)
def test_same_value(left: str, right: str, same: bool) -> None:
    assert same_value(parse(left), parse(right)) is same
    assert same_value(parse(right), parse(left)) is same


def test_what_has_a_value() -> None:
    assert has_value(parse("x/2"))
    assert has_value(parse("(1, 2)"))
    assert not has_value(parse("1/0"))
    assert is_arithmetic(parse("x^2"))
    assert not is_arithmetic(parse("x = 2"))
    assert rational(parse("1/2 + 1/2")) == 1
    assert rational(parse("x")) is None


def test_points_are_the_same_each_time() -> None:
    first, again = (list(points(["x", "y"])) for _ in range(2))
    assert first == again
    assert len(first) == 16
    assert all(0 < at["x"] < 1 for at in first[:4])


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [("2x - 2", "x - 1", 1), ("1 - x", "3x - 3", -1), ("x", "x + 1", None), ("x^2", "x", None),
     ("1", "2", None)],
)  # fmt: skip
def test_proportional(left: str, right: str, sign: int | None) -> None:
    assert proportional(parse(left), parse(right)) == sign
