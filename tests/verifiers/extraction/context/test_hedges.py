"""Conditions, bounds, and what others are said to say."""

import re

import pytest

from verifiers.extraction.context.hedges import BOUND, DENIED, HEDGED, conditional, not_its_own


@pytest.mark.parametrize(
    ("rest", "condition"),
    [
        ("5 unless x is odd.", "5 unless"),
        ("it depends on x", "it depends on"),
        ("5 if x > 0, otherwise 6", "5 if x > 0, otherwise"),
        ("5 if you ask me", None),
        ("5", None),
    ],
)
def test_conditions(rest: str, condition: str | None) -> None:
    assert conditional(rest) == condition


@pytest.mark.parametrize("text", ["less than 5", "at least 5", "≥ 5", r"\le 5", "between 3 and 5"])
def test_bounds(text: str) -> None:
    assert BOUND.match(text)


def test_values_are_no_bounds() -> None:
    assert not BOUND.match("5 at least")
    assert not BOUND.match("5")


@pytest.mark.parametrize("text", ["5 or more", "3..5", "5 (maybe)", "5+"])
def test_hedges(text: str) -> None:
    assert HEDGED.search(text)
    assert not HEDGED.search("5 or 6")


def test_denials() -> None:
    assert DENIED.search("it isn't 5")
    assert DENIED.search("this is incorrect")
    assert not DENIED.search("it is 5")


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("the expected answer is 5", True),
        ("he said the answer is 5", True),
        ("so the answer is 5", False),
    ],
)
def test_other_voices(text: str, others: bool) -> None:
    match = re.search("answer is", text)
    assert match is not None
    assert not_its_own(text, match, []) is others


def test_quotations_are_not_its_own() -> None:
    text = 'They print "the answer is 5" on it'
    match = re.search("answer is", text)
    assert match is not None
    assert not_its_own(text, match, [(11, 28)])
    assert not not_its_own(text, match, [(0, 5)])
