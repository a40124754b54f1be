"""Files that a crash cannot spoil: written aside, synced, renamed; and a lock on a directory."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Container
from pathlib import Path
from typing import IO

from rlvr_cli.core.types import UserError

MANIFEST = "manifest.json"
_LOCK = ".lock"
_CHUNK = 1 << 20


def write_atomically(path: Path, text: str) -> None:
    """The whole text under that name, or what was there before; never a part of it."""
    aside = path.with_name(f".{path.name}.partial")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
    _sync(path.parent)


def make_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """A new directory as `fill` leaves it, or none. Raises OSError if `path` exists and is no empty
    directory."""
    aside = path.with_name(f".{path.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        fill(aside)
        for file in aside.rglob("*"):
            _sync(file)
        _sync(aside)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    _sync(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory; one that is half removed never stands under its name."""
    aside = path.with_name(f".{path.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def clear_leftovers(directory: Path) -> None:
    """Remove what a sudden end has left half written or half removed in a directory."""
    for path in [*directory.glob(".*.partial"), *directory.glob(".*.removed")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def append_line(path: Path, line: str) -> None:
    """Append a line with its end, synced; where that fails, nothing of it is left."""
    with path.open("ab") as file:
        end = file.tell()
        try:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.truncate(path, end)
            raise


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def damage(directory: Path, spared: Container[str] = ()) -> str | None:
    """What is wrong with a directory by its own MANIFEST of checksums, or None; the files in its
    folders `spared` are not looked at."""
    try:
        listed = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        for name, checksum in listed.items():
            if name.split("/")[0] not in spared and sha256(directory / name) != checksum:
                return f"the checksum of {name} differs"
    except OSError as error:
        return f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, AttributeError):
        return f"{MANIFEST} cannot be read"
    return None


def lock_directory(directory: Path) -> IO[str]:
    """Hold the directory until the file returned is closed or the process ends.

    Raises UserError if another process holds it, or if it cannot be written to.
    """
    try:
        file = (directory / _LOCK).open("a", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{directory}: cannot be written to ({error.strerror})") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UserError(f"{directory}: another process is using it; wait for it") from None
    return file


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
