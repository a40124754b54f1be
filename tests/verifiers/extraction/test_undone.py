"""A computation that repeats the question is no answer to it."""

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.undone import is_left_undone


@pytest.mark.parametrize(
    "answer",
    [
        *["28 + 35", "$28+35$", r"9 \times 7", "(3)(21)", "x = 9*7", "(B) 9*7", "28 + 35 dollars"],
        *["28 + 35 = x", "28 + 35, 28 + 35", "Total: 28 + 35", "$28$ + $35$", r"\{28 + 35\}"],
        *[r"28 + 35 \pmod{100}", r"28 + 35, k \in \mathbb{Z}", r"28 + 35 \pm 0", "28 + 35 : 1"],
        *["7 x 9", "65 – 2", "9 ⋅ 7", r"9 \, \times \, 7", r"9 \ast 7", "twice 31.5", "(9)7"],
        *["28 + 35 = 28 + 35", r"28 + 35 \approx 60", "|28 + 35|", "28 + 35 + x - x"],
    ],
)
def test_a_sum_or_product_is_left_undone_in_any_format(answer):
    assert is_left_undone(answer, "63")
    assert is_left_undone(answer, "63 dollars")
    assert verify(rf"\boxed{{{answer}}}", "63").verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    "answer",
    [
        "126/2",
        r"\frac{126}{2}",
        "126 ÷ 2",
        r"\frac{100+26}{2}",
        "126/2 apples",
        "126/2 m",
        r"{126 \over 2}",
        "126 over 2",
        "126 : 2",
    ],
)
def test_a_quotient_is_left_undone_in_strict_formats_where_a_whole_number_is_asked_for(answer):
    assert is_left_undone(answer, "63", strict=True)
    assert verify(rf"\boxed{{{answer}}}", "63", format="boxed").verdict is Verdict.NO_ANSWER
    block = f"<think>t</think><answer>{answer}</answer>"
    assert verify(block, "63", format="think_answer").verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[(r"\log_2 16", "4"), (r"x = \log_3 81", "4"), (r"\ln e", "1"), (r"2, \log_2 16", "2, 4")],
        *[(r"\sin 30^\circ", r"\frac12"), (r"-\cos\pi", "1"), (r"(\ln e, 2)", "(1, 2)")],
        *[(r"\tan 100^\circ + 4\sin 100^\circ", r"-\sqrt3"), (r"4\arctan 1", r"\pi")],
        *[(r"\cos 20^\circ \cos 40^\circ \cos 80^\circ", r"\frac18"), (r"\sin^2 45^\circ", "0.5")],
    ],
)
def test_a_logarithm_or_a_sine_of_numbers_is_left_undone(answer, gold):
    for format in ("any", "boxed"):
        verification = verify(rf"\boxed{{{answer}}}", gold, format=format)
        assert verification.verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[(r"\log_2 6", r"1 + \log_2 3"), (r"x = \log_2 16 = 4", "4"), (r"2\ln 2", r"\ln 4")],
        *[(r"\cos 36^\circ", r"\frac{1+\sqrt5}{4}"), (r"e^{\ln 5}", "5"), (r"\exp 2", "e^2")],
        *[("5!", "120"), (r"\binom52", "10"), (r"\sqrt{16}", "4"), (r"2 \sin x", r"2 \sin x")],
    ],
)
def test_a_function_that_the_gold_has_and_one_that_is_a_value_are_answers(answer, gold):
    assert verify(rf"\boxed{{{answer}}}", gold, format="boxed").verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[("63", "63"), ("-63", "-63"), ("28 + 35 = 63", "63"), ("2^6 - 1", "63")],
        *[("1/2", "0.5"), ("1/2", r"\frac{1}{2}"), ("3 million", "3000000"), ("5 m", "5")],
        *[(r"3 \times 10^8", "300000000"), (r"1 + \sqrt{2}", r"\sqrt{2} + 1"), ("2 + 3", "2 + 3")],
        *[("three dozen", "36"), (r"28 + 35 \approx 63", "63"), ("two and a half", "2.5")],
        *[("10 m/s", "36 km/h"), ("24 m/s", "24"), (r"\$3 million", "3000000"), ("1:2", "0.5")],
        *[(r"\frac15", r"20\%"), (r"\frac12\text{ hour}", "30 minutes"), ("|-63|", "63")],
        *[("E[X] = (1/6)(1+2+3+4+5+6) = 21/6 = 7/2", "3.5"), ("m + n = 3 + 4 = 7 m", "7")],
    ],
)
def test_a_value_in_a_form_of_its_own_is_an_answer(answer, gold):
    assert not is_left_undone(answer, gold, strict=True)
    assert verify(rf"\boxed{{{answer}}}", gold, format="boxed").verdict is Verdict.CORRECT


@pytest.mark.parametrize("answer", ["28 + 35 = 60", "42 = 6*7", "12 o 13", "2y = 60 + 3, y = 3"])
def test_another_number_or_a_product_with_a_letter_is_a_wrong_answer(answer):
    assert verify(rf"\boxed{{{answer}}}", "63", format="boxed").verdict is Verdict.WRONG


@pytest.mark.parametrize("gold", ["x = 63", "(B) 63", r"63\%", "63 thousand"])
def test_a_gold_with_a_name_or_a_mark_asks_for_a_number_too(gold):
    assert is_left_undone("28 + 35", gold)
