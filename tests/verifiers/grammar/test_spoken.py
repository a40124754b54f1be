"""Numbers said in words."""

import pytest

from verifiers.equality.compare import compare
from verifiers.grammar.spoken import counted_abroad, spoken


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("minus 7", "-7"),
        ("twenty-one", "21"),
        ("the square root of 81", "9"),
        ("16 squared", "256"),
        ("half of 30", "15"),
        ("two thirds", "2/3"),
        ("5 and a half", "11/2"),
        ("three dozen", "36"),
        ("ten to the 4", "10000"),
        ("one over 4", "1/4"),
        ("6 factorial", "720"),
        ("two thirds of 9", "6"),
        ("fünfunddreißig", "35"),
        ("двум третям", "2/3"),
        ("сто двадцать пять", "125"),
        ("treinta y cinco", "35"),
        ("cento e vinte", "120"),
        ("yetmiş üç", "73"),
    ],
)
def test_a_number_in_words_is_that_number(said: str, value: str) -> None:
    assert spoken(said)
    assert compare(value, said).equal
    assert not compare(value + "1", said).equal


@pytest.mark.parametrize(
    "text",
    [
        "third",
        "cinco treinta",
        "dos tres",
        "veinte diez",
        "12 apples",
        "multiple of 9",
        "less than 7",
        "x",
        "7",
    ],
)
def test_what_is_no_number_in_words(text: str) -> None:
    assert spoken(text) in (None, text)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Es gibt acht solche Zahlen", ["acht"]), ("У Пети осталось три яблока", ["три"]),
        ("Marco ha quarantacinque anni", ["quarantacinque"]), ("所以一共有十二个。", ["十二"]),
        ("It is on the elf", []), ("Er hat eins", []), ("第三个数", []),
        ("zwei oder drei", ["zwei", "drei"]),
        ("Son dos, treinta y cinco", ["dos", "treinta y cinco"]),
        ("Итого сто двадцать яблок", ["сто двадцать"]), ("Son cinco treinta", []),
    ],
)  # fmt: skip
def test_numbers_in_words_of_other_languages(sentence: str, said: list[str]) -> None:
    assert counted_abroad(sentence) == said


def test_mixed_numbers_in_words() -> None:
    assert spoken("one and three quarters") == r"1+\frac{3}{4}"
    assert spoken("2 and a half") == r"2+\frac{1}{2}"
    assert spoken("vierzig") == "40"
    assert spoken("elf") == "11"
