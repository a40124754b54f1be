"""A hostile or unlucky situation, run as a process with limits of time and memory.

A test module holds a table of `Situation`s and runs each by `check`.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from forked import Done, forked

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LONGEST_OUTPUT = 20_000
NOTHING = r"(?!)"

Content = str | bytes | Callable[[Path], object]


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
    assert len({item.name for item in situations}) == len(situations)
    return pytest.mark.parametrize("situation", situations, ids=lambda item: item.name)


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
    result = forked(
        situation.command,
        place,
        situation.stdin,
        seconds=situation.seconds,
        megabytes=situation.megabytes,
    )
    assert "Traceback" not in result.err, result.err[-4000:]
    assert result.rc == situation.rc, f"rc {result.rc}: {result.err[-2000:]}"
    message = result.err.splitlines()
    assert any(re.search(situation.says, line) for line in message), result.err[-2000:]
    assert len(result.err) < LONGEST_OUTPUT
    assert not OBEYED.search(result.err)
    assert not OBEYED.search(result.out)
    after = contents(place)
    changed = {name for name in before.keys() | after if before.get(name) != after.get(name)}
    assert not {name for name in changed if not re.fullmatch(situation.changes, name)}
    return result


def contents(place: Path) -> dict[str, object]:
    """What stands at every path below `place`: a checksum, the target of a link, or the type."""
    actual: dict[str, object] = {}
    for path in place.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            what: object = os.readlink(path)
        elif stat.S_ISREG(mode):
            what = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            what = stat.S_IFMT(mode)
        actual[str(path.relative_to(place))] = what
    return actual
