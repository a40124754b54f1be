"""Where the tests find their invented cases and, when it is there, the shared data."""

import json
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SHARED_DATA = HERE.parents[2] / "shared" / "data"


def equality_cases() -> list[tuple[str, str, str, bool]]:
    """(rule, gold, answer, equal) from equality_cases.txt."""
    cases = []
    rule = ""
    for line in (HERE / "equality_cases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and " " not in line:
            rule = line[1:-1]
        elif " ≡ " in line or " ≢ " in line:
            equal = " ≡ " in line
            gold, _, answer = line.partition(" ≡ " if equal else " ≢ ")
            cases.append((rule, gold, answer, equal))
    return cases[1:]  # the first is the comment that explains the signs


def table(name: str) -> list[dict]:
    """The rows of a table of inputs and what is expected of them, to which a row can be added."""
    text = (HERE / "tables" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def shared_rows(name: str) -> list[dict]:
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not at ../shared/data beside this checkout")
    return [json.loads(line) for line in path.open(encoding="utf-8")]
