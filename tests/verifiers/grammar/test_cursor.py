"""Looking at tokens and taking them."""

import pytest
from verifiers.grammar.cursor import END, Cursor

from verifiers.grammar.lexer import tokenize
from verifiers.grammar.tree import ParseError


def cursor(text: str) -> Cursor:
    return Cursor(tokenize(text))


def test_looking_takes_nothing() -> None:
    at = cursor("1 + x")
    assert [at.peek(ahead).text for ahead in range(3)] == ["1", "+", "x"]
    assert at.peek(3) is END
    assert at.at("number")
    assert not at.at("number", "2")
    assert at.position == 0


def test_taking_moves_on_to_the_end() -> None:
    at = cursor("1 + x")
    assert at.take().text == "1"
    assert not at.accept("sign", "-")
    assert at.accept("sign", "-", "+")
    at.expect("word", "x")
    assert at.take() is END
    with pytest.raises(ParseError, match="'x' expected"):
        at.expect("word", "x")


def test_the_first_letter_of_a_word_can_be_taken_alone() -> None:
    at = cursor("abc")
    assert at.take_first() == "a"
    assert at.take().text == "bc"
