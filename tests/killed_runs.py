"""A run that is killed while responses go on, on either engine."""

import json
import signal
from pathlib import Path

from conftest import small_run
from forked import forked
from kill_resume import differences, kill_in_write

from rlvr_cli.__main__ import main


def killed_with_responses_under_way(place: Path, engine: str) -> None:
    """Kill a run in a write of its second step, resume it, and hold it against the unbroken one."""
    settings = ("rollout.partial=on", "checkpoint.every=1", "eval.limit=0")
    words = [part for setting in settings for part in ("--set", setting)]
    command = small_run("--algo", "grpo", "--steps", "3", "--engine", engine, *words)
    whole = place / "whole"
    run = place / "run"
    assert forked([*command, "--out", str(whole)], place).rc == 0
    lines = (whole / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["unfinished"] > 0
    out = [*command, "--out", str(run)]
    died = forked(out, place, program=lambda: (kill_in_write(40), main()))
    assert died.rc == -signal.SIGKILL, died.err
    assert list(run.glob("checkpoints/step-[12]"))
    result = forked(["train", "--resume", str(run)], place)
    assert result.rc == 0, result.err
    assert differences(whole, run) == []
