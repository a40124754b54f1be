"""A sum that repeats the question is no answer to it."""

import pytest

from verifiers import Attempt, Verdict, Verifier, verify
from verifiers.extraction.undone import is_left_undone, is_refusal


@pytest.mark.parametrize(
    "answer", ["28 + 35", "$28+35$", "28 + 35.", "9 \\times 7", "9 × 7", "70 - 7", "126 ÷ 2", "9*7"]
)
def test_an_operation_between_plain_numbers_is_left_undone(answer):
    assert is_left_undone(answer, "63")
    for response in (answer, f"\\boxed{{{answer.strip('$.')}}}"):
        with Verifier() as verifier:
            assert verifier.verify(Attempt(response, "63")).verdict is not Verdict.CORRECT


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("63", "63"),
        ("-63", "-63"),
        ("28 + 35 = 63", "63"),
        ("126/2", "63"),
        ("\\frac{126}{2}", "63"),
        ("2^6 - 1", "63"),
        ("3 \\times 10^8", "300000000"),
        ("1 + \\sqrt{2}", "\\sqrt{2} + 1"),
        ("3 + 5i", "5i + 3"),
        ("2 + 3", "3 + 2"),
        ("1, -2", "-2, 1"),
    ],
)
def test_a_value_in_a_form_of_its_own_is_an_answer(answer, gold):
    assert not is_left_undone(answer, gold)
    with Verifier() as verifier:
        assert verifier.verify(Attempt(f"\\boxed{{{answer}}}", gold)).verdict is Verdict.CORRECT


def test_a_long_sum_takes_linear_time():
    assert is_left_undone("1+" * 50_000 + "1", "50001")
    assert not is_left_undone("1+" * 50_000 + "x", "50001")


REFUSALS = ["no idea", "No idea.", "idk", "I'm not sure", "I don't know", "can't say", "???", "N/A"]
REFUSALS += ["hmm", "ok", "So", "TODO", "...", "…", "null", "NaN"]


@pytest.mark.parametrize("text", [*REFUSALS, "**unknown**", r"\text{I have no clue}", "Sorry!"])
def test_a_refusal_is_no_answer_and_gives_none_to_vote_with(text):
    assert is_refusal(text)
    for response in (text, rf"\boxed{{{text}}}", f"<answer>{text}</answer>"):
        found = verify(response, "42")
        assert (found.verdict, found.extracted) == ("no_answer", None)


def test_a_gold_may_say_so_and_an_answer_in_words_is_one():
    assert verify("No idea.", "no idea").verdict == "correct"
    for answer in ("none", "no solution", "cannot be determined", "unknown quantity x", "yes"):
        assert not is_refusal(answer)
    assert not is_refusal("I" + " " * 100_000 + "x")
