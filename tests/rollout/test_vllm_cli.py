"""vLLM through the command line, as a process: a run, its mistakes, and what it leaves behind."""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import util
from pathlib import Path

import pytest
import yaml
from killed_runs import killed_with_responses_under_way_and_a_batch_ahead

pytestmark = pytest.mark.skipif(util.find_spec("vllm") is None, reason="vLLM is not installed here")
_PATIENCE = 120


def rows(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_five_steps_of_training_with_vllm(rlvr, tmp_path):
    fast = ("--lr", "4e-4", "--set", "optim.warmup_steps=0")
    result = rlvr("train", "-v", "--engine", "vllm", "--steps", "5", *fast, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "engine vllm (0." in result.stderr
    assert "as set" in result.stderr
    steps = rows(result.stdout)
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    assert all(step["mismatch"] < 1e-5 for step in steps)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["after"]["pass@1"] > summary["before"]["pass@1"]
    figures = summary["figures"]
    assert figures["tokens_sampled"] == sum(step["tokens_sampled"] for step in steps)
    assert figures["mismatch_max"] == max(step["mismatch"] for step in steps)
    for phase in ("rollout", "verification", "logprobs", "update", "sync"):
        seconds = sum(step[f"seconds_{phase}"] for step in steps)
        assert figures[f"seconds_{phase}"] == pytest.approx(seconds) != 0
    assert figures["signal_share"] > 0
    assert "engine and trainer differ by at most" in " ".join(result.stderr.split())


def test_eval_and_sample_with_vllm_take_the_weights_of_the_run(rlvr):
    question = '{"problem": "What is 3 + 4?", "answer": 7}\n'
    greedy = ("--temperature", "0", "-n", "2")
    both = [
        rlvr("eval", "-", "--engine", engine, *greedy, stdin=question)
        for engine in ("vllm", "transformers")
    ]
    assert [result.returncode for result in both] == [0, 0], both[0].stderr
    assert both[0].stdout == both[1].stdout
    assert len(rows(both[0].stdout)) == 2
    sampled = rlvr("sample", "What is 3 + 4?", "--engine", "vllm")
    assert len(rows(sampled.stdout)) == 1, sampled.stderr


def test_auto_takes_transformers_where_there_is_no_gpu(rlvr):
    result = rlvr("sample", "What is 1 + 1?")
    assert "engine transformers (auto: there is no GPU" in result.stderr


def test_an_architecture_that_vllm_does_not_know_is_refused_before_loading(rlvr, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    config = {"model_type": "codegen", "architectures": ["CodeGenForCausalLM"]}
    (model / "config.json").write_text(json.dumps(config))
    result = rlvr("sample", "Hello", "--engine", "vllm", "--model", "./model")
    assert result.returncode == 2
    assert "does not know the architecture CodeGenForCausalLM" in result.stderr
    assert "Traceback" not in result.stderr


def family(ancestor: int) -> set[tuple[int, str]]:
    """Pid and start time of the process, its descendants, and all in a session that it leads."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, _, session, *rest = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                stats[int(path.parent.name)] = (int(parent), int(session), rest[15])
    actual = {pid for pid, (_, session, _) in stats.items() if ancestor in (pid, session)}
    while more := {pid for pid, (parent, _, _) in stats.items() if parent in actual} - actual:
        actual |= more
    return {(pid, stats[pid][2]) for pid in actual}


def living(processes: set[tuple[int, str]]) -> set[tuple[int, str]]:
    return {process for process in processes if process in family(process[0])}


@pytest.mark.parametrize("end", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_outlives_the_command(tmp_path, end):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "rlvr_cli",
            "train",
            "--engine",
            "vllm",
            "--steps",
            "9999",
            "--out",
            "run",
            "--set",
            "eval.limit=0",
        ],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert json.loads(process.stdout.readline())["step"] == 1
        started = family(process.pid)
        assert living(started) == started != set()
        process.send_signal(signal.Signals[end])
        process.stdout.read()
        code = process.wait(_PATIENCE)
        deadline = time.monotonic() + _PATIENCE
        while living(started) | family(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert living(started) | family(process.pid) == set()
    finally:
        process.kill()
        process.wait()
    assert code == {"SIGINT": 130, "SIGTERM": 130, "SIGKILL": -9}[end]
    if end != "SIGKILL":
        config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
        assert config["engine"] == "vllm"
        assert list((tmp_path / "run" / "checkpoints").iterdir())


SMALL = (
    "--engine",
    "vllm",
    "--prompts",
    "3",
    "-n",
    "4",
    "--max-tokens",
    "30",
    "--limit",
    "16",
    "--quiet",
    "--set",
    "eval.limit=0",
    "--set",
    "rollout.kv_budget_mb=64",
)


def test_two_processes_with_a_vllm_each(rlvr, tmp_path):
    """To the byte; and closing the first of two engines leaves the processes together."""
    alone = rlvr("train", *SMALL, "--steps", "2", "--out", "one")
    assert alone.returncode == 0, alone.stderr
    own = rlvr("train", *SMALL, "--steps", "2", "--processes", "2", "--out", "own")
    assert own.returncode == 0, own.stderr
    for step in ("step-000001", "step-000002"):
        first, second = (tmp_path / run / "rollouts" / f"{step}.jsonl" for run in ("one", "own"))
        assert first.read_bytes() == second.read_bytes()
    arguments = ("eval", *SMALL[:2], "--model", "tiny", "--model", "own", "--limit", "5", "-n", "2")
    both = rlvr(*arguments, "--max-tokens", "30", "--quiet", "--processes", "2", "--out", "result")
    assert both.returncode == 0, both.stderr
    report = json.loads((tmp_path / "result" / "report.json").read_text())
    assert len(report["results"]) == 2


def test_killed_with_vllm_and_responses_under_way_it_is_the_unbroken_run(tmp_path):
    killed_with_responses_under_way_and_a_batch_ahead(tmp_path, "vllm")
