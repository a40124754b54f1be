"""What `rlvr eval --out` keeps."""

import os

from rlvr_cli.evaluation.result_dir import PartialResult


def test_a_problem_that_is_done_reaches_the_disk_before_the_next(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    unfinished = PartialResult(path, {"seed": 0}, 1)
    synced = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, path.read_text().count("\n")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    unfinished.add("1", [{"id": "1"}])
    unfinished.add("2", [{"id": "2"}])
    # The header and one row, then the header and two.
    assert synced == [(path.stat().st_ino, 2), (path.stat().st_ino, 3)]
