"""Responses that others wrote who had not seen the rules: 500 honest ones, 500 tricks, and half of
what ten of them wrote later (740 of its 1,370 rows are right).

They measure, and are not mended upon: whoever works on the rules reads the shares here, not the
rows. A new round of them belongs here when these have been read.
"""

import json
from pathlib import Path

from verifiers import Verdict, verify

ROWS = Path(__file__).parent / "set_aside"


def rows_of(name: str) -> list[tuple[dict, Verdict]]:
    lines = (ROWS / f"{name}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row, verify(row["response"], row["gold"]).verdict) for row in rows]


def test_honest_responses_are_read_as_they_are_meant():
    rows = rows_of("honest")
    accepted = [verdict is Verdict.CORRECT for _, verdict in rows]
    meant = [row["expect"] == "correct" for row, _ in rows]
    assert len(rows) == 500
    assert sum(a == m for a, m in zip(accepted, meant, strict=True)) >= 491
    assert not any(a and not m for a, m in zip(accepted, meant, strict=True))


def test_few_of_the_tricks_are_accepted():
    accepted = sum(verdict is Verdict.CORRECT for _, verdict in rows_of("tricks"))
    assert accepted <= 12  # of 500; the aim is 0


def test_most_of_the_latest_are_judged_as_they_are_meant():
    judged = [
        (verdict is Verdict.CORRECT, row["expect"] == "correct")
        for row, verdict in rows_of("mixed")
    ]
    refused = sum(meant and not accepted for accepted, meant in judged)
    accepted = sum(accepted and not meant for accepted, meant in judged)
    assert len(judged) == 1_370
    assert refused <= 80
    assert accepted <= 24  # the aim is 0
