"""Files that a crash cannot spoil."""

import errno
import os
import subprocess
import sys

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import (
    ADAPTER_FILES,
    MODEL_FILES,
    append_line,
    lock_directory,
    make_directory,
    remove_directory,
    sha256,
    weight_files,
    write_atomically,
)


def full_disk(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_a_failed_append_leaves_nothing_of_its_line(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    append_line(path, "one\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space left"):
            append_line(path, "two\n")
    append_line(path, "three\n")
    assert path.read_text() == "one\nthree\n"


def test_a_directory_is_made_whole_or_not_at_all(tmp_path):
    def fill(path):
        (path / "a").write_text("1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_directory(tmp_path / "new", fill)
    assert list(tmp_path.iterdir()) == []
    make_directory(tmp_path / "new", lambda path: (path / "a").write_text("1"))
    assert (tmp_path / "new" / "a").read_text() == "1"
    with pytest.raises(OSError, match="not empty"):
        make_directory(tmp_path / "new", lambda path: None)
    assert (tmp_path / "new" / "a").read_text() == "1"
    remove_directory(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_is_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "file") == known


def test_a_lock_is_for_one_process_and_ends_with_it(tmp_path):
    code = (
        "import sys; from pathlib import Path; from rlvr_cli.core.files import lock_directory\n"
        "lock = lock_directory(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(UserError, match="another process is using it"):
        lock_directory(tmp_path)
    holder.kill()
    holder.wait()
    lock_directory(tmp_path).close()


def test_a_directory_reaches_the_disk_with_all_its_files_before_it_has_its_name(
    tmp_path, monkeypatch
):
    path, synced, fsync = tmp_path / "whole", [], os.fsync

    def spy(descriptor: int) -> None:
        if not path.exists():
            synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def fill(aside):
        (aside / "inner").mkdir()
        for name in ("a", "inner/b"):
            (aside / name).write_text(name)

    monkeypatch.setattr(os, "fsync", spy)
    make_directory(path, fill)
    for part in (path, *path.rglob("*")):
        assert part.stat().st_ino in synced


def test_a_directory_leaves_its_name_before_it_is_taken_apart(tmp_path, monkeypatch):
    path = tmp_path / "old"
    path.mkdir()
    (path / "a").write_text("1")
    monkeypatch.setattr("shutil.rmtree", lambda *args, **kwargs: None)  # a crash at this moment
    remove_directory(path)
    assert not path.exists()


def test_what_an_earlier_crash_left_aside_is_no_obstacle(tmp_path):
    for name in ("old", ".old.removed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    remove_directory(tmp_path / "old")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_a_file_that_others_may_read(tmp_path):
    mask = os.umask(0o022)
    try:
        lock_directory(tmp_path).close()
    finally:
        os.umask(mask)
    (lock,) = tmp_path.iterdir()
    assert lock.stat().st_mode & 0o7777 == 0o644


def test_an_adapters_directory_is_known_by_its_settings(tmp_path):
    assert weight_files(tmp_path) == MODEL_FILES
    (tmp_path / "adapter_model.safetensors").touch()
    assert weight_files(tmp_path) == MODEL_FILES
    (tmp_path / "adapter_config.json").touch()
    assert weight_files(tmp_path) == ADAPTER_FILES
