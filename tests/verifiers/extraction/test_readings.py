"""Decimal commas and words of other languages."""

import pytest

from verifiers.extraction.extract import extract
from verifiers.extraction.readings import other_readings, says_words


@pytest.mark.parametrize(
    ("response", "readings"),
    [
        ("Die Lösung ist 2,5.", ("2.5",)), ("The values are 2,5.", ()),
        ("Der Preis beträgt 1.250 Euro.", ("1250",)), ("The answer is 42!", ("42",)),
        ("The answer is 42.", ()),
    ],
)  # fmt: skip
def test_the_other_reading(response: str, readings: tuple[str, ...]) -> None:
    assert other_readings(extract(response)) == readings


def test_a_gold_in_words_is_what_the_response_ends_in() -> None:
    assert says_words(extract("Es ist also Freitag."), "Friday")
    assert not says_words(extract("Es ist also nicht Freitag."), "Friday")
    assert not says_words(extract("So it is 5."), "5")
