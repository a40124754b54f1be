"""Responses written by several people, each not knowing what the verifier does: by category."""

import json
from collections import Counter
from pathlib import Path

import pytest

from verifiers import Attempt, Verdict, Verifier

CASES = Path(__file__).resolve().parent / "cases"
FILES = sorted(path.name for path in CASES.glob("*.jsonl"))


def judged(path: Path) -> list[tuple[dict, bool]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found = []
    for format in sorted({row["format"] for row in rows}):
        chosen = [row for row in rows if row["format"] == format]
        with Verifier(format=format) as verifier:
            verdicts = verifier.verify_many(
                [Attempt(row["response"], row["answer"]) for row in chosen]
            )
        found += [
            (row, item.verdict is Verdict.CORRECT)
            for row, item in zip(chosen, verdicts, strict=True)
        ]
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_case_is_judged_as_its_writer_did(name: str) -> None:
    wrong = [(row, correct) for row, correct in judged(CASES / name) if correct != row["expected"]]
    by_kind = Counter(row["kind"] for row, _ in wrong)
    assert not wrong, (dict(by_kind), [(row["response"], row["answer"]) for row, _ in wrong])


def test_what_is_beyond_reach_is_little() -> None:
    """Cases that are judged otherwise than their writers did: a rule for each would be one too
    many."""
    wrong = [
        row
        for row, correct in judged(CASES.with_name("beyond_reach.jsonl"))
        if correct != row["expected"]
    ]
    assert len(wrong) <= 90


def test_there_are_many_cases_of_many_kinds() -> None:
    lines = [line for name in FILES for line in (CASES / name).read_text("utf-8").splitlines()]
    rows = [json.loads(line) for line in lines]
    assert len(rows) > 20_000
    assert sum(row["trick"] for row in rows) > 5_000
    assert len({row["kind"] for row in rows}) > 60
