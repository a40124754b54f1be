"""Answers that another language states, and that it only describes."""

import pytest

from verifiers import Verdict, verify

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
