"""A computation that repeats the question is no answer to it."""

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.undone import is_left_undone


@pytest.mark.parametrize(
    "answer",
    ["28 + 35", "$28+35$", r"9 \times 7", "(3)(21)", "x = 9*7", "(B) 9*7", "28 + 35 dollars"],
)
def test_a_sum_or_product_is_left_undone_in_any_format(answer):
    assert is_left_undone(answer, "63")
    assert is_left_undone(answer, "63 dollars")
    assert verify(rf"\boxed{{{answer}}}", "63").verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    "answer", ["126/2", r"\frac{126}{2}", "126 ÷ 2", r"\frac{100+26}{2}", "126/2 apples", "126/2 m"]
)
def test_a_quotient_is_left_undone_in_strict_formats_where_a_whole_number_is_asked_for(answer):
    assert is_left_undone(answer, "63", strict=True)
    assert verify(rf"\boxed{{{answer}}}", "63", format="boxed").verdict is Verdict.NO_ANSWER
    block = f"<think>t</think><answer>{answer}</answer>"
    assert verify(block, "63", format="think_answer").verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[("63", "63"), ("-63", "-63"), ("28 + 35 = 63", "63"), ("2^6 - 1", "63")],
        *[("1/2", "0.5"), ("1/2", r"\frac{1}{2}"), ("3 million", "3000000"), ("5 m", "5")],
        *[(r"3 \times 10^8", "300000000"), (r"1 + \sqrt{2}", r"\sqrt{2} + 1"), ("2 + 3", "2 + 3")],
    ],
)
def test_a_value_in_a_form_of_its_own_is_an_answer(answer, gold):
    assert not is_left_undone(answer, gold, strict=True)
    assert verify(rf"\boxed{{{answer}}}", gold, format="boxed").verdict is Verdict.CORRECT
