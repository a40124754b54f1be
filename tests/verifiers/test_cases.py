"""Responses by the place of their answer, written by several people who did not know the rules.

Kept are those whose verdict the page of rules predicts: prose around a mark decides nothing.
"""

import json
from pathlib import Path

import pytest

from verifiers import Attempt, Verdict, Verifier

CASES = Path(__file__).resolve().parent / "cases"
FILES = sorted(path.name for path in CASES.glob("*.jsonl"))


def rows_of(name: str) -> list[dict]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", FILES)
def test_every_case_is_judged_as_its_writer_did(name: str) -> None:
    wrong = []
    rows = rows_of(name)
    for format in sorted({row["format"] for row in rows}):
        with Verifier(format=format) as verifier:
            for row in rows:
                if row["format"] == format:
                    verification = verifier.verify(Attempt(row["response"], row["answer"]))
                    if (verification.verdict is Verdict.CORRECT) != row["expected"]:
                        wrong.append((row["kind"], row["response"], row["answer"], verification))
    assert not wrong


def test_each_place_has_right_and_wrong_ones() -> None:
    by_place = {name: [row["expected"] for row in rows_of(name)] for name in FILES}
    assert set(FILES) == {
        f"{place}.jsonl"
        for place in ("block", "box", "boxed", "hashes", "prose", "statement", "think_answer")
    }
    assert all(min(given.count(True), given.count(False)) >= 60 for given in by_place.values())
    assert sum(map(len, by_place.values())) <= 3_000
