"""Logs that lm-eval 0.4.13, lighteval 0.13.0 and inspect 0.3.285 wrote of the built-in policy and
of a mock model (of inspect's, the events are left out), by the lines of docs/evaluating.md."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import invoke

LOGS = Path(__file__).parent / "logs"
PAGE = Path(__file__).parents[2] / "docs" / "evaluating.md"


def scored(log: str) -> tuple[dict, list[dict]]:
    """The report's entry, and the rows as they were judged."""
    if shutil.which("jq") is None:
        pytest.skip("no jq here to run the lines of docs/evaluating.md")
    (line,) = re.findall(rf"^.*\b{re.escape(log)}\b.*\| rlvr eval .*$", PAGE.read_text(), re.M)
    command = line.rpartition(" | ")[0].replace("python -c", f"{sys.executable} -c")
    words = ["bash", "-c", f"set -o pipefail; {command}"]
    done = subprocess.run(words, cwd=LOGS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = invoke("eval", "--responses", "-", "--format", "json", stdin=done.stdout)
    rows = invoke("eval", "--responses", "-", stdin=done.stdout)
    (entry,) = json.loads(report.stdout)["results"]
    return entry, [json.loads(line) for line in rows.stdout.splitlines()]


def test_lm_evals_samples_give_its_own_figure():
    lines = [json.loads(line) for line in (LOGS / "lm_eval.jsonl").read_text().splitlines()]
    theirs = [row["exact_match"] for row in lines if row["filter"] == "strict-match"]
    entry, rows = scored("lm_eval.jsonl")
    assert entry["pass@k"]["1"]["value"] == pytest.approx(sum(theirs) / len(theirs)) != 0
    assert len(lines) == 2 * len(rows) == 6  # a row for each of two filters
    assert rows[0]["problem"] == "Start at 3, keep last digits: (a) +4"
    assert rows[0]["answer"] == "7"


def test_lightevals_details_give_its_own_figure_but_for_the_tags_that_it_does_not_know():
    theirs = pyarrow.parquet.read_table(LOGS / "lighteval.parquet").to_pylist()
    entry, rows = scored("lighteval.parquet")
    assert [row["response"] for row in rows] == [
        item["model_response"]["text"][0] for item in theirs
    ]
    assert [item["metric"]["extractive_match"] for item in theirs] == [0, 0, 0]
    assert [row["verdict"] for row in rows] == ["wrong", "wrong", "correct"]
    assert rows[2]["response"].endswith("<answer>5</answer>")
    assert entry["problems"] == 3


def test_inspects_log_gives_its_own_figure_by_its_model_and_task():
    log = json.loads((LOGS / "inspect.json").read_text())
    theirs = [sample["scores"]["match"]["value"] == "C" for sample in log["samples"]]
    entry, rows = scored("inspect.json")
    assert (entry["model"], entry["data"]) == ("mockllm/model", "sums")
    assert entry["pass@k"]["1"]["value"] == sum(theirs) / len(theirs) == 0.25
    assert [(row["id"], row["level"]) for row in rows] == [("sum-a", 1)] * 2 + [("sum-b", 2)] * 2
    assert [row["n_tokens"] for row in rows] == [7, 15, 15, 1]
