"""Turns, letters and digits as a response writes them."""

import pytest

from verifiers.extraction.written import own_words


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("User: 3 + 4?\nAssistant: 7", "7"),
        ("<|im_start|>assistant\n7", "7"),
        ("The answer is ｎｏｔ 7", "The answer is not 7"),
        ("n\u200bot 7 — nо", "not 7 — no"),
        ("عدد ٩", "عدد 9"),
        ("٩", "٩"),
        ("à 14 h 35", "à 14:35"),
        ("2 h 40 min", "2 h 40 min"),
        ("plain", "plain"),
    ],
)
def test_own_words(text: str, own: str) -> None:
    assert own_words(text) == own
