"""What can fail under a run: the disk, a checkpoint, the data, the engine, a verifier worker."""

import errno
import fcntl
import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from conftest import small_run
from forked import forked
from test_resume import same_files
from typer.testing import CliRunner

from rlvr_cli.__main__ import main
from rlvr_cli.cli.main import app
from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.runs.checkpoint import intact_checkpoints
from verifiers import api

STEPS = 4


@pytest.fixture
def whole(finished_run) -> Path:
    return finished_run


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def invoke(*args: str):
    return CliRunner().invoke(app, list(args))


def resumed(run: Path):
    return invoke("train", "--resume", str(run), "--quiet")


def assert_whole(run: Path, whole: Path) -> None:
    assert same_files(whole, run, "rollouts/*.jsonl")
    assert same_files(whole, run, f"checkpoints/step-{STEPS}/**/*.safetensors")


def damage(run: Path, step: int, how: str) -> None:
    path = run / "checkpoints" / f"step-{step}" / "model.safetensors"
    if how == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "one bit":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif how == "file gone":
        path.unlink()
    else:
        (path.parent / "manifest.json").write_text(how)


@pytest.mark.parametrize("how", ["truncated", "one bit", "file gone", "", "[]", '{"a": 1}'])
def test_a_damaged_checkpoint_is_seen(run, how):
    damage(run, 4, how)
    lines = list[str]()
    actual = next(intact_checkpoints(run, lines.append), None)
    assert actual is not None
    assert actual.step == 3
    assert len(lines) == 1
    assert "step-4 is damaged: " in lines[0]


@pytest.mark.parametrize("how", ["truncated", "one bit"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(run, whole, how):
    damage(run, 4, how)
    damage(run, 3, how)
    result = resumed(run)
    assert result.exit_code == 0, result.stderr
    assert "step-4 is damaged: the checksum of model.safetensors differs" in result.stderr
    assert [json.loads(line)["step"] for line in result.stdout.splitlines()] == [3, 4]
    assert_whole(run, whole)


def test_a_damaged_checkpoint_is_not_measured(run):
    damage(run, 4, "one bit")
    result = invoke("sample", "What is 1 + 1?", "--model", str(run))
    assert result.exit_code == 2
    assert "step-4 is damaged: the checksum of model.safetensors differs; take another" in (
        result.stderr
    )
    shutil.rmtree(run / "checkpoints" / "step-3" / "trainer")
    step = str(run / "checkpoints" / "step-3")
    assert invoke("sample", "What is 1 + 1?", "--model", step).exit_code == 0


def test_when_all_are_damaged_nothing_is_touched(run):
    for step in range(1, STEPS + 1):
        damage(run, step, "truncated")
    metrics = (run / "metrics.jsonl").read_bytes()
    result = resumed(run)
    assert result.exit_code == 2
    assert "every checkpoint is damaged; start a new run" in result.stderr
    assert (run / "metrics.jsonl").read_bytes() == metrics


def test_what_a_sudden_end_left_behind_is_cleared(run, whole):
    for name in ("checkpoints/.step-2.removed", "checkpoints/.step-5.partial"):
        shutil.copytree(run / "checkpoints" / "step-2", run / name)
    (run / "rollouts" / ".step-000005.jsonl.partial").write_text("{")
    (run / ".summary.json.partial").write_text("{")
    assert resumed(run).exit_code == 0
    assert not [path for path in run.rglob(".*") if path.name != ".lock"]
    assert_whole(run, whole)


def test_half_a_line_of_metrics_is_cut_off(run, whole):
    damage(run, 4, "truncated")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "rew')
    assert resumed(run).exit_code == 0
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()]
    assert steps == [1, 2, 3, 4]


def test_the_newest_and_the_best_are_kept(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    measured = {row["step"]: row["held_out_pass@1"] for row in rows if "held_out_pass@1" in row}
    assert list(measured) == [2, 4]
    best = json.loads((run / "summary.json").read_text())["best"]
    assert best["pass@1"] == max(measured.values()) == measured[best["step"]]


@pytest.mark.parametrize("every", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_best_checkpoint_outlives_newer_ones(tmp_path, every):
    run = tmp_path / "run"
    settings = ("--algo", "grpo", "--set", "eval.every=1", "--set", "checkpoint.keep=1", "--quiet")
    settings += ("--lr", "0.05", "--set", f"checkpoint.every={every}")
    assert invoke(*small_run("--steps", "4", *settings, "--out", str(run))).exit_code == 0
    best = json.loads((run / "summary.json").read_text())["best"]["step"]
    assert best < 4  # such a learning rate ruins the policy
    actual = {path.name for path in (run / "checkpoints").iterdir()}
    assert actual == {f"step-{best}", "step-4"}


def test_a_run_in_use_is_refused(run):
    with (run / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = resumed(run)
    assert result.exit_code == 2
    assert "another process is using it" in result.stderr


def test_a_full_disk_stops_the_run_clearly_and_spoils_nothing(tmp_path, whole, monkeypatch):
    run = tmp_path / "run"
    synced = []

    def fsync(descriptor):
        synced.append(descriptor)
        if len(synced) > 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    settings = ("--set", f"checkpoint.keep={STEPS}", "--set", "eval.every=2", "--quiet")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        result = invoke(*small_run("--steps", str(STEPS), *settings, "--out", str(run)))
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert "the run cannot be written" in last
    assert "No space left on device; what is on disk is good: saved up to step" in last
    assert "Traceback" not in result.stderr
    assert resumed(run).exit_code == 0
    assert_whole(run, whole)


def test_a_real_write_that_fails_in_the_middle_of_the_weights(tmp_path):
    """The kernel refuses every file beyond a size, as a full disk would."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
        main()

    command = small_run("--steps", "2", "--out", "run", "-q")
    result = forked(command, tmp_path, program=limited)
    assert result.rc == 2, result.err
    assert "the run cannot be written" in result.err
    assert "saved up to step 0" in result.err
    assert "Traceback" not in result.err
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_line():
    result = invoke(*small_run("--steps", "1", "--out", "/proc/run", "--quiet"))
    assert result.exit_code == 2
    assert "--out /proc/run: cannot be made" in result.stderr


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_data_file_that_is_gone_or_changed_is_one_line(tmp_path, change):
    data, run = tmp_path / "p.jsonl", tmp_path / "run"
    requested = "Start at {}, keep last digits: (a) +2"
    rows = [json.dumps({"problem": requested.format(n), "answer": (n + 2) % 10}) for n in range(8)]
    data.write_text("\n".join(rows))
    few = ("--prompts", "2", "-n", "4", "--max-tokens", "30", "--quiet")
    assert invoke("train", str(data), "--steps", "1", *few, "--out", str(run)).exit_code == 0
    if change == "gone":
        data.unlink()
    else:
        data.write_text("\n".join(rows[:-1]))
    result = invoke("train", "--resume", str(run), "--steps", "2")
    assert result.exit_code == 2
    wanted = "No such file" if change == "gone" else "not those that the run began with"
    assert wanted in result.stderr.strip().splitlines()[-1]
    assert (run / "checkpoints" / "step-1" / "model.safetensors").is_file()


@pytest.mark.parametrize("every", [1, 3])
def test_an_engine_that_dies_in_a_step_loses_that_step_alone(tmp_path, whole, monkeypatch, every):
    run = tmp_path / "run"
    metrics = run / "metrics.jsonl"
    generate = TransformersEngine.generate

    def dying(self, *args, **options):
        if metrics.is_file() and metrics.stat().st_size:  # as the second step begins to sample
            raise RuntimeError("CUDA error: an illegal memory access\nwas encountered")
        yield from generate(self, *args, **options)

    settings = ("--set", f"checkpoint.every={every}", "--set", "eval.every=2", "--quiet")
    with monkeypatch.context() as patch:
        patch.setattr(TransformersEngine, "generate", dying)
        result = invoke(*small_run("--steps", str(STEPS), *settings, "--out", str(run)))
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert "RuntimeError: CUDA error: an illegal memory access was encountered" in last
    assert len(metrics.read_text().splitlines()) == 1
    assert "saved up to step 1; go on with rlvr train --resume" in last
    assert "in dying" in (run / "error.txt").read_text()
    assert resumed(run).exit_code == 0
    assert_whole(run, whole)


def test_a_verifier_worker_that_dies_is_no_wrong_answer(tmp_path, monkeypatch):
    def always_hard(self, gold, answer):
        raise api.OutOfEffortError

    monkeypatch.setattr(api.Verifier, "_judge_here", always_hard)  # all goes to the worker
    ask = api.Pool.ask
    killed = []

    def ask_and_kill(self, gold, answer):
        if not killed and self._alive:
            (worker,) = self._alive
            killed.append(worker._process.pid)
            os.kill(worker._process.pid, signal.SIGKILL)
        return ask(self, gold, answer)

    monkeypatch.setattr(api.Pool, "ask", ask_and_kill)
    result = invoke(*small_run("--steps", "2", "--out", str(tmp_path / "run"), "--quiet"))
    assert result.exit_code == 0, result.stderr
    assert killed
    rows = [
        json.loads(line)
        for path in sorted((tmp_path / "run" / "rollouts").glob("*step-*.jsonl"))
        for line in path.open()
    ]
    late = [row for row in rows if row["verdict"] == "timeout"]
    assert all(row["reward"] is None for row in late)
    assert {"correct", "wrong"} <= {row["verdict"] for row in rows}


def test_no_run_is_no_run(tmp_path):
    result = invoke("train", "--resume", str(tmp_path))
    assert result.exit_code == 2
    assert "no config.yaml in it; give the directory of a run" in result.stderr
    with pytest.raises(UserError, match="cannot be written to"):
        files.lock_directory(tmp_path / "nowhere")
