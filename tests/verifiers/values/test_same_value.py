"""Whether two expressions have one value, wherever both have one."""

import pytest
from verifier_case_files import table

from verifiers.grammar.parse import parse
from verifiers.values.same_value import (
    has_value,
    is_arithmetic,
    points,
    proportional,
    rational,
    same_value,
)


@pytest.mark.parametrize("row", table("same_value"))
def test_same_value(row: dict) -> None:
    left = parse(row["left"])
    right = parse(row["right"])
    assert same_value(left, right) is row["same"]
    assert same_value(right, left) is row["same"]


def test_what_has_a_value() -> None:
    assert has_value(parse("x/2"))
    assert has_value(parse("(1, 2)"))
    assert not has_value(parse("1/0"))
    assert is_arithmetic(parse("x^2"))
    assert not is_arithmetic(parse("x = 2"))
    assert rational(parse("1/2 + 1/2")) == 1
    assert rational(parse("x")) is None


def test_points_are_the_same_each_time() -> None:
    first, repeated = (list(points(["x", "y"])) for _ in range(2))
    assert first == repeated
    assert len(first) == 16
    assert all(0 < at["x"] < 1 for at in first[:4])


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [("2x - 2", "x - 1", 1), ("1 - x", "3x - 3", -1), ("x", "x + 1", None), ("x^2", "x", None),
     ("1", "2", None)],
)  # fmt: skip
def test_proportional(left: str, right: str, sign: int | None) -> None:
    assert proportional(parse(left), parse(right)) == sign
