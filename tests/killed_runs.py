"""A run that is killed while responses go on and a batch waits, on either engine."""

import json
import signal
from pathlib import Path

from conftest import small_run
from forked import forked
from kill_resume import differences, kill_in_write

from rlvr_cli.__main__ import main


def killed_with_responses_under_way_and_a_batch_ahead(place: Path, engine: str) -> None:
    """Kill a run in a write of its second step, resume it, and hold it against the unbroken one.

    It is one step ahead, so that its checkpoint has a batch that older weights sampled.
    """
    ahead = ("rollout.partial=on", "rollout.ahead=1")
    settings = (*ahead, "checkpoint.every=1", "eval.limit=0")
    words = [part for setting in settings for part in ("--set", setting)]
    command = small_run("--algo", "grpo", "--steps", "3", "--engine", engine, *words)
    whole = place / "whole"
    run = place / "run"
    unbroken = forked([*command, "-v", "--out", str(whole)], place)
    assert unbroken.rc == 0, unbroken.err
    assert "the next step is sampled before the update, in turn" in " ".join(unbroken.err.split())
    lines = (whole / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["unfinished"] > 0
    state = json.loads((whole / "checkpoints/step-2/trainer/state.json").read_text())
    assert state["weight_version"] == 2
    assert max(group["weight_version"] for group in state["ahead"]["sampled"]) == 1
    out = [*command, "--out", str(run)]
    died = forked(out, place, program=lambda: (kill_in_write(40), main()))
    assert died.rc == -signal.SIGKILL, died.err
    assert list(run.glob("checkpoints/step-[12]"))
    result = forked(["train", "--resume", str(run)], place)
    assert result.rc == 0, result.err
    assert differences(whole, run) == []
