"""Write files so that a crash leaves no half of one, read them within bounds, lock directories."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, jsonl_line, parse_json
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.stored import Stored
from rlvr_cli.core.text import shortened

MANIFEST = "manifest.json"
MODEL_FILES = ("config.json", "model*.safetensors")
"""Patterns that the manifest of a model directory must list."""
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""Files that the manifest of a directory with an adapter must list."""
MANIFEST_LINES = "manifest.jsonl"
"""The checksums of files that come one after another, each as a line."""
_LARGEST_MANIFEST = 16 << 20
_LARGEST_LINES = 1 << 30
_READ_BYTES = 1 << 20
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""What flock and fsync say where the file system has none: NFS, Lustre and FUSE may."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO without a reader hangs


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write the whole text under that name, or leave the old file, but never a part of the text."""
    aside = partial_name(path)
    remove(aside)
    try:
        write_new(aside, text)
        aside.rename(path)
    except BaseException:
        with suppress(OSError):
            remove(aside)
        raise
    sync(path.parent)


def write_new(path: Path, text: str | bytes) -> None:
    """Write a new file, synced. Raises OSError if anything has that name, even a link."""
    # A lone surrogate of others' JSON, which no file can hold, becomes its escape.
    content = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
    descriptor = os.open(path, _CREATE | os.O_EXCL, 0o666)
    try:
        _write(descriptor, content)
        _fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_new(path: Path, text: str | bytes) -> None:
    """Write the whole text under a new name, or nothing. Raises OSError if anything has that name,
    even a link."""
    aside = partial_name(path)
    remove(aside)
    try:
        write_new(aside, text)
        try:
            os.link(aside, path)
        except OSError as error:
            if error.errno not in (*_UNSUPPORTED, errno.EPERM):
                raise
            write_new(path, text)  # a file system without hard links
    finally:
        with suppress(OSError):
            remove(aside)
    sync(path.parent)


def replaced_log(path: Path) -> IO[bytes]:
    """Open an empty file for writing, in place of what has its name. The target of a link stays."""
    remove(path)
    return open(os.open(path, _CREATE | os.O_EXCL, 0o666), "wb")


def try_place(path: Path) -> None:
    """Make a directory as `path` will be, or a file in it if it is there, and remove it again.

    Warn of what is lost if the file system has no locks or no fsync. Raises OSError if nothing can
    be written there.
    """
    if path.is_dir():
        _warn_of_losses(path, _tried_file(path))
        return
    _refuse_dangling(path)
    absent = [parent for parent in path.parents if not parent.exists()]
    aside = partial_name(_beside(path))
    try:
        aside.mkdir(parents=True)
        losses = _tried_file(aside)
    finally:
        with suppress(OSError):
            remove(aside)
            for parent in absent:
                parent.rmdir()
    _warn_of_losses(path, losses)


def try_file(path: Path) -> None:
    """Make the file as it will be written, and remove it again. Raises OSError if that fails, or if
    anything has its name, even a link."""
    if path.is_symlink() or path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    aside = partial_name(path)
    remove(aside)
    try:
        write_new(aside, "")
    finally:
        with suppress(OSError):
            remove(aside)


def _refuse_dangling(path: Path) -> None:
    """Raise OSError for a link to what is not there, which no directory can replace."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link to what is not there", str(path))


def _tried_file(directory: Path) -> list[str]:
    """Write, lock and sync a file in a directory, and remove it. Return what the file system lacks.

    Raises OSError if that fails for another reason.
    """
    path = partial_name(directory / str(os.getpid()))
    remove(path)
    losses = []
    descriptor = os.open(path, _CREATE | os.O_EXCL, 0o666)
    try:
        _write(descriptor, b"\n")
        if not _is_locked(descriptor):
            losses.append("no locks, so two commands can spoil each other's files there")
        if not _fsync(descriptor):
            losses.append("no fsync, so a power cut can take or tear what is newest")
    finally:
        os.close(descriptor)
        remove(path)
    return losses


def _warn_of_losses(path: Path, losses: list[str]) -> None:
    if losses:
        LOG.warning("warning    %s: its file system has %s", path, "; it has ".join(losses))


def _is_locked(descriptor: int) -> bool:
    """Lock a file. Return whether its file system can. Raises OSError if another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def _fsync(descriptor: int) -> bool:
    """Wait until a file is on the disk. Return whether its file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def _beside(path: Path) -> Path:
    """Return the name of this process for a directory that is not complete."""
    return path.with_name(f"{path.name}.{os.getpid()}")


def make_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Create a directory and `fill` it, or leave nothing if that fails.

    Raises FileExistsError if it exists and is not empty. If several processes create it at once,
    the first wins.
    """
    aside = begin_directory(_beside(path))
    try:
        fill(aside)
        end_directory(aside, path)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        if isinstance(error, OSError) and error.errno == errno.ENOTEMPTY:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        raise


def partial_name(path: Path) -> Path:
    """Return the name that a file or directory has until it is complete."""
    return path.with_name(f".{path.name}.partial")


def begin_directory(path: Path) -> Path:
    """Create an empty directory under the partial name, and return that name."""
    aside = partial_name(path)
    remove(aside)
    aside.mkdir(parents=True)
    return aside


def end_directory(aside: Path, path: Path) -> None:
    """Sync a directory and give it its name. Raises OSError if a directory of this name is not
    empty."""
    for file in aside.rglob("*"):
        sync(file)
    sync(aside)
    aside.rename(path)
    sync(path.parent)


def remove_directory(path: Path) -> None:
    """Rename a directory and then remove it, so that its name never has a part of it."""
    aside = path.with_name(f".{path.name}.removed")
    remove(aside)
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def clear_leftovers(directory: Path) -> None:
    """Remove what a crash left half written or half removed in a directory."""
    for path in [*directory.glob(".*.partial"), *directory.glob(".*.removed")]:
        remove(path)


def remove(path: Path) -> None:
    """Remove the file, directory or link, if there is one. The target of a link stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def refuse_links(directory: Path, names: Iterable[str]) -> None:
    """Raise UserError if one of these names in a directory is a link, or not a directory."""
    for name in names:
        path = directory / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise UserError(f"{path}: not a directory of its own; a link is not followed")


def append_line(path: Path, line: str) -> None:
    """Append one or several lines, synced. If that fails, the file is as before."""
    descriptor = os.open(path, _CREATE | os.O_APPEND, 0o666)
    try:
        _check_regular(descriptor, path)
        end = os.fstat(descriptor).st_size
        try:
            _write(descriptor, line.encode())
            _fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


@contextmanager
def reading(name: object) -> Iterator[None]:
    """Raise UserError, beginning with the name, if the block cannot read or parse a file."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name}: cannot be read ({reason})") from None


@contextmanager
def writing(name: object) -> Iterator[None]:
    """Raise UserError, beginning with the name, if the block cannot write a file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{name}: cannot be written ({error.strerror})") from None


def open_regular(path: Path, follow: bool = True) -> BufferedReader:
    """Open a regular file. Raises OSError for any other, since a FIFO hangs and a device never
    ends."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        _check_regular(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def read_regular(path: Path, largest: int) -> bytes:
    """Read a regular file. Raises OSError for any other, and beyond `largest` bytes."""
    content = bytearray()
    with open_regular(path) as file:
        # A read of many bytes at once takes memory for all of them, however short the file is.
        while part := file.read(_READ_BYTES):
            content += part
            if len(content) > largest:
                raise OSError(errno.EFBIG, f"larger than {largest} bytes", str(path))
    return bytes(content)


def sha256(path: Path, follow: bool = True) -> str:
    """Return the checksum of a regular file, in hexadecimal."""
    with open_regular(path, follow) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(directory: Path) -> JsonObject:
    """Read the MANIFEST of a directory. Raises OSError or ValueError if it cannot be read."""
    checksums = parse_json(read_regular(directory / MANIFEST, _LARGEST_MANIFEST))
    if not isinstance(checksums, dict):
        raise ValueError("not a JSON object")
    return checksums


class _Line(Stored):
    """A line of MANIFEST_LINES."""

    file: str
    sha256: str


def manifest_line(name: str, checksum: object) -> str:
    """Return the line of a file in MANIFEST_LINES."""
    return jsonl_line({"file": name, "sha256": checksum})


def read_growing_manifest(directory: Path) -> JsonObject:
    """Read the checksums of MANIFEST_LINES, and before them those of a MANIFEST, as runs of version
    0.2 and before have it.

    A line without its end was torn by a power cut and does not count. Raises OSError or ValueError
    if neither can be read.
    """
    checksums: JsonObject = {}
    path = directory / MANIFEST_LINES
    is_older = (directory / MANIFEST).exists()
    if is_older or not path.exists():
        checksums = read_manifest(directory)
    if path.exists():
        for text in read_regular(path, _LARGEST_LINES).split(b"\n")[:-1]:
            line = _Line.model_validate(parse_json(text))
            checksums[line.file] = line.sha256
    return checksums


def weight_files(directory: Path) -> tuple[str, ...]:
    """Return the patterns that a manifest must list: the files of an adapter or of a model."""
    return ADAPTER_FILES if (directory / ADAPTER_FILES[0]).exists() else MODEL_FILES


def integrity_error(
    directory: Path,
    is_checked: Callable[[str], bool] = bool,
    needed: Iterable[str] | None = None,
    read: Callable[[Path], JsonObject] = read_manifest,
) -> str | None:
    """Describe the first difference between a directory and its manifest of checksums, which `read`
    gives. Return None if they agree.

    Only files for whose name `is_checked` is true are checked. The manifest must list a file for
    each pattern of `needed`, by default those of a model or an adapter.
    """
    if needed is None:
        needed = weight_files(directory)
    try:
        checksums = read(directory)
        for pattern in needed:
            is_listed = pattern in checksums
            if not is_listed and not any(fnmatchcase(name, pattern) for name in checksums):
                return f"{MANIFEST} lists no {pattern}"
        root = directory.resolve()
        for name, checksum in checksums.items():
            if not is_checked(name):
                continue
            if not (directory / name).resolve().is_relative_to(root):
                return f"{MANIFEST} lists {shortened(name)}, which lies outside"
            if sha256(directory / name, follow=False) != checksum:
                return f"the checksum of {shortened(name)} differs"
    except OSError as error:
        return f"{shortened(Path(str(error.filename)).name)}: {error.strerror}"
    except (ValueError, RuntimeError):  # a name with a NUL, links in a circle
        return f"{MANIFEST} cannot be read"
    return None


def first_written(directory: Path) -> datetime:
    """Return when the oldest file inside was written. Return the present time if it is empty."""
    times = [path.lstat().st_mtime for path in directory.rglob("*") if path.is_file()]
    return datetime.fromtimestamp(min(times)) if times else datetime.now()


def lock_directory(directory: Path) -> IO[Any]:
    """Lock the directory until the returned file is closed or the process ends.

    Where the file system has no locks, it is used without (`try_place` warns of it). Raises
    UserError if another process has locked it, or if it cannot be written to.
    """
    try:
        file = open(os.open(directory / ".lock", _CREATE, 0o666), "wb")  # noqa: SIM115
        _is_locked(file.fileno())
    except BlockingIOError:
        file.close()
        raise UserError(f"{directory}: another process is using it; wait for it") from None
    except OSError as error:
        raise UserError(f"{directory}: cannot be written to ({error.strerror})") from None
    return file


def _check_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _write(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def sync(path: Path) -> None:
    """Wait until a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _fsync(descriptor)
    finally:
        os.close(descriptor)
