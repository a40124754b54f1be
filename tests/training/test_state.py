"""State as named tensors and JSON, which is what an optimizer goes on from."""

import json

import pytest
import torch

from rlvr_cli.training.state import (
    State,
    load_module,
    load_optimizer,
    module_state,
    optimizer_state,
)


def made(seed: int, width: int = 3):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.Linear(width, 2))
    optimizer = torch.optim.AdamW(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[1].parameters()}], lr=0.2
    )
    return model, optimizer


def step(model, optimizer) -> None:
    optimizer.zero_grad()
    model(torch.tensor([[1.0, 2.0]])).square().sum().backward()
    optimizer.step()


def test_a_copy_goes_on_as_the_original():
    (model, optimizer), (other, repeated) = made(0), made(1)
    step(model, optimizer)
    state = module_state("policy", model) | optimizer_state(optimizer)
    assert not any(tensor.requires_grad for tensor in state.tensors.values())
    retained = State(
        json.loads(json.dumps(state.values)), {k: v.clone() for k, v in state.tensors.items()}
    )
    step(model, optimizer)
    load_module("policy", other, retained.tensors)
    load_optimizer(repeated, retained)
    step(other, repeated)
    for ours, reference in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, reference)


def test_names_and_tied_weights():
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Linear(2, 2, bias=False)
            self.two = self.one

    assert list(module_state("a", Tied()).tensors) == ["a.one.weight"]
    model, optimizer = made(0)
    step(model, optimizer)
    names = {f"optimizer.{n}.{key}" for n in range(4) for key in ("step", "exp_avg", "exp_avg_sq")}
    assert optimizer_state(optimizer).tensors.keys() == names


def test_the_later_part_wins():
    first, two = (
        State({"a": 1, "b": 1}, {"x": torch.ones(1)}),
        State({"b": 2}, {"y": torch.ones(1)}),
    )
    both = first | two
    assert (both.values, set(both.tensors)) == ({"a": 1, "b": 2}, {"x", "y"})
    assert first.values == {"a": 1, "b": 1}


def test_parts_are_told_apart_by_their_whole_names():
    model, _ = made(0)
    tensors = module_state("critic", model).tensors
    tensors |= {f"critic2.{key}": torch.zeros(1) for key in ("0.weight", "0.bias")}
    load_module("critic", made(1)[0], tensors)
    with pytest.raises(KeyError):
        load_module("policy", model, tensors)


def test_another_shape_or_other_settings_are_refused_before_anything_is_loaded():
    (model, optimizer), (wide, other) = made(0), made(0, width=4)
    for each, its in ((model, optimizer), (wide, other)):
        step(each, its)
    with pytest.raises(ValueError, match=r"policy\.0\.weight has another shape"):
        load_module("policy", wide, module_state("policy", model).tensors)
    with pytest.raises(ValueError, match=r"optimizer\.0: moments of another shape"):
        load_optimizer(other, optimizer_state(optimizer))
    plain = torch.optim.AdamW(model.parameters())
    with pytest.raises(ValueError, match="settings are not those of this run"):
        load_optimizer(plain, optimizer_state(optimizer))
    assert plain.state_dict()["state"] == {}
