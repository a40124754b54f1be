"""Numbers words in words."""

import pytest

from verifiers.equality.compare import compare
from verifiers.grammar.spoken import spoken


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("minus 7", "-7"),
        ("twenty-one", "21"),
        ("the square root of 81", "9"),
        ("16 squared", "256"),
        ("half of 30", "15"),
        ("two thirds", "2/3"),
        ("5 and a half", "11/2"),
        ("three dozen", "36"),
        ("ten to the 4", "10000"),
        ("one over 4", "1/4"),
        ("6 factorial", "720"),
        ("two thirds of 9", "6"),
    ],
)
def test_a_number_in_words_is_that_number(words: str, value: str) -> None:
    assert spoken(words)
    assert compare(value, words).equal
    assert not compare(value + "1", words).equal


@pytest.mark.parametrize(
    "text",
    [
        "third",
        "12 apples",
        "multiple of 9",
        "less than 7",
        "x",
        "7",
    ],
)
def test_what_is_no_number_in_words(text: str) -> None:
    assert spoken(text) in (None, text)


def test_mixed_numbers_in_words() -> None:
    assert spoken("one and three quarters") == r"1\frac{3}{4}"
    assert spoken("2 and a half") == r"2\frac{1}{2}"
    assert spoken("minus infinity") == r"-\infty"
