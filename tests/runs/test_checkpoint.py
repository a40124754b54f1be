"""Checkpoints: which is the newest whole one, what it holds, and which are kept."""

import json
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from small_models import random_model
from small_trainer import SMALL
from transformers import AutoModelForCausalLM

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.runs.checkpoint import (
    check_savable,
    checkpoints,
    intact_checkpoints,
    load_weights,
    prune_checkpoints,
    remove_checkpoints,
    save_checkpoint,
)
from rlvr_cli.training.state import State

CONFIG = resolve(set_layer(["steps=9", "data.source=somewhere", *SMALL]))


class Tokenizer:
    def save_pretrained(self, directory) -> None:
        Path(directory, "tokenizer.json").write_text("{}")


def policy(seed: int = 0, model=None):
    model = model or random_model(seed=seed)
    return SimpleNamespace(model=model, tokenizer=Tokenizer(), directory="somewhere")


def state(step: int) -> State:
    values = {"step": step, "settings": {}, "problems": "0", "start": "0", "cursor": 1}
    values |= {"weight_version": step, "carried": [], "kl_coef": 0.1 + 0.2, "mismatch": None}
    values |= {"optimizer": [{}], "resting": []}
    progress = {"before": None, "best": None, "seconds": 1.0}
    return State({**values, "progress": progress}, {"a.b": torch.tensor([float(step)])})


@pytest.fixture
def run(tmp_path):
    """A run with three checkpoints."""
    for step in (2, 9, 10):
        save_checkpoint(tmp_path, step, policy(step), CONFIG, state(step))
    return tmp_path


def test_a_checkpoint_brings_back_state_and_weights(run):
    (newest, *_) = actual = checkpoints(run)
    assert [item.step for item in actual] == [10, 9, 2]
    assert newest.integrity_error() is None
    repeated = newest.load_state()
    assert repeated.values == state(10).values
    assert repeated.tensors["a.b"].item() == 10
    model = random_model(seed=0)
    load_weights(newest, model)
    for ours, reference in zip(model.parameters(), random_model(seed=10).parameters(), strict=True):
        assert torch.equal(ours, reference)


def test_it_keeps_what_the_policy_was_trained_with_and_no_path(run):
    retained = yaml.safe_load((checkpoints(run)[0].path / "rlvr.yaml").read_text())
    assert retained["rollout"]["samples"] == 4
    assert "steps" not in retained
    assert "source" not in retained["data"]
    listing = json.loads((checkpoints(run)[0].path / "manifest.json").read_text())
    directory = run / "checkpoints/step-10"
    files = {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}
    assert listing.keys() == files - {"manifest.json"}


def damage(run, step: int) -> None:
    path = run / f"checkpoints/step-{step}/config.json"
    path.write_text(path.read_text() + " ")


def test_the_newest_whole_one_is_taken_and_the_damaged_are_named(run):
    lines: list[str] = []
    assert [item.step for item in islice(intact_checkpoints(run, lines.append), 3)] == [10, 9, 2]
    damage(run, 10)
    actual = intact_checkpoints(run, lines.append)
    assert next(actual).step == 9
    assert lines == [f"{run}/checkpoints/step-10 is damaged: the checksum of config.json differs"]
    assert next(actual).step == 2
    with pytest.raises(UserError, match="every checkpoint is damaged; start a new run"):
        next(actual)
    damage(run, 9)
    damage(run, 2)
    with pytest.raises(UserError, match="every checkpoint is damaged; start a new run"):
        next(intact_checkpoints(run, lines.append))
    assert len(lines) == 4


def test_a_checkpoint_that_could_not_be_written_leaves_nothing(run, monkeypatch):
    def fail(path, tensors):
        raise OSError("no space left")

    before = sorted(run.rglob("*"))
    monkeypatch.setattr("rlvr_cli.runs.checkpoint.write_tensors", fail)
    with pytest.raises(OSError, match="no space left"):
        save_checkpoint(run, 11, policy(), CONFIG, state(11))
    assert sorted(run.rglob("*")) == before


def test_without_any_there_is_none(tmp_path):
    assert next(intact_checkpoints(tmp_path, print), None) is None
    for name in ("step-x", "step-0000000001", "astep-1", "step-1b"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert checkpoints(tmp_path) == []


def test_a_checkpoint_of_another_step_is_damaged(run):
    (run / "checkpoints/step-10").rename(run / "checkpoints/step-11")
    newest = checkpoints(run)[0]
    assert newest.integrity_error() == "trainer/state.json: it is of step 10"
    with pytest.raises(ValueError, match="it is of step 10"):
        newest.load_state()


def test_only_the_named_steps_are_removed(run):
    remove_checkpoints(run, {2, 10, 77})
    assert [item.step for item in checkpoints(run)] == [9]


@given(st.sets(st.integers(1, 99), max_size=9), st.integers(1, 4), st.integers(1, 99) | st.none())
def test_the_newest_and_the_best_are_never_pruned(steps, keep, best):
    with TemporaryDirectory() as run:
        for step in steps:
            (Path(run) / f"checkpoints/step-{step}").mkdir(parents=True)
        prune_checkpoints(Path(run), keep, best)
        left = {checkpoint.step for checkpoint in checkpoints(Path(run))}
    assert left == set(sorted(steps)[-keep:]) | ({best} & steps)


def test_a_model_that_cannot_be_saved_is_found_out_before_training():
    check_savable(policy())

    class Stubborn:
        def save_pretrained(self, *args, **kwargs):
            raise NotImplementedError("not\nthis one")

    with pytest.raises(UserError, match=r"cannot be saved again \(NotImplementedError: not this"):
        check_savable(policy(model=Stubborn()))


def test_what_is_measured_later_is_what_was_trained(tmp_path):
    """From a start in bfloat16, an update smaller than half a step of it is kept."""
    trained = random_model().bfloat16().float()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1 + 1e-4)
    config = resolve(set_layer(["model=x"]))
    path = save_checkpoint(tmp_path, 1, policy(model=trained), config, state(1))
    read = AutoModelForCausalLM.from_pretrained(path)
    for name, parameter in trained.named_parameters():
        assert torch.equal(read.get_parameter(name), parameter)
        assert not parameter.any() or not torch.equal(parameter.bfloat16().float(), parameter)
