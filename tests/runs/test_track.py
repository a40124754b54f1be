"""Trackers as mirrors: the real libraries without a network, and ones that fail or hang."""

import json
import sqlite3

import pytest
from conftest import invoke, refused
from small_runs import made_metrics, made_row, made_run

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.runs import track as module
from rlvr_cli.runs.track import Client, Mirrors, check_trackers
from rlvr_cli.show.source import open_source

OPENED: list[tuple] = []


def recording(run, name, settings, first_step):
    """A tracker that records what it is sent."""
    sent = []
    OPENED.append((name, settings, first_step, sent))
    return Client(lambda *step: sent.append(step), lambda: sent.append("closed"))


def failing(*args):
    def send(*step):
        raise ConnectionError("no\nnetwork")

    return Client(send, lambda: None)


def late(*args):
    def close():
        raise TimeoutError("60 s")

    return Client(lambda *step: None, close)


def absent(*args):
    raise SystemExit("no account")


def mirrored(run, names, warned, first=1) -> Mirrors:
    return Mirrors(names, run, open_source(run).config, first, warned.append)


@pytest.fixture
def trackers(monkeypatch):
    OPENED.clear()
    actual = {"recording": recording, "failing": failing, "late": late, "absent": absent}
    monkeypatch.setattr(module, "TRACKERS", actual)


def test_figures_settings_and_a_table_every_ten_steps_under_one_name(tmp_path, trackers):
    run = made_run(tmp_path / "run")
    warned = []
    rows = [JudgedRow.model_validate(made_row("a", n, "wrong")).answered for n in range(9)]
    for first in (9, 11):
        mirrors = mirrored(run, ["recording"], warned, first)
        for step in (first, first + 1):
            mirrors.send(StepFigures.from_row(made_metrics(step, extra=True)), rows)
        assert mirrors.close()
    (name, settings, first, sent), (repeated, _, later, _) = OPENED
    assert name == repeated
    assert name.startswith("run-")
    assert (first, later, settings["algo"]) == (9, 11, "dapo")
    (ninth, figures, nothing), (tenth, _, rows), end = sent
    assert (ninth, tenth, nothing, end) == (9, 10, [], "closed")
    assert figures["reward"] == pytest.approx(0.15)
    assert not {"step", "extra", "verdicts", "no_update"} & figures.keys()
    assert [row[:3] for row in rows] == [["a", str(n), "wrong"] for n in range(8)]
    assert warned == []


def test_one_that_fails_is_said_and_the_others_go_on(tmp_path, trackers):
    run = made_run(tmp_path / "run")
    warned = []
    mirrors = mirrored(run, ["absent", "failing", "late", "recording"], warned)
    for step in (1, 2):
        mirrors.send(StepFigures.from_row(made_metrics(step)), [])
    assert not mirrors.close()
    assert [step for step, *_ in OPENED[0][3][:2]] == [1, 2]
    assert OPENED[0][3][-1] == "closed"
    message = ("absent: SystemExit: no account", "failing: ConnectionError: no network")
    for text, start in zip(warned, (*message, "late: TimeoutError: 60 s"), strict=True):
        assert text.startswith(f"--track {start}; it gets no more, rlvr show {run} --track ")


def test_what_is_not_known_or_not_there_is_one_line(tmp_path, monkeypatch):
    assert "no such tracker; known: tensorboard, wandb, trackio" in refused("train", "--track", "x")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="it is not installed; pip install wandb"):
        check_trackers(["wandb"])


def test_without_a_tracker_nothing_is_written(tmp_path):
    run = made_run(tmp_path / "run")
    assert mirrored(run, [], []).close()
    assert not (run / "track-id.txt").exists()


def test_tensorboard_reads_a_finished_run(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = made_run(tmp_path / "run", steps=12)
    assert invoke("show", run, "--track", "tensorboard").exit_code == 0
    actual = accumulator.EventAccumulator(str(run / "tensorboard")).Reload()
    rewards = actual.Scalars("reward")
    assert [item.step for item in rewards] == list(range(1, 13))
    held_out = [(item.step, item.value) for item in actual.Scalars("held_out_pass@1")]
    assert held_out == [(0, 0.0), (12, 1.0)]  # before training and after it
    assert rewards[3].value == pytest.approx(-0.35)
    assert [item.step for item in actual.Tensors("responses/text_summary")] == [10]


@pytest.mark.slow
def test_wandb_and_trackio_take_a_finished_run_offline(tmp_path, rlvr_process, monkeypatch):
    """In a process of their own, for what they change in one."""
    pytest.importorskip("wandb")
    pytest.importorskip("trackio")
    run = made_run(tmp_path / "run", steps=12)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    result = rlvr_process("show", "run", "--track", "wandb", "--track", "trackio")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip() == "tracked    12 steps of run: wandb, trackio"
    (log,) = run.glob("wandb/offline-run-*/*.wandb")
    assert b"held_out_pass@1" in log.read_bytes()
    assert b"mixed_share" in log.read_bytes()
    with sqlite3.connect(tmp_path / "trackio" / "rlvr.db") as retained:
        rows = retained.execute(
            "SELECT run_name, step, metrics FROM metrics ORDER BY step"
        ).fetchall()
    assert [step for _, step, _ in rows] == [*range(13), 12]  # before, the steps, after
    assert {name for name, _, _ in rows} == {f"run-{(run / 'track-id.txt').read_text().strip()}"}
    assert json.loads(rows[4][2])["reward"] == pytest.approx(-0.35)
    assert ["responses" in json.loads(row) for *_, row in rows].index(True) == 10


def test_a_run_sends_what_it_measured_before_and_after_and_the_share_of_each_bound(
    tmp_path, trackers, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    small = (
        "--prompts",
        2,
        "-n",
        2,
        "--max-tokens",
        8,
        "--set",
        "eval.limit=4",
        "-q",
        "--limit",
        8,
    )
    run = (
        "train",
        "--algo",
        "reinforce",
        "--steps",
        1,
        *small,
        "--track",
        "recording",
        "--out",
        "run",
    )
    result = invoke(*run)
    assert result.exit_code == 0, result.stderr
    (*_, sent) = OPENED[0]
    before, first, after, end = sent
    assert ([step for step, *_ in (before, first, after)], end) == ([0, 1, 1], "closed")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for (_, figures, _), when in ((before, "before"), (after, "after")):
        assert figures["held_out_pass@1"] == summary[when]["pass@1"]
        assert figures["held_out_pass@1_high"] == summary[when]["interval"][1]
    assert {"clip_fraction_low", "clip_fraction_high"} <= first[1].keys()
    assert invoke("show", "run", "--track", "recording").exit_code == 0
    repeated = OPENED[1][-1]
    assert [step for step, *_ in repeated[:-1]] == [0, 1, 1]
    assert repeated[0][1]["held_out_pass@1"] == summary["before"]["pass@1"]
