"""Answers that another language states, and that it only describes."""

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.context.abroad import choice, described, names_answer

STATED = [
    "Die Antwort ist also 30.",
    "La réponse finale est donc $\\boxed{30}$.",
    "Por tanto, la respuesta es 30.",
    "Ответ: у Маши осталось 30 яблок.",
    "所以答案是30。",
    "答えは30です。",
    "Die Antwort ist nicht 29, sondern 30.",
]
DESCRIBED = [
    "Die Antwort ist die Quersumme von 30.",
    "La réponse est le sinus de 30.",
    "La respuesta tiene 30 cifras.",
    "Le double de la réponse est 30.",
    "Die falsche Antwort lautet 30.",
    "答案是30的约数。",
    "答えは30の次の数です。",
    "Ответ делится на 30.",
    "Keine Ahnung, $\\boxed{30}$",
    "La respuesta final es 30 veces el",
]


@pytest.mark.parametrize("response", STATED)
def test_what_is_stated_counts(response: str) -> None:
    assert verify(response, "30").verdict is Verdict.CORRECT


@pytest.mark.parametrize("response", DESCRIBED)
def test_what_is_only_described_does_not(response: str) -> None:
    assert verify(response, "30").verdict is not Verdict.CORRECT


@pytest.mark.parametrize(
    ("sentence", "letter"),
    [
        ("Richtig ist Antwort C.", "C"), ("La bonne réponse est la réponse B.", "B"),
        ("Doğru cevap E şıkkıdır.", "E"), ("정답: ②", "②"), ("सही विकल्प C है।", None),
        ("The answer is C.", None), ("Wir sehen den Punkt C", None),
    ],
)  # fmt: skip
def test_the_letter_of_a_choice(sentence: str, letter: str | None) -> None:
    match = choice(sentence)
    assert (match[1] if match else None) == letter


def test_one_unknown_word_may_stand_before_a_colon() -> None:
    assert not described("תשובה סופית", "", colon=True)
    assert described("Die Antwort hat", " Stellen")
    assert verify(r"תשובה סופית: $\boxed{72}$", "72").verdict == "correct"


def test_a_sentence_that_speaks_of_the_answer() -> None:
    assert names_answer("Lopullinen vastaus on 15.")
    assert not names_answer("The answer is 15.")


@pytest.mark.parametrize(
    "after",
    ["。不对,应该是 21。", ". Halt, das stimmt nicht, richtig ist 16.", ", mais c'est une erreur."],
)
def test_an_answer_is_taken_back_with_another_value(after: str) -> None:
    assert verify(r"$\boxed{20}$" + after, "20").verdict != "correct"
