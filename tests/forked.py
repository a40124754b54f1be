"""Run a command line as a fork of the test process: a real process with its own descriptors, exit
code and limits, without the seconds that importing torch and transformers takes.

A test whose subject is the start of a process itself (its imports, its signals) starts one of its
own instead.
"""

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import transformers  # noqa: F401  (imported here once, so that no fork has to)

from rlvr_cli.__main__ import main
from rlvr_cli.cli import eval, responses, sample, train  # noqa: F401  (the same)

PATIENCE = 6
"""A command may take so many times its processor time: other processes compete for the cores."""


@dataclass(frozen=True)
class Done:
    """How a process ended; `rc` is negative for a signal, which is what a limit sends."""

    rc: int
    out: str
    err: str


def forked(
    command: Sequence[str],
    place: Path,
    stdin: bytes | Path = b"",
    *,
    seconds: int = 120,
    megabytes: int | None = None,
    stdout: str | None = None,
    closed: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    program: Callable[[], object] = main,
) -> Done:
    """Run `rlvr COMMAND…` (or `program`) in the directory `place` and return how it ended.

    `seconds` limits its processor time, `megabytes` its address space beyond that of this process.
    `stdout` is a file to write to, `closed` are standard streams that are closed at its start.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.read_bytes() if isinstance(stdin, Path) else stdin)
        given.seek(0)
        target = os.open(stdout, os.O_WRONLY) if stdout else out.fileno()
        child = os.fork()
        if child == 0:
            for number, descriptor in enumerate((given.fileno(), target, err.fileno())):
                os.dup2(descriptor, number)
            os.chdir(place)
            os.environ.update(environment or {})
            os._exit(_live(command, closed, seconds, megabytes, program))
        if stdout:
            os.close(target)
        rc = _wait(child, PATIENCE * seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return Done(rc, *texts)


def _live(
    command: Sequence[str],
    closed: Sequence[int],
    seconds: int,
    megabytes: int | None,
    program: Callable[[], object],
) -> int:
    """Run the program in the child and return its exit code."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["rlvr", *command]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=number in closed)  # noqa: SIM115
        for number, mode, errors in ((0, "r", None), (1, "w", None), (2, "w", "backslashreplace"))
    )
    for number in closed:
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)  # which closes the descriptor
    if megabytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * os.sysconf("SC_PAGE_SIZE") + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    code: object = 0
    try:
        code = program()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                code = 120
    return code if isinstance(code, int) else 0


def _wait(child: int, seconds: float) -> int:
    """Return its exit code; at the deadline kill it and what it started."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
