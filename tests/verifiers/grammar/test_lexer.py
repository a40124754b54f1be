"""Text to tokens: what is one token, what is passed over, what is refused."""

import pytest

from verifiers.grammar.lexer import MAX_GROUP_DEPTH, MAX_TOKENS, tokenize
from verifiers.grammar.tree import ParseError, TooLargeError


def texts(text: str, **options: bool) -> list[str]:
    return [token.text for token in tokenize(text, **options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x", ["2", "x"]),
        ("1,234", ["1,234"]),
        ("1,23", ["1", ",", "23"]),
        ("0,123", ["0", ",", "123"]),
        (r"1\,234.5", [r"1\,234.5"]),
        ("2.5e-3", ["2.5e-3"]),
        (r"\log_2 128", ["log", "_", "2", "128"]),
        (r"\dfrac12", ["frac", "12"]),
        (r"\left( x \right]", ["(", "x", "]"]),
        (r"\left|x\right|", ["lvert", "x", "rvert"]),
        ("x <= 3", ["x", "le", "3"]),
        ("x**2", ["x", "^", "2"]),
        (r"\text{5 cm}", ["5", "cm"]),
        (r"\color{red}7", ["7"]),
        (r"\begin{array}{cc}1\end{array}", ["array", "1", "array"]),
        (r"\mathbb{R}^+", ["R^+"]),
        (r"\vec{AB}", ["AB arrow"]),
        ("5 sq. ft.", ["5", "sq", "ft"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_grouping_can_be_refused() -> None:
    assert texts("1,234", grouping=False) == ["1", ",", "234"]
    assert texts("1{,}234", grouping=False) == ["1{,}234"]


def test_a_token_knows_what_stands_around_it() -> None:
    first, second, third = tokenize(r"a b\text{c}")
    assert (first.spaced, second.spaced) == (False, True)
    assert (second.text_mode, third.text_mode) == (False, True)


@pytest.mark.parametrize("text", ["1. x", "x@y", r"\text{2", "4\u200b2", r"\not+"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        texts(text)


def test_length_and_depth_have_limits() -> None:
    assert len(texts("x " * MAX_TOKENS)) == MAX_TOKENS
    with pytest.raises(TooLargeError):
        texts("x " * (MAX_TOKENS + 1))
    with pytest.raises(TooLargeError):
        texts(r"\text{" * (MAX_GROUP_DEPTH + 1) + "}" * (MAX_GROUP_DEPTH + 1))
