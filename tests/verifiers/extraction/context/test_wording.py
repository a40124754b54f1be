"""Words beside a value that make another of it, and the same words where they do not."""

import pytest

from verifiers.extraction.context.wording import DOUBT, NEGATION, Words, changed


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("half of ", "", True),
        ("the square root of $", "$", True),
        ("", " squared", True),
        ("la moitié de ", "", True),
        ("корень из ", "", True),
        ("", " 的平方", True),
        ("负", "", True),
        ("the square of the sum is ", "", False),
        ("Half of 14 is ", " apples", False),
        ("", " square meters", False),
        ("he walks ", " times a week", False),
        ("The product: ", "", False),
    ],
)
def test_changed(before: str, after: str, expected: bool) -> None:
    assert changed(before, after) is expected


def test_words_stand_whole_and_pieces_anywhere() -> None:
    vocabulary = Words("not no_es", "不是")
    assert vocabulary.search("It is NOT so")
    assert vocabulary.search("eso no es")
    assert vocabulary.search("这不是答案")
    assert not vocabulary.search("a knot; nonesuch")


def test_negation_and_doubt_in_other_languages() -> None:
    assert NEGATION.search("Das ist nicht")
    assert not NEGATION.search("Das ist wichtig")
    assert DOUBT.search("peut-être")
    assert not DOUBT.search("il peut y en avoir")
