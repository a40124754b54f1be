"""Units by their spellings, and their sizes."""

from fractions import Fraction

import pytest

from verifiers.grammar.lexer import Token
from verifiers.grammar.units import SPELLINGS, conversion, currency_of, is_unit, unit_name
from verifiers.grammar.vocabulary import TABLE

END = Token("end_of_text", "")


@pytest.mark.parametrize(
    ("word", "name"),
    [("metres", "m"), ("KM", "km"), ("lbs", "pound"), ("M", "m"), ("apples", "apple"),
     ("berries", "berry"), ("Hz", "Hz")],
)  # fmt: skip
def test_names(word: str, name: str) -> None:
    assert unit_name(word) == name


def test_conversions_by_hand() -> None:
    assert conversion({"km": 1}, {"m": 1}) == 1000
    assert conversion({"km": 1, "hour": -1}, {"m": 1, "s": -1}) == Fraction(5, 18)
    assert conversion({"foot": 1}, {"inch": 1}) == 12
    assert conversion({"m": 2}, {"cm": 2}) == 10_000
    assert conversion({"m": 1}, {"s": 1}) is None
    assert conversion({"apple": 1}, {"apple": 1}) == 1
    assert conversion({"dollar": 1}, {"euro": 1}) is None


def test_no_spelling_names_two_units() -> None:
    spellings = [word for entry in TABLE["units"].values() for word in entry.split()[2:]]
    assert len(spellings) == len(set(spellings)) == len(SPELLINGS)


@pytest.mark.parametrize(
    ("word", "following", "expected"),
    [("cm", END, True), ("ab", END, False), ("apples", END, True), ("and", END, False),
     ("sin", END, False), ("min", END, True), ("min", Token("sign", "("), False)],
)  # fmt: skip
def test_words_that_are_units_after_a_number(word: str, following: Token, expected: bool) -> None:
    assert is_unit(Token("word", word), following) is expected


def test_words_in_text_are_units() -> None:
    assert is_unit(Token("word", "ab", text_mode=True), END)
    assert not is_unit(Token("word", "or", text_mode=True), END)


def test_currencies() -> None:
    assert currency_of(Token("sign", "€")) == "euro"
    assert currency_of(Token("command", "$")) == "dollar"
    assert currency_of(Token("sign", "%")) is None
    assert currency_of(Token("word", "$")) is None
