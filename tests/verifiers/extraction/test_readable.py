"""Values and prose."""

import pytest

from verifiers.extraction.readable import YES_OR_NO, is_prose, is_value


@pytest.mark.parametrize("text", ["7", "x = 5", r"\frac{1}{2}", "5 cm", "2 or 3", "3 million"])
def test_values(text: str) -> None:
    assert is_value(text)


@pytest.mark.parametrize("text", ["the last page of it", "7 apples and some pears too", ""])
def test_prose_is_no_value(text: str) -> None:
    assert not is_value(text)


def test_prose_is_two_words_that_are_no_units() -> None:
    assert is_prose("Tom has 7")
    assert not is_prose("7 square meters")


def test_yes_or_no_first() -> None:
    assert YES_OR_NO.match("Yes, it is.")
    assert YES_OR_NO.match("Yes it is possible")
    assert not YES_OR_NO.match("No integer works")
