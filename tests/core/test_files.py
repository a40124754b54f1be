"""Files that a crash cannot spoil."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import (
    ADAPTER_FILES,
    MANIFEST,
    MODEL_FILES,
    append_line,
    clear_leftovers,
    integrity_error,
    lock_directory,
    make_directory,
    open_regular,
    read_manifest,
    read_regular,
    refuse_links,
    remove,
    remove_directory,
    sha256,
    weight_files,
    write_atomically,
    write_new,
)


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "taken", "new")


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
    with pytest.raises(FileExistsError, match="new"):
        make_directory(tmp_path / "new", lambda path: None)
    assert (tmp_path / "new" / "a").read_text() == "1"
    remove_directory(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_is_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "file") == expected


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
    path = tmp_path / "whole"
    synced = []
    fsync = os.fsync

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


def listed(directory: Path, *names: str) -> dict[str, str]:
    """Write files that hold their own names; return their checksums."""
    for name in names:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(name)
    return {name: hashlib.sha256(name.encode()).hexdigest() for name in names}


def test_what_differs_from_the_manifest_is_named(tmp_path):
    def says(*args) -> str | None:
        (tmp_path / MANIFEST).write_text(json.dumps(sums))
        return integrity_error(tmp_path, *args)

    sums = listed(tmp_path, "config.json", "model-1.safetensors", "more/a")
    assert says() is None
    (tmp_path / "more/a").write_text("b")
    assert says() == "the checksum of more/a differs"
    assert says(lambda name: name != "more/a") is None
    (tmp_path / "more/a").unlink()
    assert says() == "a: No such file or directory"
    (tmp_path / "more/a").symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text("more/a")
    assert says() == "a: Too many levels of symbolic links"  # a link is not followed
    sums["../a"] = sums.pop("more/a")
    assert says() == f"{MANIFEST} lists ../a, which lies outside"
    sums["a\0"] = sums.pop("../a")
    assert says() == f"{MANIFEST} cannot be read"
    del sums["a\0"], sums["model-1.safetensors"]
    assert says() == f"{MANIFEST} lists no model*.safetensors"
    assert says(bool, ()) is None
    assert says(bool, ("config.json", "a")) == f"{MANIFEST} lists no a"
    (tmp_path / "adapter_config.json").touch()
    assert says() == f"{MANIFEST} lists no adapter_config.json"
    (tmp_path / MANIFEST).write_text("[]")
    assert integrity_error(tmp_path) == f"{MANIFEST} cannot be read"
    with pytest.raises(ValueError, match="not a JSON object"):
        read_manifest(tmp_path)


def test_a_file_may_be_as_large_as_is_said(tmp_path):
    (tmp_path / "a").write_text("abc")
    assert read_regular(tmp_path / "a", 3) == b"abc"
    assert read_regular(tmp_path / "a", 1 << 60) == b"abc"  # whose bytes nothing could reserve
    with pytest.raises(OSError, match="larger than 2 bytes") as raised:
        read_regular(tmp_path / "a", 2)
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(tmp_path / "a"))


def test_what_is_no_regular_file_is_neither_read_nor_written_and_no_descriptor_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / ".lock").symlink_to(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_new(tmp_path / "file", "a")
    before = os.listdir("/proc/self/fd")
    for use in (open_regular, lambda path: append_line(path, "a")):
        with pytest.raises(OSError, match="not a regular file") as raised:
            use(tmp_path / "pipe")
        assert raised.value.filename == str(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"cannot be written to \(Too many levels"):
        lock_directory(tmp_path)
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", "b")
    with pytest.raises(OSError, match="Too many levels"):
        open_regular(tmp_path / "link", follow=False)
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"a"
    append_line(tmp_path / "file", "b\n")
    write_atomically(tmp_path / "other", "c")
    make_directory(tmp_path / "inner", lambda path: None)
    assert os.listdir("/proc/self/fd") == before
    os.close(reader)


def test_a_directory_that_is_in_use_is_refused_and_no_descriptor_stays(tmp_path):
    with lock_directory(tmp_path):
        before = os.listdir("/proc/self/fd")
        with pytest.raises(UserError, match="another process is using it"):
            lock_directory(tmp_path)
        assert os.listdir("/proc/self/fd") == before


def test_a_link_or_a_file_is_no_directory_of_its_own(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "away").symlink_to(tmp_path / "own")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    refuse_links(tmp_path, ("own", "none"))
    for name in ("file", "away", "nowhere"):
        with pytest.raises(UserError, match=f"{name}: not a directory of its own"):
            refuse_links(tmp_path, ("own", name))


def test_what_is_removed_is_a_link_itself_and_never_its_target(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    for name in ("link", "none"):
        remove(tmp_path / name)
    assert list(tmp_path.rglob("*")) == [tmp_path / "own", tmp_path / "own" / "a"]


def test_what_a_crash_left_is_cleared_and_in_nobodys_way(tmp_path):
    for name in (".a.partial", ".b.partial", ".c.removed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").touch()
    write_atomically(tmp_path / "a", "1")
    make_directory(tmp_path / "b", lambda path: None)
    clear_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b"]
    make_directory(tmp_path / "new" / "inner", lambda path: None)
    assert (tmp_path / "new" / "inner").is_dir()


def test_of_two_processes_that_make_one_directory_the_first_wins(tmp_path):
    def fill(path: Path) -> None:
        (path / "late").touch()
        child = os.fork()  # another process begins and ends meanwhile
        if child == 0:
            make_directory(tmp_path / "run", lambda aside: (aside / "early").touch())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "run", fill)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["early", "run"]


def test_what_cannot_be_cleared_away_hides_no_error(tmp_path, monkeypatch):
    def fail(path: Path) -> None:
        (path / "a").touch()
        monkeypatch.setattr(os, "rmdir", full_disk)
        raise KeyError

    with pytest.raises(KeyError):
        make_directory(tmp_path / "new", fail)
    monkeypatch.undo()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").touch()
    monkeypatch.setattr(os, "rmdir", full_disk)
    remove_directory(tmp_path / "old")
    assert not (tmp_path / "old").exists()


def test_names_reach_the_disk_and_all_bytes_are_written(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    write_bytes = os.write

    def spy(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    monkeypatch.setattr(os, "write", lambda descriptor, data: write_bytes(descriptor, data[:2]))
    write_atomically(tmp_path / "a", "12345")
    assert synced == [str(tmp_path / ".a.partial"), str(tmp_path)]
    make_directory(tmp_path / "b", lambda path: None)
    assert synced[2:] == [str(tmp_path / f".b.{os.getpid()}.partial"), str(tmp_path)]
    append_line(tmp_path / "a", "6789\n")
    assert synced[4:] == [str(tmp_path / "a")]
    assert (tmp_path / "a").read_text() == "123456789\n"


def test_new_files_may_be_read_as_the_user_says(tmp_path):
    mask = os.umask(0o022)
    try:
        write_new(tmp_path / "a", "")
        append_line(tmp_path / "b", "")
    finally:
        os.umask(mask)
    assert [path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()] == [0o644, 0o644]


def not_there(*args, **kwargs):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_a_file_system_without_locks_and_fsync_is_used_and_said_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files.fcntl, "flock", not_there)
    monkeypatch.setattr(os, "fsync", not_there)
    files.try_place(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning    {tmp_path}/a/b: its file system has no locks, so two ")
    assert line.endswith("it has no fsync, so a power cut can take or tear what is newest")
    lock_directory(tmp_path).close()
    make_directory(tmp_path / "c", lambda path: write_new(path / "d", "1"))
    write_atomically(tmp_path / "c" / "d", "2")
    append_line(tmp_path / "c" / "d", "3\n")
    assert (tmp_path / "c" / "d").read_text() == "23\n"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("code", ["EIO", "ENOSPC", "EDQUOT"])
def test_an_fsync_that_fails_for_another_reason_is_an_error(code, tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=code):
        files.try_place(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_is_known_before_anything_is_made(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "circle").symlink_to("circle")
    before = sorted(tmp_path.iterdir())
    for path in ("file/a", "nowhere", "nowhere/a", "circle", "circle/a", "x" * 254, "x" * 300):
        with pytest.raises(OSError, match=r"\w"):
            files.try_place(tmp_path / path)
        with pytest.raises(OSError, match=r"\w"):
            files.try_file(tmp_path / path)
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    files.try_place(tmp_path / "link")  # what the user names may be a link
    files.try_place(tmp_path / "link" / "a" / "b")
    files.try_file(tmp_path / "link" / "a")
    assert list((tmp_path / "real").iterdir()) == []


def test_no_way_of_writing_follows_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    place = tmp_path / "place"
    place.mkdir()
    ways = {
        "whole": lambda path: write_atomically(path, "ours"),
        "new": lambda path: write_new(path, "ours"),
        "published": lambda path: files.publish_new(path, "ours"),
        "appended": lambda path: append_line(path, "ours"),
        "log": lambda path: files.replaced_log(path).close(),
        "directory": lambda path: make_directory(path, lambda aside: None),
        "tried": files.try_file,
        ".lock": lambda path: lock_directory(path.parent),
    }
    for name, write in ways.items():
        path = place / name
        for planted in (path, files.partial_name(path)):
            planted.symlink_to(outside)
        with suppress(OSError, UserError):
            write(path)
        assert outside.read_text() == "theirs", name
        if name in ("whole", "log"):
            assert not path.is_symlink()
        else:
            assert os.readlink(path) == str(outside)


def test_a_new_file_is_whole_or_not_there(tmp_path, monkeypatch):
    files.publish_new(tmp_path / "a", "one\n")
    with pytest.raises(FileExistsError):
        files.publish_new(tmp_path / "a", "two\n")
    assert (tmp_path / "a").read_text() == "one\n"
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        files.publish_new(tmp_path / "b", "one\n")
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "link", not_there)  # exFAT, some FUSE
    files.publish_new(tmp_path / "c", "one\n")
    assert (tmp_path / "c").read_text() == "one\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]
