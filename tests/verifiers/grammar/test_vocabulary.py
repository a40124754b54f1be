"""The tables of words agree with each other and with the lexer."""

from verifiers.grammar.lexer import tokenize
from verifiers.grammar.vocabulary import (
    FLIPPED,
    FUNCTIONS,
    INVERSES,
    NOT_FACTORS,
    RELATIONS,
    UNICODE,
    words,
)


def test_words() -> None:
    assert words("a b  a") == {"a", "b"}


def test_flipping_twice_changes_nothing() -> None:
    assert all(FLIPPED[FLIPPED[sign]] == sign for sign in FLIPPED)


def test_inverses_are_functions_of_functions() -> None:
    assert INVERSES.keys() | set(INVERSES.values()) <= set(FUNCTIONS.values())


def test_no_relation_begins_a_factor() -> None:
    assert RELATIONS.keys() <= NOT_FACTORS
    assert not NOT_FACTORS & FUNCTIONS.keys()


def test_every_sign_of_unicode_has_tokens() -> None:
    for sign, latex in UNICODE.items():
        assert not sign.isascii()
        assert latex.isascii()
        assert tokenize(f"1 {sign}") == tokenize(f"1 {latex}")
