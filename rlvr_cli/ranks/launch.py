"""Start one command several times, side by side, and end as one: one stdout, one exit code."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from shutil import copyfileobj
from typing import Any

from rlvr_cli.core.errors import UserError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAUNCHED, _STDIN = "RLVR_LAUNCHED_BY", "-"
_POLL_S = 0.02
_GRACE_S = {True: 5.0, False: 30.0}
"""How long the others may go on after one has failed: after the first, which writes, and others."""
_DEATH = 1
"""prctl's PR_SET_PDEATHSIG."""
claim: list[Callable[[], bool]] = []
"""Once the processes have met: returns whether this is the first to report an error."""
_stderr: list[int] = []


def rank() -> int:
    """Return the number of this process; 0 writes files and speaks."""
    return int(os.environ.get("RANK", "0")) if os.environ.get("WORLD_SIZE", "1") != "1" else 0


def begin(processes: int | None, reads_stdin: bool) -> None:
    """Start the command `processes` times and exit as they do, or go on as one of those that were
    started, by us or by torchrun. Raises UserError if they cannot meet."""
    found = os.environ.get("WORLD_SIZE", "")
    if "RANK" not in os.environ or not found.isdecimal():
        if (processes or 1) > 1:
            sys.exit(launch(processes or 1, sys.argv[1:]))
        return
    local = os.environ.get("LOCAL_WORLD_SIZE", found)
    if processes is not None and str(processes) != local:
        raise UserError(f"--processes {processes}: {local} of {found} were started here already")
    if int(found) > 1:
        if reads_stdin and _LAUNCHED not in os.environ:
            raise UserError("-: with torchrun every process needs the problems; name a file")
        from rlvr_cli.ranks.group import start

        start()


def hush() -> None:
    """Send what processes other than the first print nowhere, and tie ours to the launcher."""
    if (launcher := os.environ.get(_LAUNCHED)) is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)
        if str(os.getppid()) != launcher:
            sys.exit(2)
    if rank() > 0:
        _stderr.append(os.dup(2))
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)


def speaks() -> bool:
    """Return whether this process reports an error: the first that has one, of those that met."""
    try:
        first = claim[-1]() if claim else rank() == 0
    except RuntimeError:  # the first process is gone, and has said why
        first = rank() == 0
    if first and _stderr:
        os.dup2(_stderr[0], 2)
    return first


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `rlvr ARGUMENTS` so many times, all ended if one dies. Return the exit code."""
    with ExitStack() as stack:
        stdin = stack.enter_context(_spooled()) if _STDIN in arguments else None
        children: list[subprocess.Popen[bytes]] = []
        asked = stack.enter_context(_passed_on(children))
        stack.callback(_end, children)
        common = os.environ | _meeting_point(processes) | {_LAUNCHED: str(os.getpid())}
        for number in range(processes):
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "rlvr_cli", *arguments],
                    env=common | {"RANK": str(number), "LOCAL_RANK": str(number)},
                    stdin=_input(stdin, number),
                    start_new_session=True,
                )
            )
            for name in asked:
                children[-1].send_signal(name)
        return _exit_code(children, asked)


def _input(stdin: str | None, number: int) -> Any:
    """Return what a process reads: all of stdin, else only the first anything."""
    return open(stdin, "rb") if stdin else subprocess.DEVNULL if number else None


@contextmanager
def _spooled() -> Iterator[str]:
    """Yield a file with all of stdin, which every process reads."""
    with tempfile.NamedTemporaryFile() as file:
        copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield file.name


def _meeting_point(processes: int) -> dict[str, str]:
    """Return the environment in which the processes of this machine find one another."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    count = str(processes)
    found = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1"}
    found["MASTER_PORT"] = os.environ.get("MASTER_PORT", str(port))
    if sys.platform == "linux":
        found["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return found


@contextmanager
def _passed_on(children: list[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Pass every signal on to the children; yield the list of those that came."""
    asked: list[int] = []

    def handle(number: int, frame: object) -> None:
        asked.append(number)
        for child in children:
            child.send_signal(number)

    before = {name: signal.signal(name, handle) for name in _SIGNALS}
    try:
        yield asked
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _exit_code(children: Sequence[subprocess.Popen[bytes]], asked: Sequence[int]) -> int:
    """Wait for the children and return the first's exit code, else that of the first to fail.
    Raises UserError if one was killed, or failed and the first did not."""
    failed: dict[int, int] = {}
    deadline, codes, killed = float("inf"), list[int | None]([None]), ""
    while None in codes and time.monotonic() < deadline and not killed:
        time.sleep(_POLL_S)
        codes = [child.poll() for child in children]
        for number, code in enumerate(codes):
            if code and number not in failed:
                failed[number] = code
                deadline = min(deadline, time.monotonic() + _GRACE_S[number == 0])
                if code < 0 and not asked:
                    killed = f"was killed ({signal.Signals(-code).name})"
    if killed or codes[0] is None:
        raise UserError(
            f"process {next(iter(failed))} of {len(children)} {killed or 'failed'}, so all were "
            "ended; what is on disk is good: go on with --resume, or the same --out"
        )
    last = failed.get(0) or next(iter(failed.values()), 0)
    return 130 if last < 0 else last


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
    for child in children:
        child.wait()
