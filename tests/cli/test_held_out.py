"""Several held-out sets: each is measured, drawn and summarized by itself, also after a resume."""

import json
from pathlib import Path

import pytest
from conftest import invoke, jsonl

FEW = ("--algo", "grpo", "--prompts", "2", "-n", "2", "--max-tokens", "40", "--limit", "16")


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.open()]


def pass_at_1(rows: list[dict], name: str) -> float:
    right = [row["verdict"] == "correct" for row in rows if row["problem_set"] == name]
    return sum(right) / len(right)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two steps, the second one measured on two sets of four and two problems."""
    place = tmp_path_factory.mktemp("held-out")
    listing = invoke("eval", "chains", "--limit", "6", "-n", "1", "-q").stdout.splitlines()
    rows = [json.loads(line) for line in listing]
    for name, part in (("easy.jsonl", rows[:4]), ("other.jsonl", rows[4:])):
        problems = ({"problem": row["problem"], "answer": row["answer"]} for row in part)
        (place / name).write_text(jsonl(*problems))
    sets = f"eval.source=[{place}/easy.jsonl,{place}/other.jsonl]"
    run = place / "run"
    result = invoke("train", *FEW, "--steps", "2", "--eval-every", "2", "--set", sets, "--out", run)
    assert result.exit_code == 0, result.stderr
    (place / "said").write_text(result.stderr)
    return run


def test_each_set_has_its_metrics_and_its_part_of_the_summary(run):
    _, metrics = rows_of(run / "metrics.jsonl")
    rows = rows_of(run / "rollouts" / "held-out-step-000002.jsonl")
    easy, hard = (pass_at_1(rows, name) for name in ("easy.jsonl", "other.jsonl"))
    assert len(rows) == 6 * 4
    assert metrics["held_out_pass@1"] == pytest.approx(easy)
    assert metrics["held_out_pass@1/other.jsonl"] == pytest.approx(hard)
    low, high = (metrics[f"held_out_pass@1_{end}/other.jsonl"] for end in ("low", "high"))
    assert 0 <= low <= hard <= high <= 1
    assert 0 <= metrics["held_out_cons@k/other.jsonl"] <= 1
    after = json.loads((run / "summary.json").read_text())["after"]
    assert after["pass@1"] == after["sets"]["easy.jsonl"]["pass@1"] == metrics["held_out_pass@1"]
    assert after["sets"]["other.jsonl"]["problems"] == 2
    assert after["sets"]["other.jsonl"]["cons@k"] == metrics["held_out_cons@k/other.jsonl"]
    assert after["sets"]["other.jsonl"]["interval"] == [low, high]


def test_each_set_is_said_drawn_and_shown(run):
    message = (run.parent / "said").read_text()
    assert "6 held out (" in message
    for words in ("easy.jsonl: 0.", "other.jsonl: 0.", "held out: pass@1, × cons@k"):
        assert words in message
    assert message.count(" before, ") == 2
    output = invoke("show", run).stdout
    assert "held out other.json" in output
    assert f"{run}: easy.jsonl" in output
    assert "| after training, other.jsonl | 0." in card(run)


def card(run: Path) -> str:
    result = invoke("export", run, "--out", run.parent / "exported")
    assert result.exit_code == 0, result.stderr
    return (run.parent / "exported" / "README.md").read_text()


def test_a_set_alone_is_measured_as_rlvr_eval_does(run):
    other_set = run.parent / "other.jsonl"
    result = invoke("eval", other_set, "--model", run, "-q", "--max-tokens", "40")
    alone = {
        (row["id"], row["sample"]): row["response"]
        for row in map(json.loads, result.stdout.splitlines())
    }
    rows = rows_of(run / "rollouts" / "held-out-after.jsonl")
    in_run = {(r["id"], r["sample"]): r["response"] for r in rows if "other" in r["problem_set"]}
    assert alone == in_run


def test_a_resumed_run_keeps_what_was_measured_of_each_set(run):
    first = json.loads((run / "summary.json").read_text())
    result = invoke("train", "--resume", run, "--steps", "4")
    assert result.exit_code == 0, result.stderr
    longer = json.loads((run / "summary.json").read_text())
    assert longer["before"] == first["before"]
    assert list(longer["after"]["sets"]) == ["easy.jsonl", "other.jsonl"]
    measured = [row["step"] for row in rows_of(run / "metrics.jsonl") if "held_out_pass@1" in row]
    assert measured == [2, 4]


def test_a_set_that_is_not_there_is_one_line(run):
    sets = f"eval.source=[{run.parent}/easy.jsonl,nowhere.jsonl]"
    result = invoke("train", *FEW, "--set", sets, "--out", run.parent / "none")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("rlvr: error: nowhere.jsonl")


def test_held_out_problems_that_share_an_id_are_refused(run):
    twice = run.parent / "twice.jsonl"
    twice.write_text(jsonl(*({"id": 1, "problem": f"{n} + 1", "answer": n + 1} for n in (1, 2))))
    result = invoke("train", *FEW, "--set", f"eval.source={twice}", "--out", run.parent / "none")
    assert result.exit_code == 2
    assert "the id 1 is that of another problem" in result.stderr.splitlines()[-1]
