"""Conditions, bounds, and what others are said to say."""

import re

import pytest

from verifiers.extraction.context.hedges import BOUND, DENIED, not_its_own


@pytest.mark.parametrize("text", ["less than 5", "at least 5", "≥ 5", r"\le 5", "between 3 and 5"])
def test_bounds(text: str) -> None:
    assert BOUND.match(text)


def test_values_are_no_bounds() -> None:
    assert not BOUND.match("5 at least")
    assert not BOUND.match("5")


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
