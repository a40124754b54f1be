"""The accuracy floors of the development cases, where the shared data is there."""

import time
from collections import Counter

import pytest
from verifier_case_files import shared_rows

from verifiers import Attempt, Verdict, Verifier

LIMIT_S, SLACK_S = 2.0, 5.0


def judged(name: str) -> list[tuple[dict, Verdict]]:
    rows = shared_rows(name)
    with Verifier(timeout=LIMIT_S) as verifier:
        verifications = verifier.verify_many(
            [Attempt(row["response"], row["answer"]) for row in rows]
        )
    return [(row, item.verdict) for row, item in zip(rows, verifications, strict=True)]


def accuracy(pairs: list[tuple[dict, Verdict]]) -> float:
    judged_pairs = [(row, verdict) for row, verdict in pairs if row["expected"] is not None]
    return sum((v is Verdict.CORRECT) == row["expected"] for row, v in judged_pairs) / len(
        judged_pairs
    )


def test_reviewed_cases() -> None:
    pairs = judged("verifier_dev.jsonl")
    assert accuracy(pairs) >= 0.985
    assert not [
        row["id"]
        for row, verdict in pairs
        if row["category"] == "reward_hacking" and verdict is Verdict.CORRECT
    ]


def test_real_responses() -> None:
    assert accuracy(judged("verifier_real_dev.jsonl")) == 1.0


@pytest.mark.parametrize(("name", "least"), [("math500.jsonl", 0.99), ("aime24.jsonl", 0.96)])
def test_reference_solutions_state_their_answers(name: str, least: float) -> None:
    """Diagrams, proofs, signatures and other solutions follow their boxes."""
    rows = shared_rows(name)
    with Verifier() as verifier:
        right = [
            verifier.verify(Attempt(row["solution"], str(row["answer"]))).verdict is Verdict.CORRECT
            for row in rows
        ]
    assert sum(right) >= least * len(rows)


def test_pathological_answers_return_in_time() -> None:
    rows = shared_rows("verifier_pathological_dev.jsonl")
    with Verifier(timeout=LIMIT_S) as verifier:
        for row in rows:
            started = time.monotonic()
            verdict = verifier.verify(Attempt(row["response"], row["answer"])).verdict
            assert time.monotonic() - started < LIMIT_S + SLACK_S, row["id"]
            if row["expected"] is not None:
                assert (verdict is Verdict.CORRECT) == row["expected"], row["id"]


@pytest.mark.parametrize(
    "name", ["math500.jsonl", "aime24.jsonl", "amc23.jsonl", "gsm8k_test.jsonl"]
)
def test_every_gold_answer_is_readable(name: str) -> None:
    with Verifier() as verifier:
        bad = Counter(
            str(row["answer"])
            for row in shared_rows(name)
            if not verifier.check_gold(str(row["answer"]))
        )
    assert not bad
