"""The last side of a computation in words."""

import pytest

from verifiers.extraction.sentence.computed import computed_side


@pytest.mark.parametrize(
    ("clause", "side"),
    [
        ("50 shells + 8 shells = 58 shells", "58 shells"),
        ("6 x 2 = 12", "12"),
        ("1500/month * 12 months/year = 18,000", "18,000"),
        ("2 + 3 = 5 = 10 / 2", None),
        ("50 shells + 8 shells = 57 shells", None),
        ("2x + 3y = 6", None),
        ("x = 12", None),
        ("1/0 + 1 = 1", None),
        ("9^9^9^9 + 1 = 1", None),
        ("12", None),
    ],
)
def test_only_a_right_step_states_its_side(clause: str, side: str | None) -> None:
    assert computed_side(clause) == side
