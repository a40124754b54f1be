"""A run directory: what is written when, and what is left of it after a step is taken back."""

import json
import os
from contextlib import closing
from functools import partial

import pytest
from small_groups import RIGHT, WRONG, made_group
from small_trainer import SMALL

from rlvr_cli.config import as_yaml, resolve, set_layer
from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.core.types import Problem
from rlvr_cli.data.rows import as_row
from rlvr_cli.runs.run_dir import (
    RunDirectory,
    create_run,
    default_directory,
)
from rlvr_cli.runs.stored import read_problems
from rlvr_cli.training.record import StepResult

CONFIG = resolve(set_layer(SMALL))


def metrics(step: int) -> dict:
    return {"step": step, "no_update": None, "mixed_share": 0.5, "verdicts": {}, "loss": 0.1 * step}


def figures(step: int) -> StepFigures:
    return StepFigures.from_row(metrics(step))


def result(step: int, held_out=()) -> StepResult:
    tokens = [{"group": 1, "text": ["é"]}] if step == 3 else []
    return StepResult(step, figures(step), [made_group("a", RIGHT, WRONG)], held_out, tokens)


@pytest.fixture
def run(tmp_path):
    """Three steps, the second with a measurement."""
    with closing(create_run(tmp_path / "run", CONFIG)) as run:
        for step in (1, 2, 3):
            run.record(result(step, made_group("b", RIGHT).rollouts if step == 2 else ()))
        yield run


def names(run: RunDirectory) -> list[str]:
    return sorted(path.stem for path in (run.directory / "rollouts").iterdir())


def test_each_step_has_its_rollouts_and_a_line_of_metrics(run):
    assert names(run) == [
        "held-out-step-000002",
        "manifest",
        "step-000001",
        "step-000002",
        "step-000003",
        "tokens-step-000003",
    ]
    assert json.loads((run.directory / "rollouts" / "tokens-step-000003.json").read_text()) == [
        {"group": 1, "text": ["é"]}
    ]
    assert run.rollouts_error(3) is None
    lines = (run.directory / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [metrics(step) for step in (1, 2, 3)]
    rows = (run.directory / "rollouts" / "step-000001.jsonl").read_text().splitlines()
    assert [json.loads(row)["verdict"] for row in rows] == ["correct", "wrong"]
    rollouts = result(1).sampled[0].rollouts
    assert [jsonl_line(as_row(rollout)) for rollout in rollouts] == [f"{row}\n" for row in rows]
    assert (run.directory / "config.yaml").read_text() == as_yaml(CONFIG)


def test_the_end_of_a_step_is_restored(run):
    run.write("summary.json", "é\n")
    assert (run.directory / "summary.json").read_bytes() == "é\n".encode()
    run.write_rollouts("held-out-before", [])
    run.write_rollouts("held-out-after", [])
    tokens = run.directory / "rollouts" / "tokens-step-000003.json"
    tokens.write_text("[]")
    assert run.rollouts_error(3) == f"the checksum of {tokens.name} differs"
    assert run.rollouts_error(2) is None
    assert run.truncate_to(2) == [figures(1), figures(2)]
    assert names(run) == [
        "held-out-before",
        "held-out-step-000002",
        "manifest",
        "step-000001",
        "step-000002",
    ]
    assert not (run.directory / "summary.json").exists()
    assert len((run.directory / "metrics.jsonl").read_text().splitlines()) == 2
    assert run.truncate_to(0) == []
    assert names(run) == ["held-out-before", "manifest"]


def test_lines_that_are_no_steps_or_not_in_order_are_left_out(run):
    path = run.directory / "metrics.jsonl"
    good = path.read_text().splitlines()
    lines = [good[0], "{", '{"step": 9}', good[2], good[1], good[2]]
    path.write_text("\n".join(lines) + "\n" + json.dumps(metrics(4)))  # half a line at the end
    assert run.truncate_to(9) == [figures(1), figures(3)]


def test_a_run_is_held_until_it_is_closed_and_never_overwritten(run):
    with pytest.raises(UserError, match="another process is using it"):
        RunDirectory(run.directory)
    run.close()
    RunDirectory(run.directory).close()
    with pytest.raises(UserError, match="exists already; name another directory"):
        create_run(run.directory, CONFIG)
    (run.directory / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made \(Not a directory\)"):
        create_run(run.directory / "file" / "run", CONFIG)


PROBLEMS = [Problem("1", "p\u2028q", None, {"level": 3}), Problem("2", "é", "7")]


def test_problems_of_a_pipe_are_kept_as_they_were(tmp_path):
    create_run(tmp_path / "run", CONFIG, PROBLEMS).close()
    assert read_problems(tmp_path / "run") == PROBLEMS
    create_run(tmp_path / "other", CONFIG).close()
    with pytest.raises(UserError, match=r"problems\.jsonl: cannot be read \(No such file"):
        read_problems(tmp_path / "other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": no problems in it"),
        ("{\n", ":1: not a JSON object"),
        ('{"id": "1", "problem": "p", "answer": 7, "extra": {}}\n', ":1: answer must be"),
    ],
)
def test_a_copy_that_was_edited_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "problems.jsonl").write_text(text)
    with pytest.raises(UserError, match=f"problems.jsonl{message}"):
        read_problems(tmp_path)


def test_a_run_without_a_name_gets_one_that_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "NOW")
    created = []
    for _ in range(3):
        created.append(default_directory("grpo", ["sets/my.jsonl"]))
        created[-1].mkdir(parents=True)
    assert [str(path) for path in created] == [f"runs/grpo-my-NOW{end}" for end in ("", "-2", "-3")]
    assert str(default_directory("ppo", ["-"])) == "runs/ppo-stdin-NOW"
    assert str(default_directory("ppo", ["a.jsonl", "b", "c"])) == "runs/ppo-a-and-2-more-NOW"


def bytes_written(run: RunDirectory, steps: int, monkeypatch) -> int:
    """The bytes that the manifest of so many steps takes on its way to the disk."""
    counted = []
    append, unbroken = files.append_line, files.write_atomically

    def count(write, path, text):
        if path.stem == "manifest":
            counted.append(len(text))
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(files, "append_line", partial(count, append))
        patch.setattr(files, "write_atomically", partial(count, unbroken))
        for step in range(1, steps + 1):
            run.write_rollouts(f"step-{step:06d}", [])
    return sum(counted)


def test_the_manifest_grows_with_the_steps_and_not_with_their_square(tmp_path, monkeypatch):
    sums = []
    for steps in (50, 100):
        with closing(create_run(tmp_path / str(steps), CONFIG)) as run:
            sums.append(bytes_written(run, steps, monkeypatch))
            assert run.rollouts_error(steps) is None
    assert sums[1] == 2 * sums[0]


def test_a_manifest_of_an_earlier_version_is_read_and_goes_on(run):
    rollouts = run.directory / "rollouts"
    lines = (rollouts / files.MANIFEST_LINES).read_text().splitlines()
    stored = {row["file"]: row["sha256"] for row in map(json.loads, lines)}
    (rollouts / files.MANIFEST_LINES).unlink()
    (rollouts / files.MANIFEST).write_text(json.dumps(stored, indent=2))
    assert run.rollouts_error(3) is None
    run.truncate_to(2)
    run.record(result(3))
    assert (rollouts / files.MANIFEST_LINES).read_text().splitlines() == lines
    assert not (rollouts / files.MANIFEST).exists()
    (rollouts / "step-000001.jsonl").write_text("")
    assert run.rollouts_error(3) == "the checksum of step-000001.jsonl differs"


def test_a_torn_line_of_the_manifest_does_not_count(run):
    path = run.directory / "rollouts" / files.MANIFEST_LINES
    unbroken = path.read_bytes()
    path.write_bytes(unbroken + b'{"file": "step-0000')
    assert run.rollouts_error(3) is None
    run.truncate_to(3)
    assert path.read_bytes() == unbroken
    for bad in (b"{}\n", b'{"file": 1, "sha256": ""}\n', b"[1]\n", b"\xff\n"):
        path.write_bytes(bad)
        assert run.rollouts_error(3) == "manifest.json cannot be read"
    *earlier, last = unbroken.splitlines(keepends=True)
    path.write_bytes(b"".join(earlier) + last[:-1])  # of a step that has its checkpoint
    assert run.rollouts_error(3) == "manifest.json lists no step-000003.jsonl"
    assert run.rollouts_error(2) is None
