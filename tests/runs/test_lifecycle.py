"""A run from its first step to its end, however it ends: what is written, saved and said."""

import json
import time
from contextlib import closing
from dataclasses import replace

import pytest
from small_trainer import has_even, make_trainer

from rlvr_cli.console.display import Display, print_step
from rlvr_cli.core.errors import EngineError, RunStoppedError, UserError
from rlvr_cli.core.step_figures import HeldOut
from rlvr_cli.evaluation.held_out import MeasuredSets
from rlvr_cli.runs.checkpoint import checkpoints
from rlvr_cli.runs.lifecycle import RunLifecycle
from rlvr_cli.runs.run_dir import create_run
from rlvr_cli.runs.summary import Best


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begin a small run with these settings; its tokenizer has nothing to save."""
    opened = []

    def make(*settings: str, is_right=has_even) -> RunLifecycle:
        trainer = make_trainer(is_right, "algo=grpo", "algorithm.kl=none", *settings)
        monkeypatch.setattr(
            type(trainer.session.policy.tokenizer),
            "save_pretrained",
            lambda *a: None,
            raising=False,
        )
        run = create_run(tmp_path / "run", trainer.config)
        opened.append(closing(run))
        return RunLifecycle(trainer, run, Display(), on_step=print_step)

    yield make
    for item in opened:
        item.__exit__()


def saved(loop: RunLifecycle) -> list[int]:
    return [item.step for item in checkpoints(loop.run.directory)]


def summary(loop: RunLifecycle) -> dict:
    return json.loads((loop.run.directory / "summary.json").read_text())


def failing_at(loop: RunLifecycle, step: int, error: BaseException, where="rollout") -> None:
    """Let that step fail while it samples or while it updates."""
    trainer = loop.trainer
    of, name = {
        "rollout": (trainer.session.engine, "generate"),
        "update": (trainer.updater, "update"),
    }[where]
    unbroken = getattr(of, name)

    def broken(*args):
        if trainer.step + 1 == step:
            raise error
        return unbroken(*args)

    setattr(of, name, broken)


def test_the_last_step_is_saved_and_the_newest_are_kept(begin, capsys):
    loop = begin("steps=5", "checkpoint.every=2", "checkpoint.keep=2")
    loop.run_to_end()
    assert saved(loop) == [5, 4]
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5]
    actual = summary(loop)
    assert (actual["steps"], actual["model"]) == (5, "checkpoints/step-5")
    assert (actual["before"], actual["after"], actual["best"]) == (None, None, None)
    assert actual["minutes"] < 1


def test_the_best_measured_step_is_saved_and_kept(begin):
    loop = begin("steps=4", "checkpoint.every=4", "checkpoint.keep=1")
    measured = iter([0.25, 0.5, 0.5, None])
    train_steps = loop.trainer.train_steps

    def with_measurements(*args):
        for result in train_steps(*args):
            figures = replace(result.figures, held_out={"": HeldOut(next(measured))})
            yield replace(result, figures=figures)

    loop.trainer.train_steps = with_measurements
    loop.run_to_end()
    assert loop.best == Best(step=2, pass_at_1=0.5)
    assert saved(loop) == [4, 2]
    assert summary(loop)["best"] == {"step": 2, "pass@1": 0.5}


@pytest.mark.parametrize(("where", "last"), [("rollout", 3), ("update", 2)])
def test_a_step_that_fails_loses_itself_and_weights_half_updated_are_not_saved(begin, where, last):
    loop = begin("steps=5", "checkpoint.every=2")
    failing_at(loop, 4, ZeroDivisionError("by\nzero"), where)
    message = rf"^step 4 failed: ZeroDivisionError: by zero \(see .*\); saved up to step {last}; go"
    with pytest.raises(UserError, match=message):
        loop.run_to_end()
    assert saved(loop) == ([3, 2] if last == 3 else [2])
    assert "in broken" in (loop.run.directory / "error.txt").read_text()


@pytest.mark.parametrize("error", [UserError("so"), EngineError("so")])
def test_a_known_error_keeps_its_kind_and_says_how_to_go_on(begin, error):
    loop = begin("steps=4", "checkpoint.every=9")
    failing_at(loop, 2, error)
    with pytest.raises(type(error)) as ended:
        loop.run_to_end()
    directory = loop.run.directory
    assert str(ended.value) == (
        f"so; saved up to step 1; go on with rlvr train --resume {directory}"
    )


def test_an_interruption_saves_the_last_whole_step(begin, capsys):
    loop = begin("steps=4", "checkpoint.every=9")
    failing_at(loop, 3, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        loop.run_to_end()
    assert saved(loop) == [2]
    assert summary(loop)["steps"] == 2
    assert "interrupted after 2 steps" in capsys.readouterr().err


def test_a_guard_stops_the_run_with_its_last_step_saved(begin):
    loop = begin("steps=9", "checkpoint.every=9", "guards.no_signal_steps=3", is_right=bool)
    with pytest.raises(RunStoppedError, match=r"no signal for 3 steps: .*; saved up to step 3;"):
        loop.run_to_end()
    assert saved(loop) == [3]
    assert summary(loop)["steps"] == 3


def test_the_minutes_of_earlier_lives_count(begin):
    loop = begin("steps=1")
    loop.before = MeasuredSets.model_validate({"pass@1": 0.5})
    loop.earlier_seconds = 600.0
    loop.run_to_end()
    actual = summary(loop)
    assert 10 <= actual["minutes"] < 11
    assert actual["before"]["pass@1"] == 0.5


@pytest.mark.parametrize(
    ("takes", "since", "due"), [(0.05, 1, True), (0.06, 1, False), (90, 601, True)]
)
def test_it_is_saved_where_that_takes_a_small_share_or_after_ten_minutes(begin, takes, since, due):
    loop = begin("steps=1")
    loop._save_seconds = takes
    loop._saved_at = time.monotonic() - since
    assert loop._is_due() == due


def test_it_is_saved_at_the_steps_that_are_named(begin):
    loop = begin("steps=4", "checkpoint.every=2")
    loop._save_seconds = 0.0
    loop.trainer.step = 3
    assert not loop._is_due()
    loop.trainer.step = 4
    assert loop._is_due()
