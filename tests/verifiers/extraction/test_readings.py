"""Decimal commas and words of other languages."""

import pytest

from verifiers import verify
from verifiers.extraction.extract import extract
from verifiers.extraction.readings import other_readings, says_words


@pytest.mark.parametrize(
    ("response", "readings"),
    [
        ("Die Lösung ist 2,5.", ("2.5.",)), ("The values are 2,5.", ()),
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


@pytest.mark.parametrize(
    ("response", "gold", "right"),
    [
        ("Somit kommt er um 16.35 Uhr an.", "16:35", True),
        ("The value is 16.35.", "16:35", False),
        ("В итоге он прибыл в 18 часов 25 минут.", "18:25", True),
        ("끝나는 시각은 2시 45분입니다.", "2:45", True),
        ("Das Verhältnis ist also 3 zu 4.", "3:4", True),
        ("所以利润为7.5万元。", "75000", True),
        ("مجموع العددين يساوي ٣٥.", "٣٥", True),
        ("Poiché vale, la risposta è sì.", "yes", True),
        ("Poiché vale, la risposta è sì.", "no", False),
        ("Assim sendo, não, 51 não é primo.", "Não", True),
        ("Svar: 5 mai 🇳🇴", "May 5", True),
    ],
)
def test_times_ratios_scales_and_words_of_other_languages(
    response: str, gold: str, right: bool
) -> None:
    assert (verify(response, gold).verdict == "correct") is right
