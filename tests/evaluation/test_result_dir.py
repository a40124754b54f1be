"""What `rlvr eval --out` keeps."""

import json
import os

import pytest
from pydantic import ValidationError
from small_groups import RIGHT, made_rollout

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.report import Fingerprint, Report
from rlvr_cli.core.types import Problem, Prompt, Response
from rlvr_cli.data.rows import JudgedRow, as_row
from rlvr_cli.evaluation.result_dir import (
    PartialResult,
    ResultDirectory,
    file_names,
)
from rlvr_cli.evaluation.result_dir import _DoneProblem as DoneProblem
from rlvr_cli.evaluation.result_dir import _Report as StoredReport


def row(identity, verdict, extracted=None):
    values = {"id": identity, "problem": f"p{identity}", "verdict": verdict}
    values |= {"extracted": extracted, "format_ok": verdict == "correct", "n_tokens": 10}
    return {**values, "response": "", "reward": None, "finish_reason": "stop"}


def done(identity: str, *verdicts: str) -> dict[str, list[Response]]:
    """The finished responses to a problem."""
    rows = [row(identity, verdict, str(n)) for n, verdict in enumerate(verdicts, 1)]
    return {identity: [JudgedRow.model_validate(values).answered for values in rows]}


def seeded(seed: int) -> Fingerprint:
    return Fingerprint({"seed": seed})


def test_a_problem_that_is_done_reaches_the_disk_before_the_next(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    unfinished = PartialResult(path, seeded(0), 1)
    synced = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, path.read_text().count("\n")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    unfinished.add(done("1", "wrong"))
    unfinished.add(done("2", "wrong"))
    assert synced == [(path.stat().st_ino, 1), (path.stat().st_ino, 2)]


def test_unfinished_rows_come_back_whole_or_not_at_all(tmp_path):
    out = tmp_path / "out"
    first = ResultDirectory(out).unfinished("name", seeded(1), samples=2)
    first.add(done("b", "correct", "wrong"))
    first.add(done("a", "correct", "wrong"))
    with first.path.open("a") as file:
        file.write(json.dumps(row("c", "correct", "1")) + "\n" + '{"id": "c", "ver')
    repeated = ResultDirectory(out).unfinished("name", seeded(1), samples=2)
    assert (set(repeated.responses_to), repeated.dropped) == ({"a", "b"}, 2)
    assert [response.problem.id for response in repeated.responses(["a", "b"])] == [
        "a",
        "a",
        "b",
        "b",
    ]
    assert repeated.path.read_text().count("\n") == 2
    assert ResultDirectory(out).unfinished("name", seeded(1), samples=2).dropped == 0
    with pytest.raises(UserError, match=r"begun with other settings.*seed 2, theirs 1"):
        ResultDirectory(out).unfinished("name", seeded(2), samples=2)


def test_fields_of_a_problem_that_are_named_like_ours_outlive_a_stop(tmp_path):
    fields = {"level": 1, "places": ["Paris"], "rewards": {"theirs": 1, "note": "x"}}
    problem = Problem("a", "?", "1", fields)
    responses = [made_rollout(RIGHT, prompt=Prompt(problem, "?", (1,), False))]
    path = tmp_path / "rows.jsonl"
    PartialResult(path, seeded(0), 1).add({"a": responses})
    line = path.read_text()
    repeated = PartialResult(path, seeded(0), 1)
    assert repeated.path.read_text() == line
    assert list(map(as_row, repeated.responses("a"))) == list(map(as_row, responses))


B_ON_THE_WAY = b'{"fingerprint": {"seed": 1}, "rows": ['


@pytest.mark.parametrize(
    ("damage", "kept", "dropped"),
    [
        (lambda lines: [b"\0" * len(lines[0]), lines[1], lines[2]], {"b", "c"}, 1),
        (lambda lines: [lines[0], b"\0" * 512 + lines[1][512:], lines[2]], {"a", "c"}, 1),
        (lambda lines: [lines[0], lines[1], lines[2][:-9]], {"a", "b"}, 1),
        (lambda lines: [*lines, b"\0" * 4096], {"a", "b", "c"}, 1),
        (lambda lines: [*lines, B_ON_THE_WAY], {"a", "b", "c"}, 1),
        (lambda lines: [*lines, b"\xff\xfe", b"[" * 100_000, b"{}", b"7"], {"a", "b", "c"}, 4),
        (lambda lines: [b"\0" * 4096], set(), 1),
        (lambda lines: [b""], set(), 0),
        (lambda lines: [lines[0].replace(b'"verdict"', b'"verdikt"')], set(), 1),
        (lambda lines: [lines[0], lines[1], lines[0]], {"a", "b"}, 0),
    ],
)
def test_what_a_power_cut_leaves_loses_the_torn_groups_alone(tmp_path, damage, kept, dropped):
    out = tmp_path / "out"
    first = ResultDirectory(out).unfinished("name", seeded(1), samples=2)
    for identity in "abc":
        first.add(done(identity, "correct", "wrong"))
    lines = first.path.read_bytes().splitlines()
    first.path.write_bytes(b"\n".join(damage(lines)))
    repeated = ResultDirectory(out).unfinished("name", seeded(1), samples=2)
    assert (set(repeated.responses_to), repeated.dropped) == (kept, dropped)
    for key in kept:
        assert repeated.responses_to[key] == first.responses_to[key]


def test_with_a_torn_first_line_problems_of_other_settings_are_not_thrown_away(tmp_path):
    first = ResultDirectory(tmp_path / "out").unfinished("name", seeded(1), samples=1)
    for identity in "ab":
        first.add(done(identity, "correct"))
    torn = b"\0\n" + first.path.read_bytes().split(b"\n", 1)[1]
    first.path.write_bytes(torn)
    with pytest.raises(UserError, match="begun with other settings"):
        ResultDirectory(tmp_path / "out").unfinished("name", seeded(2), samples=1)
    assert first.path.read_bytes() == torn


def test_a_result_directory_in_use_is_refused(tmp_path):
    early, late = ResultDirectory(tmp_path / "out"), ResultDirectory(tmp_path / "out")
    early.unfinished("name", seeded(1), samples=1)
    with pytest.raises(UserError, match="another process is using it"):
        ResultDirectory(tmp_path / "out")
    with pytest.raises(UserError, match="another process is using it"):
        late.unfinished("name", seeded(1), samples=1)
    early.finish(Report("2026-01-01", None, []), [])
    with pytest.raises(UserError, match="it exists already, finished"):
        late.unfinished("name", seeded(1), samples=1)


def test_names_of_files_are_plain_and_different():
    assert file_names([("org/m", "./a.jsonl"), ("org_m", "a.jsonl"), ("m", "..")]) == [
        "a.jsonl--org_m",
        "a.jsonl--org_m-2",
        "--m",
    ]
    long = file_names([("m" * 10_000, "d"), ("m" * 10_001, "d"), ("漢" * 200, "d")])
    assert len(set(long)) == 3
    assert all(len(f".{name}.jsonl.partial".encode()) < 255 for name in long)
    assert len(set(file_names([("m", "d")] * 4000))) == 4000


OWN = {"id": "7", "verdict": "wrong", "response": "x", "n_tokens": 3}


@pytest.mark.parametrize(
    ("schema", "base", "changed"),
    [
        (DoneProblem, {"fingerprint": {}, "rows": [OWN]}, {"rows": [OWN, {}]}),
        (DoneProblem, {"fingerprint": {}, "rows": [OWN]}, {"rows": []}),
        (DoneProblem, {"fingerprint": {}, "rows": [OWN]}, {"fingerprint": []}),
        (StoredReport, {"results": []}, {"results": [{"model": "m"}]}),
    ],
)
def test_each_mistake_is_refused_and_nothing_else(schema, base, changed):
    schema.model_validate(base)
    with pytest.raises(ValidationError):
        schema.model_validate(base | changed)
