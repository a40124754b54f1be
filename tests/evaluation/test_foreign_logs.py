"""Logs that lm-eval 0.4.13, lighteval 0.13.0 and inspect 0.3.285 wrote of the built-in policy and
of a mock model (of inspect's, the events are left out), and logs of other layouts."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import invoke, jsonl

from rlvr_cli.evaluation.foreign_logs import response_rows
from rlvr_cli.evaluation.responses import read_responses

LOGS = Path(__file__).parent / "logs"


def scored(log: str) -> tuple[dict, list[dict]]:
    """The report's entry, and the rows as they were judged."""
    report = invoke("eval", "--responses", LOGS / log, "--format", "json")
    rows = invoke("eval", "--responses", LOGS / log)
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
    assert [row["response"] for row in rows] == [one["model_response"]["text"][0] for one in theirs]
    assert [one["metric"]["extractive_match"] for one in theirs] == [0, 0, 0]
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


def larger(log: str, times: int, path: Path) -> None:
    """Write the log with its samples so many times, each time as other problems."""
    if log.endswith(".parquet"):
        rows = pyarrow.parquet.read_table(LOGS / log).to_pylist()
        docs = [
            row | {"doc": row["doc"] | {"id": f"{n}-{row['doc']['id']}"}}
            for n, row in many(rows, times)
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(docs), path)
    elif log.endswith(".jsonl"):
        rows = [json.loads(line) for line in (LOGS / log).read_text().splitlines()]
        path.write_text(
            jsonl(*(row | {"doc_id": f"{n}-{row['doc_id']}"} for n, row in many(rows, times)))
        )
    else:
        whole = json.loads((LOGS / log).read_text())
        samples = [one | {"id": f"{n}-{one['id']}"} for n, one in many(whole["samples"], times)]
        path.write_text(json.dumps(whole | {"samples": samples}))


def many(rows: list, times: int) -> list:
    return [(n, row) for n in range(times) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("log", ["lm_eval.jsonl", "lighteval.parquet", "inspect.json"])
def test_killed_midway_the_same_command_ends_as_if_it_had_not_been(tmp_path, log):
    larger(log, 2_000, tmp_path / log)
    command = [sys.executable, "-m", "rlvr_cli", "eval", "--responses", log, "--out"]
    process = subprocess.Popen([*command, "killed"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed" / "unfinished").exists():  # held before the first is judged
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(0.1)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed" / "report.json").exists()
    found = []
    for out in ("killed", "whole"):
        subprocess.run([*command, out], cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
        report = json.loads((tmp_path / out / "report.json").read_text())
        (rows,) = (tmp_path / out / "responses").iterdir()
        found.append((report["results"], rows.read_bytes()))
        assert not (tmp_path / out / "unfinished").exists()
    assert found[0] == found[1]
    assert found[0][0][0]["responses"] == 2_000 * (3 if log != "inspect.json" else 4)


LIGHT = {"model_response": {"text": ["5"]}}
SEVERAL = {"id": 1, "input": "q", "target": ["3", "5"]}
SEVERAL["output"] = {"choices": [{"stop_reason": "stop"}], "completion": "5"}


@pytest.mark.parametrize(
    ("row", "tool"),
    [
        ({"doc": {}, "doc_id": 1, "resps": [["a"], ["b"]], "target": "1"}, "lm-eval"),
        ({"doc": {}, "doc_id": 1, "resps": [["a"]], "target": ["2", "two"]}, "lm-eval"),
        ({"doc": 3, "doc_id": 1, "resps": [["a"]], "target": "1"}, "lm-eval"),
        (
            {"doc": {"query": "q", "choices": [], "gold_index": 0}, "model_response": {}},
            "lighteval",
        ),
        (
            {"doc": {"query": "q", "choices": ["3", "5"], "gold_index": [0, 1]}, **LIGHT},
            "lighteval",
        ),
        ({"version": 2, "eval": {"model": "m", "task": "t"}, "samples": [SEVERAL]}, "inspect"),
        ({"version": 2, "eval": {}, "samples": []}, "inspect"),
        (
            {"version": 2, "eval": {"model": "m", "task": "t"}, "samples": [{"input": []}]},
            "inspect",
        ),
    ],
)
def test_another_layout_is_one_line(tmp_path, row, tool):
    path = tmp_path / "log.jsonl"
    path.write_text(jsonl(row))
    done = invoke("eval", "--responses", path)
    assert done.exit_code == 2
    assert f"log.jsonl:1: looks like a log of {tool}, of another layout" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_packed_log_of_inspect_says_how_to_unpack_it():
    done = invoke("eval", "--responses", "run.eval")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "run.eval: a packed log of inspect; unpack it with inspect log convert" in done.stderr


def test_other_rows_stay_as_they_are():
    rows = [("f:1", 1, {"doc": "d", "response": "r"}), ("f:2", 2, ["x"])]
    assert list(response_rows(rows)) == rows


def test_a_chat_is_asked_by_its_last_user_turn(tmp_path):
    turns = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "x"}]
    sample = {"id": 1, "input": [*turns, {"role": "user", "content": "q"}], "target": ["7"]}
    sample["output"] = {"choices": [{"stop_reason": "max_tokens"}], "completion": "It is 7"}
    log = {"version": 2, "eval": {"model": "m", "task": "t"}, "samples": [sample]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    (row,) = read_responses(str(tmp_path / "log.json"), None, False)
    assert (row.problem.problem, row.problem.answer, row.finish_reasons) == ("q", "7", ("length",))
