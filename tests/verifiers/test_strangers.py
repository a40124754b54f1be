"""Answers as strangers' files write them, in containers and in code, and what must not be paid."""

import json
from pathlib import Path

import pytest
from verifier_case_files import shared_rows

from verifiers import Attempt, Verdict, Verifier

ROWS = [
    json.loads(line)
    for line in (Path(__file__).resolve().parent / "strangers" / "containers.jsonl")
    .read_text("utf-8")
    .splitlines()
]
KINDS = sorted({row["kind"] for row in ROWS})


def wrong_ones(rows, gold_name):
    """The rows whose verdict is not the one that their writer gave."""
    wrong = []
    for answer_format in ("any", "boxed"):
        with Verifier(format=answer_format) as verifier:
            for row in rows:
                if row["format"] == answer_format:
                    actual = verifier.verify(Attempt(row["response"], row[gold_name]))
                    if (actual.verdict is Verdict.CORRECT) != row["expected"]:
                        wrong.append((row["response"][-200:], row[gold_name], actual))
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_read_and_what_looks_like_it_is_not_paid(kind):
    rows = [row for row in ROWS if row["kind"] == kind]
    assert {row["expected"] for row in rows} == {True, False}
    assert wrong_ones(rows, "answer") == []


def test_real_responses_of_these_kinds():
    assert wrong_ones(shared_rows("verifier_containers_dev.jsonl"), "gold") == []


@pytest.mark.parametrize(
    ("response", "gold", "verdict", "reason"),
    [
        ('{"answer": null}', "5", "no_answer", "last JSON answer: empty"),
        ('{"answer": "8", "guess": 5}', "5", "wrong", "last JSON answer: exact number"),
        ("It cannot be (B).", "B", "no_answer", "last choice"),
        ("It is:\n\nC. fat\n\nIt is at hand.", "C", "correct", "first choice: same string"),
        ("The answer is not 7.", "7", "wrong", 'last "answer is": value'),
        (r"\boxed{1, 2}", "1, 3", "wrong", "last box: other members"),
    ],
)
def test_the_reason_names_the_rule(response, gold, verdict, reason):
    with Verifier() as verifier:
        actual = verifier.verify(Attempt(response, gold))
    assert (actual.verdict, actual.reason) == (verdict, reason)


def test_a_letter_is_asked_for_in_a_box_too():
    response = r"\boxed{B} follows from \boxed{v = 3}."
    with Verifier(format="boxed") as verifier:
        assert verifier.verify(Attempt(response, "B")).verdict == "correct"
        assert verifier.verify(Attempt(response, "3")).verdict == "correct"
        assert verifier.verify(Attempt(response, "D")).verdict == "wrong"
