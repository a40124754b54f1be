"""`rlvr eval --responses`: rows of any tool become figures, each under its own label and format."""

import json

import pytest
from conftest import jsonl
from typer.testing import CliRunner

from rlvr_cli.cli.main import app

RIGHT = {"id": "a", "answer": "7", "response": "<think>x</think><answer>7</answer>", "level": 1}
LOOSE = {"id": "a", "answer": "7", "response": "It is 7.", "level": 1}


def score(*args, rows) -> tuple[list[dict], str]:
    done = CliRunner().invoke(app, ["eval", "--responses", "-", *args], input=jsonl(*rows))
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def verdicts(found: list[dict]) -> list[str]:
    return [row["verdict"] for row in found]


def test_the_format_is_what_was_asked_for_else_what_the_rows_say():
    said = {"verifier": "think_answer"}
    found, words = score(rows=[RIGHT, LOOSE])
    assert verdicts(found) == ["correct", "correct"]
    assert "judged as  " not in words
    found, words = score(rows=[RIGHT | said, LOOSE | said])
    assert verdicts(found)[0] == "correct"
    assert verdicts(found)[1] != "correct"
    assert "judged as  think_answer, as the rows say" in words
    found, _ = score("--set", "data.answer_format=any", rows=[RIGHT | said, LOOSE | said])
    assert verdicts(found) == ["correct", "correct"]


def test_each_label_has_its_own_figures_and_rows_in_the_order_of_labels():
    rows = [
        LOOSE | {"model": model, "problem_set": data, "response": text}
        for model, data, text in (
            ("m", "d", "7"),
            ("n", "d", "8"),
            ("m", "e", "7"),
            ("m", "d", "8"),
        )
    ]
    found, words = score(rows=rows)
    assert [(r["model"], r["problem_set"]) for r in found] == [
        ("m", "d"),
        ("m", "d"),
        ("n", "d"),
        ("m", "e"),
    ]
    for figure, label in (("0.5000", "m on d"), ("0.0000", "n on d"), ("1.0000", "m on e")):
        assert f"{figure} with {label} (1 problem, " in words
    assert "judged     4 responses in " in words


@pytest.mark.parametrize("judge", ["rlvr", "math-verify"])
def test_the_judge_is_in_the_fingerprint(tmp_path, judge):
    score("--judge", judge, "--out", str(tmp_path / "out"), rows=[RIGHT])
    (entry,) = json.loads((tmp_path / "out/report.json").read_text())["results"]
    verifier = entry["fingerprint"]["verifier"]
    assert verifier["format"] == "any"
    assert verifier.get("judge", "rlvr") == judge
    assert entry["fingerprint"].keys() == {"data", "rlvr", "verifier"}


def test_a_field_is_looked_for_before_anything_is_judged(monkeypatch):
    monkeypatch.setattr("rlvr_cli.cli.responses.judged_rows", lambda *args: pytest.fail("judged"))
    args = ["eval", "--responses", "-", "--by", "lvl"]
    done = CliRunner().invoke(app, args, input=jsonl(RIGHT))
    assert done.exit_code == 2
    assert "lvl" in done.stderr
