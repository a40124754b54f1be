"""Inequalities that a sentence ends in."""

import pytest

from verifiers import verify
from verifiers.extraction.sentence.bounds import bounds_stated


@pytest.mark.parametrize(
    ("sentence", "stated"),
    [
        ("It holds exactly when x is greater than 3.", "x > 3"),
        ("So the solution is all real numbers less than or equal to 4.", "x ≤ 4"),
        ("x lies strictly between 1 and 6.", "1 < x < 6"),
        ("The values of t are between 2 and 5, inclusive.", "2 ≤ t ≤ 5"),
        ("The third side must be greater than 5 but less than 9.", "5 < x < 9"),
        ("It is defined for all x except x = 2.", "x ≠ 2"),
        ("So we get x ≤ 4, i.e. the interval (−∞, 4].", "x ≤ 4"),
    ],
)
def test_a_bound_at_the_end_is_stated(sentence: str, stated: str) -> None:
    assert bounds_stated(sentence) == stated


@pytest.mark.parametrize(
    "sentence",
    [
        "x is not greater than 3.", "Perhaps x is greater than 3.", "x is 3.",
        "So 7 is the largest integer less than 8.", "If x is greater than 3, we stop.",
    ],
)  # fmt: skip
def test_what_denies_doubts_or_goes_on_states_none(sentence: str) -> None:
    assert bounds_stated(sentence) is None


def test_a_bound_is_no_value() -> None:
    assert verify("So x is greater than 3.", "x > 3").verdict == "correct"
    assert verify("So x is greater than 3.", "3").verdict != "correct"
