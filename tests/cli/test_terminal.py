"""Commands in a pseudo-terminal: widths, a resize, no colors, and data in a pipe.

The assertions hold for every frame, however many there are.
"""

import fcntl
import json
import os
import pty
import re
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forked import Fork
from small_runs import made_figures

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines, print_curves

TRAIN = "train --algo grpo --steps 2 --prompts 4 --eval-every 1 -n 4 --limit 32 --out run"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(autouse=True)
def _a_size_of_its_own(monkeypatch):
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def in_terminal(
    directory: Path, columns: int, command: Sequence[str] = (), **options: Any
) -> tuple[str, str]:
    """Run a command with stderr on a terminal, and return its stdout and stderr."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = Fork(command, directory, stderr=writer, **options)
    os.close(writer)
    screen = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(reader, 1 << 16):
            screen += part
    os.close(reader)
    result = process.done()
    assert result.rc == 0, screen
    return result.out, screen.decode()


def frames(screen: str) -> list[str]:
    return re.split(r"[\r\n]+", _CONTROL.sub("", screen))


def test_a_run_in_a_narrow_terminal_without_colors(tmp_path):
    command = f"{TRAIN} --set eval.limit=4".split()
    data, screen = in_terminal(tmp_path, 60, command, environment={"NO_COLOR": "1"})
    assert [json.loads(line)["step"] for line in data.splitlines()] == [1, 2]
    assert not re.search(r"\x1b\[[\d;]*3\dm", screen)
    uncolored = "\n".join(frames(screen))
    commands = uncolored.partition("\nnext ")[2]
    assert max(map(len, uncolored.removesuffix(commands).splitlines())) <= 60
    assert re.search(r"^training .* 2/2 ", uncolored, re.M)
    assert re.search(r"^ +1 .* \d\.\d{3} best$", uncolored, re.M)
    assert re.search(r"^ {11}\S", uncolored, re.M)
    assert "machine " not in uncolored


def resized() -> None:
    rows = [{"step": n, "reward": 0.5, "held_out_pass@1": n / 9} for n in (1, 2)]
    history = list(map(made_figures, rows))
    display = Display()
    lines = StepLines(display, 2, True)
    with display.progress("training", 2) as bar:
        bar.enter("rollout", 112, 256, 0)
        lines.show(history[0], True)
        bar.tick()
        display.say("wide", "word " * 30)
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        bar.enter("update", 1, 4, 0)
        lines.show(history[1], True)
        bar.tick()
    print_curves([history], display)


def test_a_terminal_that_grows_under_a_bar(tmp_path):
    _, screen = in_terminal(tmp_path, 60, program=resized)
    assert "\x1b[1;36m" in screen
    before, after = "\n".join(frames(screen)).split("\nstep ")[1:]
    assert before.startswith(" reward  pass@1  length  entropy (all)    held out\n")
    assert "held out   mixed  cut off  format  cons@k  kl to old" in after
    assert max(map(len, before.splitlines())) <= 60
    assert 100 < max(map(len, after.splitlines())) <= 120
    assert after.count("┌") == 2  # of the reward, and of the held-out set
