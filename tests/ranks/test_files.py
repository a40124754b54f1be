"""Tensors in files of bounded size: the same files whatever the number of processes, and no process
ever holds much more than one of them."""

import json
import weakref
from pathlib import Path

import pytest
import torch
from conftest import random_model
from safetensors.torch import load_file
from side_by_side import side_by_side
from test_checkpoint import CONFIG, policy, state
from transformers import AutoModelForCausalLM

from rlvr_cli.model.pretrained import stored_weights
from rlvr_cli.ranks import files
from rlvr_cli.ranks.files import read_tensors, write_tensors
from rlvr_cli.ranks.group import is_first, world
from rlvr_cli.ranks.shards import own_slice, shard
from rlvr_cli.runs.checkpoint import checkpoints, load_weights, save_checkpoint
from rlvr_cli.training.state import State

BOUND = 20_000
FAMILIES = ("qwen2-tied", "qwen2-untied", "qwen2-moe")


def test_a_file_ends_before_the_tensor_that_is_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", 32)
    tensors = {name: torch.full((4,), float(n)) for n, name in enumerate("abc")}
    path = tmp_path / "model.safetensors"
    path.touch()
    write_tensors(path, tensors.items())
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = tmp_path / "model.safetensors.index.json"
    assert sorted(one.name for one in tmp_path.iterdir()) == [*names, index.name]
    assert [sorted(load_file(tmp_path / name)) for name in names] == [["a", "b"], ["c"]]
    places = {"a": names[0], "b": names[0], "c": names[1]}
    assert json.loads(index.read_text()) == {"metadata": {"total_size": 48}, "weight_map": places}
    again = read_tensors(path)
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], one) for name, one in tensors.items())


def test_a_tensor_that_is_too_large_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", 1)
    write_tensors(tmp_path / "a.safetensors", [("x", torch.ones(2)), ("y", torch.ones(3))])
    assert len(list(tmp_path.glob("*-of-00002.safetensors"))) == 2
    write_tensors(tmp_path / "b.safetensors", [])
    assert read_tensors(tmp_path / "b.safetensors") == {}


class Held:
    """What was put together and is still alive, at most, in bytes."""

    def __init__(self) -> None:
        self.whole, self.alive, self.most = files.whole, list[weakref.ref]([]), 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        found = self.whole(tensor)
        self.alive = [one for one in self.alive if one() is not None] + [weakref.ref(found)]
        self.most = max(self.most, sum(one().nbytes for one in self.alive if one() is not None))
        return found


def saved(place: Path) -> None:
    """Save a checkpoint of each family, with moments, in files of 20,000 bytes."""
    for family in FAMILIES:
        model = random_model(family)
        shard(model)
        moments = {f"optimizer.{n}.exp_avg": p * 2 for n, p in enumerate(model.parameters())}
        values = state(3)
        tensors = values.tensors | {name: one.detach() for name, one in moments.items()}
        files.whole = held = Held()
        save_checkpoint(
            place / family, 3, policy(model=model), CONFIG, State(values.values, tensors)
        )
        files.whole = held.whole
        if family != "qwen2-moe" and world() > 1:
            layers = ([p.nbytes for p in layer.parameters()] for layer in model.model.layers)
            one_layer = max(map(sum, layers))
            all_of_it = sum(one.nbytes for one in model.parameters())
            assert held.most <= one_layer + BOUND * is_first() < all_of_it


@pytest.mark.parametrize("count", [2, 3])
def test_checkpoints_are_those_of_one_process_to_the_byte(count, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", BOUND)
    saved(tmp_path / "one")
    side_by_side(count, lambda: saved(tmp_path / "many"), tmp_path)
    for family in FAMILIES:
        one, many = (checkpoints(tmp_path / name / family)[0] for name in ("one", "many"))
        manifest = (one.path / "manifest.json").read_text()
        assert (many.path / "manifest.json").read_text() == manifest
        assert manifest.count("-of-") > 4
        assert many.integrity_error() is None
        model = random_model(family)
        theirs = AutoModelForCausalLM.from_pretrained(many.path, dtype=torch.float32)
        assert all(map(torch.equal, theirs.parameters(), model.parameters()))
        found = many.load_state().tensors
        for number, parameter in enumerate(model.parameters()):
            assert torch.equal(found[f"optimizer.{number}.exp_avg"], parameter * 2)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-moe", "gpt-oss", "gpt2", "mamba"])
def test_names_and_bytes_are_those_of_transformers(family, tmp_path):
    model = random_model(family)
    model.save_pretrained(tmp_path)
    theirs, ours = load_file(tmp_path / "model.safetensors"), dict(stored_weights(model))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(ours[name], one) for name, one in theirs.items())


def loaded(run: Path) -> None:
    """Load weights of another number of processes into a model that is shared out."""
    for family in FAMILIES:
        model = random_model(family, seed=1)
        shard(model)
        load_weights(checkpoints(run / family)[0], model)
        whole = random_model(family)
        shard(whole)
        for mine, other in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.equal(own_slice(mine), own_slice(other))


def test_two_processes_write_and_three_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", BOUND)
    side_by_side(2, lambda: saved(tmp_path), tmp_path)
    side_by_side(3, lambda: loaded(tmp_path), tmp_path)
