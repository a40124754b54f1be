"""Tensors in files of bounded size: the same files whatever the number of processes."""

import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from side_by_side import side_by_side
from small_models import random_model
from test_checkpoint import CONFIG, policy, state
from transformers import AutoModelForCausalLM, PreTrainedModel

from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.model.pretrained import stored_weights
from rlvr_cli.ranks.group import is_first, local_shard, shard, world
from rlvr_cli.runs import checkpoint
from rlvr_cli.runs.checkpoint import (
    checkpoints,
    load_weights,
    read_tensors,
    save_checkpoint,
    write_tensors,
)
from rlvr_cli.training.state import State

BOUND = 20_000
FAMILIES = ("qwen2-tied", "qwen2-untied", "qwen2-moe")


def test_a_file_ends_before_the_tensor_that_is_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_LARGEST_FILE", 32)
    tensors = {name: torch.full((4,), float(n)) for n, name in enumerate("abc")}
    path = tmp_path / "model.safetensors"
    path.touch()
    write_tensors(path, tensors.items())
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = tmp_path / "model.safetensors.index.json"
    assert sorted(item.name for item in tmp_path.iterdir()) == [*names, index.name]
    assert [sorted(load_file(tmp_path / name)) for name in names] == [["a", "b"], ["c"]]
    places = {"a": names[0], "b": names[0], "c": names[1]}
    assert json.loads(index.read_text()) == {"metadata": {"total_size": 48}, "weight_map": places}
    repeated = read_tensors(path)
    assert repeated.keys() == tensors.keys()
    assert all(torch.equal(repeated[name], item) for name, item in tensors.items())


def test_a_tensor_that_is_too_large_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_LARGEST_FILE", 1)
    write_tensors(tmp_path / "a.safetensors", [("x", torch.ones(2)), ("y", torch.ones(3))])
    assert len(list(tmp_path.glob("*-of-00002.safetensors"))) == 2
    write_tensors(tmp_path / "b.safetensors", [])
    assert read_tensors(tmp_path / "b.safetensors") == {}


def saved(place: Path) -> None:
    """Save a checkpoint of each family, with moments, in files of 20,000 bytes."""
    for family in FAMILIES:
        model = shared_out(family)
        moments = {f"optimizer.{n}.exp_avg": p * 2 for n, p in enumerate(model.parameters())}
        values = state(3)
        tensors = values.tensors | {name: item.detach() for name, item in moments.items()}
        save_checkpoint(
            place / family, 3, policy(model=model), CONFIG, State(values.values, tensors)
        )


def shared_out(family: str, seed: int = 0) -> PreTrainedModel:
    model = random_model(family, seed=seed)
    if world() > 1:
        shard(model, decoder_layers(model))
    return model


def loaded(run: Path) -> None:
    """Load weights of another number of processes into a model that is shared out."""
    for family in FAMILIES:
        model = shared_out(family, seed=1)
        load_weights(checkpoints(run / family)[0], model)
        for mine, other in zip(model.parameters(), shared_out(family).parameters(), strict=True):
            assert torch.equal(local_shard(mine), local_shard(other))


def full(place: Path) -> None:
    """The disk is full as the first process writes."""
    if is_first():
        checkpoint.save_file = no_room
    with pytest.raises(OSError, match="No space left"):
        saved(place)


def no_room(*args: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "a")


@pytest.fixture
def small_files(monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "_LARGEST_FILE", BOUND)


@pytest.mark.usefixtures("small_files")
def test_checkpoints_are_those_of_one_process_to_the_byte_and_any_number_reads_them(tmp_path):
    saved(tmp_path / "one")
    side_by_side(2, lambda: (saved(tmp_path / "two"), full(tmp_path / "full")), tmp_path)
    side_by_side(3, lambda: (loaded(tmp_path / "two"), saved(tmp_path / "three")), tmp_path)
    assert not list((tmp_path / "full").rglob("*.*"))
    for family in FAMILIES:
        item = checkpoints(tmp_path / "one" / family)[0]
        manifest = (item.path / "manifest.json").read_text()
        assert manifest.count("-of-") > 4
        for name in ("two", "three"):
            many = checkpoints(tmp_path / name / family)[0]
            assert (many.path / "manifest.json").read_text() == manifest
            assert many.integrity_error() is None
        model = random_model(family)
        reference = AutoModelForCausalLM.from_pretrained(many.path, dtype=torch.float32)
        assert all(map(torch.equal, reference.parameters(), model.parameters()))
        actual = many.load_state().tensors
        for number, parameter in enumerate(model.parameters()):
            assert torch.equal(actual[f"optimizer.{number}.exp_avg"], parameter * 2)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-moe", "gpt-oss", "gpt2", "mamba"])
def test_names_and_bytes_are_those_of_transformers(family, tmp_path):
    model = random_model(family)
    model.save_pretrained(tmp_path)
    reference = load_file(tmp_path / "model.safetensors")
    ours = dict(stored_weights(model))
    assert reference.keys() == ours.keys()
    assert all(torch.equal(ours[name], item) for name, item in reference.items())
