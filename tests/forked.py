"""Run a command line as a fork of the test process: a real process with its own descriptors, exit
code and limits, without the seconds that importing torch and transformers takes.

A test whose subject is the start of a process itself (its imports, its signals) starts one of its
own instead.
"""

import gc
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import torch.distributed as dist

from rlvr_cli.__main__ import main

SHARED = (
    "transformers",
    *("rlvr_cli.setup.parts", "rlvr_cli.evaluation.publish", "rlvr_cli.rewards.rewarder"),
    *(f"rlvr_cli.program.{name}" for name in ("eval", "local", "recorded", "train")),
)
"""What the first fork imports in this process, so that no fork has to."""
PATIENCE = 6
"""A command may take so many times its processor time: other processes compete for the cores."""


@dataclass(frozen=True)
class Done:
    """How a process ended; `rc` is negative for a signal, which is what a limit sends."""

    rc: int
    out: str
    err: str


class Fork:
    """A command under way as a process of its own; what it writes lies in files, if it is not given
    other descriptors."""

    def __init__(
        self,
        command: Sequence[str],
        place: Path,
        stdin: bytes | Path = b"",
        *,
        seconds: int = 120,
        megabytes: int | None = None,
        stdout: int | str | None = None,
        stderr: int | None = None,
        unread: int | None = None,
        closed: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        program: Callable[[], object] = main,
    ) -> None:
        """Run `rlvr COMMAND…` (or `program`) in the directory `place`.

        `seconds` limits its processor time, `megabytes` its address space beyond that of this
        process. `stdout` and `stderr` are descriptors, or a file to write to. `closed` are standard
        streams that are closed at its start; `unread` is the end of a pipe that is ours alone.
        """
        for module in SHARED:
            import_module(module)
        self.seconds = seconds
        self._out, self._err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        with tempfile.TemporaryFile() as given:
            given.write(stdin.read_bytes() if isinstance(stdin, Path) else stdin)
            given.seek(0)
            target = os.open(stdout, os.O_WRONLY) if isinstance(stdout, str) else stdout
            _leave_group()
            self.pid = os.fork()
            if self.pid == 0:
                out = self._out.fileno() if target is None else target
                err = self._err.fileno() if stderr is None else stderr
                for number, descriptor in enumerate((given.fileno(), out, err)):
                    os.dup2(descriptor, number)
                if unread is not None:
                    os.close(unread)
                os.chdir(place)
                os.environ.update(environment or {})
                os._exit(_live(command, closed, seconds, megabytes, program))
            if isinstance(stdout, str):
                os.close(target)

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return _text(self._out)

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return _text(self._err)

    def await_(self, reached: Callable[[], bool]) -> None:
        """Wait until it has come so far; fail if it ends before, or takes too long."""
        deadline = time.monotonic() + PATIENCE * self.seconds
        while not reached():
            # It is left to be waited for by `done`.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None, self.err
            assert time.monotonic() < deadline, self.err
            time.sleep(0.01)

    def done(self) -> Done:
        """Wait for its end; at the deadline kill it and what it started."""
        deadline = time.monotonic() + PATIENCE * self.seconds
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        while not ended and time.monotonic() < deadline:
            time.sleep(0.005)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            os.killpg(self.pid, signal.SIGKILL)
            status = os.waitpid(self.pid, 0)[1]
        with self._out, self._err:
            return Done(os.waitstatus_to_exitcode(status), self.out, self.err)


def forked(command: Sequence[str], place: Path, stdin: bytes | Path = b"", **options: Any) -> Done:
    """Run a command as a fork (with the options of `Fork`) and return how it ended."""
    return Fork(command, place, stdin, **options).done()


def _text(file: IO[bytes]) -> str:
    # The position is shared with the child, which writes there.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "replace")


def _leave_group() -> None:
    """Leave a group of processes that an earlier test joined: a fork has none of its threads, and
    would wait for them."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _live(
    command: Sequence[str],
    closed: Sequence[int],
    seconds: int,
    megabytes: int | None,
    program: Callable[[], object],
) -> int:
    """Run the program in the child and return its exit code."""
    gc.freeze()  # garbage of the parent's: a group of processes waits for threads that no fork has
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
