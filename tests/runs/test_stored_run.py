"""A run and a result of an earlier version are resumed, shown and compared."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import invoke

STORED = Path(__file__).parent / "stored"
"""Made by commit c2a10d8 with torch 2.13 on a CPU from a model of 3,000 random weights: `run` has
two steps, `unbroken` is what the same run had after a third one, and `result` is an evaluation of
the second step. `make.sh` there has the commands."""
CLOCKED = ("seconds", "per_second", "goodput", "memory", "mfu")
"""Parts of the names of metrics that a machine decides."""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A working directory with a copy of the stored files, whose paths are relative to it."""
    shutil.copytree(STORED, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_stored_run_goes_on_as_the_earlier_version_went_on(place):
    result = invoke("train", "--resume", "run", "--steps", 3, "--reward", "reward.py", "--quiet")
    assert result.exit_code == 0, result.stderr
    rows = read_rows(place / "run" / "metrics.jsonl")
    expected = read_rows(place / "unbroken" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert expected[2]["no_update"] is None
    for key, value in expected[2].items():
        if not any(part in key for part in CLOCKED):
            assert rows[2][key] == pytest.approx(value, abs=1e-6), key
    name = "rollouts/step-000003.jsonl"
    responses = [row["response"] for row in read_rows(place / "run" / name)]
    assert responses == [row["response"] for row in read_rows(place / "unbroken" / name)]
    summary = json.loads((place / "run" / "summary.json").read_text())
    assert (summary["steps"], summary["model"]) == (3, "checkpoints/step-3")


def test_a_stored_run_is_shown(place):
    shown = invoke("show", "run")
    assert shown.exit_code == 0, shown.stderr
    assert "2 of 2 steps" in shown.stdout
    explained = invoke("show", "run", "--explain")
    assert explained.exit_code == 0, explained.stderr
    assert explained.stdout.startswith("Step 2 of")


def test_a_stored_result_is_compared_with_a_new_one(place):
    """The same seed and weights: the new responses are the stored ones."""
    sampling = ("-n", 4, "--max-tokens", 12, "--set", "threads=1")
    result = invoke(
        "eval", "held_out.jsonl", "--model", "run", *sampling, "--out", "new", "--against", "result"
    )
    assert result.exit_code == 0, result.stderr
    report = json.loads((place / "new" / "report.json").read_text())
    (comparison,) = report["against"]["results"]
    assert comparison["pass@k"]["1"]["value"] == 0
    assert not [text for text in comparison["differs"] if text.startswith("sampling")]
    (stored_path,) = (place / "result" / "responses").iterdir()
    (new_path,) = (place / "new" / "responses").iterdir()
    for row, stored in zip(read_rows(new_path), read_rows(stored_path), strict=True):
        for key in ("id", "sample", "response", "extracted", "verdict"):
            assert row[key] == stored[key], key
