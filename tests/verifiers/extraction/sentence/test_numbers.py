"""The last number of a text, with what belongs to it."""

import pytest

from verifiers.extraction.sentence.numbers import last_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 bags of 7 apples", "7"),
        ("gives 2 : 5", "2 : 5"),
        ("so x = 2 or x = -2", "x = 2 or x = -2"),
        ("it takes 2 h 30 min", "2 h 30 min"),
        ("12 dollars and 50 cents", "12 dollars and 50 cents"),
        ("7 and a half", "7 and a half"),
        ("the numbers 3, 4 and 5", "3, 4 and 5"),
        ("no number", None),
    ],
)
def test_last_number(text: str, number: str | None) -> None:
    assert last_number(text) == number
