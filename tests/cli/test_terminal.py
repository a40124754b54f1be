"""Commands in a pseudo-terminal: widths, a resize, no colors, data in a pipe beside the screen.

What is asserted holds for every frame, however many there are.
"""

import fcntl
import json
import os
import pty
import re
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forked import Fork

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines, print_curves

TRAIN = "train --algo grpo --steps 2 --prompts 4 --eval-every 1 -n 4 --limit 32 --out run"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(autouse=True)
def _a_size_of_its_own(monkeypatch):
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def in_terminal(directory: Path, columns: int, *command: str, **options: Any) -> tuple[str, str]:
    """Run a command with stderr on a terminal; return what came out of stdout and stderr."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = Fork(command, directory, stderr=far, **options)
    os.close(far)
    shown = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(near, 1 << 16):
            shown += part
    os.close(near)
    done = process.done()
    assert done.rc == 0, shown
    return done.out, shown.decode()


def frames(shown: str) -> list[str]:
    return re.split(r"[\r\n]+", _CONTROL.sub("", shown))


def test_a_run_in_a_narrow_terminal_without_colors(tmp_path):
    command = (*TRAIN.split(), "--set", "eval.limit=4")
    data, shown = in_terminal(tmp_path, 60, *command, environment={"NO_COLOR": "1"})
    assert [json.loads(line)["step"] for line in data.splitlines()] == [1, 2]
    assert not re.search(r"\x1b\[[\d;]*3\dm", shown)
    plain = "\n".join(frames(shown))
    commands = plain.partition("\nnext ")[2]
    assert max(map(len, plain.removesuffix(commands).splitlines())) <= 60
    assert re.search(r"^training .* 2/2 ", plain, re.M)
    assert re.search(r"^ +1 .* \d\.\d{3} best$", plain, re.M)
    assert re.search(r"^ {11}\S", plain, re.M)
    assert "machine " not in plain


def resized() -> None:
    rows = [{"step": n, "reward": 0.5, "held_out_pass@1": n / 9} for n in (1, 2)]
    display = Display()
    lines = StepLines(display, 2, True)
    with display.progress("training", 2) as bar:
        bar.enter("rollout", 112, 256, 0)
        lines.show(rows[0], True)
        bar.tick()
        display.say("wide", "word " * 30)
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        bar.enter("update", 1, 4, 0)
        lines.show(rows[1], True)
        bar.tick()
    print_curves([rows], display)


def test_a_terminal_that_grows_under_a_bar(tmp_path):
    _, shown = in_terminal(tmp_path, 60, program=resized)
    assert "\x1b[1;36m" in shown
    before, after = "\n".join(frames(shown)).split("\nstep ")[1:]
    assert before.startswith(" reward  pass@1  length  entropy   mixed    held out\n")
    assert "held out  cut off  format  cons@k  kl to old" in after
    assert max(map(len, before.splitlines())) <= 60
    assert 100 < max(map(len, after.splitlines())) <= 120
    assert after.count("┌") == 2  # of the reward, and of the held-out set
