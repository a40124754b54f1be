"""The tables of words agree with each other and with the lexer."""

from pathlib import Path

import verifiers
from verifiers.grammar.lexer import tokenize
from verifiers.grammar.vocabulary import (
    FLIPPED,
    FUNCTIONS,
    INVERSES,
    NOT_FACTORS,
    RELATIONS,
    TABLE,
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


def test_every_entry_of_the_table_is_used() -> None:
    files = Path(verifiers.__file__).parent.rglob("*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert [key for key in TABLE if f'TABLE["{key}"]' not in source] == []
