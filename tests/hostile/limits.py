"""A hostile or unlucky situation, run as a process with limits of time and memory.

A test module holds a table of `Situation`s and runs each by `check`. The process is a fork of this
one, which has everything imported, so that a situation costs a fraction of a second.
"""

import hashlib
import os
import re
import resource
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import transformers  # noqa: F401  (so that no situation has to import it)

from rlvr_cli.__main__ import main
from rlvr_cli.cli import eval, responses, sample, train  # noqa: F401  (the same)

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LONGEST_OUTPUT = 20_000
NOTHING = r"(?!)"

Content = str | bytes | Callable[[Path], object]


@dataclass(frozen=True)
class Done:
    """How a process ended; `rc` is negative for a signal, which is what a limit sends."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True)
class Situation:
    """Files in an empty directory, a command there, and what has to come of it."""

    name: str
    command: tuple[str, ...]
    says: str
    """A regular expression found in one line of stderr."""
    rc: int = 2
    files: Mapping[str, Content] = field(default_factory=dict)
    """By path: a text, bytes, or a function that makes what stands there."""
    stdin: bytes = b""
    changes: str = NOTHING
    """The files that may change, come or go, as a regular expression of whole paths."""
    seconds: int = 20
    """Of CPU time."""
    megabytes: int = 1500
    """Of address space beyond that of this process."""


def table(situations: list[Situation]) -> pytest.MarkDecorator:
    """One test for each situation, by its name."""
    assert len({one.name for one in situations}) == len(situations)
    return pytest.mark.parametrize("situation", situations, ids=lambda one: one.name)


def check(situation: Situation, place: Path) -> Done:
    """Run the situation in `place` and hold it to what it has to be: exit code, one line that says
    what is wrong, no traceback, nothing for a terminal to obey, nothing else changed."""
    for name, content in situation.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    before = contents(place)
    done = limited(
        situation.command, place, situation.stdin, situation.seconds, situation.megabytes
    )
    assert "Traceback" not in done.err, done.err[-4000:]
    assert done.rc == situation.rc, f"rc {done.rc}: {done.err[-2000:]}"
    said = done.err.splitlines()
    assert any(re.search(situation.says, line) for line in said), done.err[-2000:]
    assert len(done.err) < LONGEST_OUTPUT
    assert not OBEYED.search(done.err)
    assert not OBEYED.search(done.out)
    after = contents(place)
    changed = {name for name in before.keys() | after if before.get(name) != after.get(name)}
    assert not {name for name in changed if not re.fullmatch(situation.changes, name)}
    return done


def limited(
    command: tuple[str, ...],
    place: Path,
    stdin: bytes = b"",
    seconds: int = 20,
    megabytes: int = 1500,
    program: Callable[[], object] = main,
) -> Done:
    """`rlvr COMMAND…` (or another program) in `place`, within CPU time and address space."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
        given.write(stdin)
        given.seek(0)
        with tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                for number, file in enumerate((given, out, err)):
                    os.dup2(file.fileno(), number)
                os._exit(_live(command, place, seconds, megabytes, program))
            rc = _waited(child, 6 * seconds)
            out.seek(0)
            err.seek(0)
            return Done(rc, *(f.read().decode("utf-8", "replace") for f in (out, err)))


def contents(place: Path) -> dict[str, object]:
    """What stands at every path below `place`: a checksum, the target of a link, or the type."""
    found: dict[str, object] = {}
    for path in place.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            what: object = os.readlink(path)
        elif stat.S_ISREG(mode):
            what = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            what = stat.S_IFMT(mode)
        found[str(path.relative_to(place))] = what
    return found


def _live(
    command: tuple[str, ...],
    place: Path,
    seconds: int,
    megabytes: int,
    program: Callable[[], object],
) -> int:
    """The life of the child, up to its exit code."""
    os.setsid()
    os.chdir(place)
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["rlvr", *command]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
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
                stream.flush()
            except (OSError, ValueError):
                code = 120
    return code if isinstance(code, int) else 0


def _waited(child: int, seconds: float) -> int:
    """Its exit code; at the deadline it is killed, and what it started with it."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        time.sleep(0.005)
