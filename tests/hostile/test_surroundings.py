"""Unlucky surroundings: file systems without locks, what a batch system left in the environment,
terminals that are not UTF-8, full outputs, places where nothing can be written."""

import errno
import fcntl
import os
import sys
from pathlib import Path

import pytest
from conftest import small_run
from forked import forked

from rlvr_cli.__main__ import main

ROW = '{"problem": "1+1", "answer": "2", "response": "2", "Stufe": "schön ≥ 3"}\n'
MEASURE = ("eval", "--responses", "r.jsonl")
LACK = "its file system has no locks"


@pytest.fixture(autouse=True)
def _rows(tmp_path):
    (tmp_path / "r.jsonl").write_text(ROW)


def without_locks_and_fsync():
    """The command where neither can be had, as on some network file systems."""

    def refuse(number: int):
        def fail(*args):
            raise OSError(number, os.strerror(number))

        return fail

    fcntl.flock = refuse(errno.ENOLCK)
    os.fsync = refuse(errno.EINVAL)
    return main()


def test_a_run_without_locks_and_fsync_ends_and_goes_on(tmp_path):
    begin = small_run("--steps", "1", "--out", "run", "-q", "--set", "eval.limit=0")
    for command in (begin, ["train", "--resume", "run", "--steps", "2", "-q"]):
        result = forked(command, tmp_path, program=without_locks_and_fsync)
        assert result.rc == 0, result.err
        assert result.err.count(LACK) == 1, result.err
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_result_without_locks_and_fsync_is_written(tmp_path):
    result = forked([*MEASURE, "--out", "res"], tmp_path, program=without_locks_and_fsync)
    assert result.rc == 0, result.err
    assert result.err.count(LACK) == 1
    assert (tmp_path / "res" / "report.json").exists()


ENVIRONMENTS = {
    "WORLD_SIZE": {"WORLD_SIZE": "abc"},
    "WORLD_SIZE of nobody": {"WORLD_SIZE": "0"},
    "RANK": {"WORLD_SIZE": "2", "RANK": "$SLURM_PROCID"},
    "RANK beyond": {"WORLD_SIZE": "2", "RANK": "2"},
    "OMP_NUM_THREADS": {"OMP_NUM_THREADS": "all"},
}


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("command", [small_run("--out", "run"), ["eval", "--limit", "1"]])
def test_what_a_batch_system_left_is_one_line(command, environment, tmp_path):
    result = forked(command, tmp_path, environment=environment)
    assert result.rc == 2, result.err
    (line,) = [line for line in result.err.splitlines() if line.startswith("rlvr: error: ")]
    assert line.startswith(f"rlvr: error: {[*environment][-1]}=")
    assert "not foreseen" not in result.err


@pytest.mark.parametrize("form", ["md", "csv", "latex", "json", "table"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_output_in_any_encoding(form, encoding, tmp_path):
    def program():
        sys.stdout.reconfigure(encoding=encoding, errors="strict")
        return main()

    result = forked([*MEASURE, "--by", "Stufe", "--format", form], tmp_path, program=program)
    assert result.rc == 0, result.err
    if form in ("md", "csv", "latex"):
        assert r"\u2265 3" in result.out


@pytest.mark.parametrize(
    "command", [["train", "--help"], ["--help"], ["train", "--settings"], ["--version"]]
)
def test_a_full_output_is_one_line(command, tmp_path):
    result = forked(command, tmp_path, stdout="/dev/full")
    assert result.rc == 2
    assert result.err.splitlines()[-1] == "rlvr: error: output: No space left on device"


PLACES = {
    "a link to nowhere": lambda path: path.symlink_to("gone"),
    "a link in a circle": lambda path: path.symlink_to("out"),
    "below a file": lambda path: path.parent.touch(),
    "below a link to nowhere": lambda path: path.parent.symlink_to("gone"),
}
WRITERS = {
    "train": small_run(),
    "eval": ["eval", "chains", "-n", "1"],
    "sample": ["sample", "What is 1 + 1?"],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", WRITERS)
def test_a_place_that_cannot_be_is_refused_before_a_model_is_loaded(
    command, place, tmp_path, monkeypatch
):
    from rlvr_cli.setup import session

    loaded = "a model was loaded"

    def fail(*args, **options):
        raise AssertionError(loaded)

    monkeypatch.setattr(session, "load_model", fail)
    out = tmp_path / ("x/out" if place.startswith("below") else "out")
    PLACES[place](out)
    result = forked([*WRITERS[command], "--out", str(out)], tmp_path)
    assert result.rc == 2, result.err
    assert result.err.splitlines()[-1].startswith(f"rlvr: error: --out {out}"), result.err
    assert loaded not in result.err


def test_nothing_is_left_of_a_place_that_was_tried(tmp_path):
    result = forked(["train", "gone.jsonl", "--out", "a/b/run"], tmp_path)
    assert result.rc == 2
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == ["r.jsonl"]
