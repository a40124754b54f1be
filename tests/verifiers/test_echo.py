"""A formula of the problem is no answer to it, however it is written, and what is asked for is."""

import json
import re
from pathlib import Path

import pytest
from verifier_case_files import shared_rows

from verifiers import Attempt, Verdict, Verifier
from verifiers.extraction.echo import is_echo

ROWS = Path(__file__).resolve().parent / "strangers" / "echoes.jsonl"
FORMS = {
    "boxed": r"\boxed{{{}}}",
    "any": "The answer is ${}$.",
    "think_answer": "<think>t</think><answer>{}</answer>",
}
WRITINGS = {
    "as it stands": "{}",
    "in brackets": "({})",
    "with left and right": r"\left({}\right)",
    "spaced": r"\, {} \;",
    "named": "x = {}",
    "as a member": r"S \in {}",
    "with a full stop": "{}.",
    "with units": r"{} \text{{ units}}",
    "plus 0": "{} + 0",
    "times 1": r"1 \cdot ({})",
    "twice": "{0} = {0}",
    "labelled": "(A) {}",
}
FORMULA = re.compile(r"\$([^$]+)\$|\\\[(.+?)\\\]", re.S)


@pytest.mark.parametrize("answer_format", FORMS)
def test_every_row_has_the_verdict_that_its_writer_gave(answer_format):
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert sum(row["expected"] == "correct" for row in rows) >= 40
    wrong = []
    with Verifier(format=answer_format) as verifier:
        for row in rows:
            text = FORMS[answer_format].format(row["response"])
            attempt = Attempt(text, row["answer"], problem=row["problem"])
            verification = verifier.verify(attempt)
            if verification.verdict != row["expected"]:
                wrong.append((row, verification))
    assert not wrong


@pytest.mark.parametrize("writing", WRITINGS)
def test_hardly_a_formula_of_a_problem_is_paid(writing):
    """On 100 of MATH-500's problems: what is paid is a number, or the gold's own tree."""
    rows = shared_rows("math500.jsonl")[::5]
    paid = set()
    with Verifier(format="boxed") as verifier:
        for row in rows:
            for match in FORMULA.finditer(row["problem"]):
                formula = (match[1] or match[2]).strip().rstrip(".,")
                text = rf"\boxed{{{WRITINGS[writing].format(formula)}}}"
                attempt = Attempt(text, row["answer"], problem=row["problem"])
                if verifier.verify(attempt).verdict is Verdict.CORRECT:
                    paid.add(row["unique_id"])
    assert len(paid) <= 2


def test_no_answer_of_a_reference_solution_is_an_echo():
    for row in shared_rows("math500.jsonl"):
        assert not is_echo(row["answer"], row["problem"], row["answer"])


def test_the_reason_says_so_and_the_answer_is_told():
    attempt = Attempt(r"\boxed{513^2-487^2}", "26000", problem="Find $513^2-487^2$.")
    with Verifier(format="boxed") as verifier:
        verification = verifier.verify(attempt)
        assert verification.verdict is Verdict.NO_ANSWER
        assert verification.extracted == "513^2-487^2"
        assert verification.reason == "last box: a formula of the problem"
        assert verifier.verify(Attempt(r"\boxed{513^2-487^2}", "26000")).verdict == "correct"


def test_a_verdict_of_one_problem_is_not_that_of_another():
    with Verifier(format="boxed") as verifier:
        for problem, verdict in (("Find $|x|<2$.", "no_answer"), ("Solve.", "correct")) * 2:
            attempt = Attempt(r"\boxed{|x|<2}", "(-2, 2)", problem=problem)
            assert verifier.verify(attempt).verdict == verdict


def test_an_echo_casts_no_vote_where_no_gold_is_read():
    problem = "Solve $x^2-5x+6=0$. (A) $x=1$ (B) $x=2$ or $x=3$"
    with Verifier(format="boxed") as verifier:
        for box, vote in (
            ("x^2-5x+6=0", None),
            ("(6 - 5x + x^2 = 0)", None),
            ("2, 3", "2, 3"),
            ("(B)", "(B)"),
        ):
            assert verifier.answer(Attempt(rf"\boxed{{{box}}}", "", problem=problem)) == vote


def test_a_problem_of_many_signs_takes_linear_time():
    problem = "$x+1$ and $" * 20_000
    assert is_echo("x+1", problem, "3")
