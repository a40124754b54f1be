"""AdamW in its forms: each equals float32's to what its arithmetic allows, and goes on exactly."""

import json

import pytest
import torch
from safetensors.torch import load, save

from rlvr_cli.config import OptimConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.training.optimizer import (
    BFloat16AdamW,
    load_optimizer,
    new_optimizer,
    optimizer_state,
    set_rates,
)
from rlvr_cli.training.state import State

STEPS = 6
LR = 0.01


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    """A matrix and a vector."""
    torch.manual_seed(0)
    shapes = ((64, 128), (5,))
    return [torch.nn.Parameter(torch.randn(shape).bfloat16().to(dtype)) for shape in shapes]


def gradients(step: int) -> list[torch.Tensor]:
    torch.manual_seed(100 + step)
    return [torch.randn(64, 128).bfloat16(), torch.randn(5).bfloat16()]


def made(dtype: torch.dtype = torch.float32, **optim):
    params = parameters(dtype)
    return params, new_optimizer([(params[:1], LR), (params[1:], LR)], OptimConfig(**optim))


def move(params, optimizer, steps: range) -> None:
    for step in steps:
        set_rates(optimizer, 1 / (1 + step))
        optimizer.zero_grad()
        for parameter, gradient in zip(params, gradients(step), strict=True):
            parameter.grad = gradient.to(parameter)
        optimizer.step()


FORMS = {
    "full": (torch.float32, {}, 1e-4),
    "bfloat16": (torch.bfloat16, {"weights": "bfloat16"}, 0.02),
    "offloaded": (torch.float32, {"offload": "optimizer"}, 1e-4),
    "bfloat16, offloaded": (torch.bfloat16, {"offload": "optimizer"}, 0.008),
    "8bit": (torch.float32, {"moments": "8bit"}, 0.05),
}


@pytest.fixture(autouse=True)
def _no_compiler():
    """torchao compiles its step, which on a CPU takes longer than the step."""
    torch.compiler.set_stance("force_eager")
    yield
    torch.compiler.set_stance("default")


def form(name: str):
    dtype, optim, tolerance = FORMS[name]
    if name == "8bit":
        pytest.importorskip("torchao", reason="torchao is not installed (extra 8bit)")
    return dtype, optim, tolerance


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_adamw(name):
    """Against torch's own in float64; the bound is relative to the largest change."""
    dtype, optim, tolerance = form(name)
    exact = parameters(torch.float64)
    start = [p.detach().clone() for p in exact]
    theirs = torch.optim.AdamW(exact, lr=LR, weight_decay=0.1)
    for step in range(STEPS):
        theirs.param_groups[0]["lr"] = LR / (1 + step)
        for parameter, gradient in zip(exact, gradients(step), strict=True):
            parameter.grad = gradient.double()
        theirs.step()
    params, optimizer = made(dtype, **optim)
    move(params, optimizer, range(STEPS))
    for ours, other, before in zip(params, exact, start, strict=True):
        change = (ours.double() - other).abs().mean() / (other - before).abs().mean()
        scale = (other.abs().mean() / (other - before).abs().mean()) if "bf" in name else 1
        assert change < tolerance * scale


@pytest.mark.parametrize("name", FORMS)
def test_each_form_goes_on_bit_for_bit(name):
    dtype, optim, _ = form(name)
    params, optimizer = made(dtype, **optim)
    move(params, optimizer, range(3))
    state = optimizer_state(optimizer)
    kept = State(
        json.loads(json.dumps(state.values)),
        load(save({k: t.detach().contiguous() for k, t in state.tensors.items()})),
    )
    others, resumed = made(dtype, **optim)
    for other, parameter in zip(others, params, strict=True):
        other.data.copy_(parameter.data)
    load_optimizer(resumed, kept)
    move(params, optimizer, range(3, STEPS))
    move(others, resumed, range(3, STEPS))
    assert all(map(torch.equal, params, others))


def test_changes_below_half_a_step_are_not_lost():
    """A weight of 1 with a rate of 1e-4: to the nearest it would never move; the mean of many does
    by lr a step."""
    weights = torch.nn.Parameter(torch.ones(50_000, dtype=torch.bfloat16))
    optimizer = BFloat16AdamW([{"params": [weights]}], lr=1e-4, weight_decay=0.0)
    for _ in range(10):
        weights.grad = torch.ones_like(weights)
        optimizer.step()
    assert weights.double().mean().item() == pytest.approx(1 - 10 * 1e-4, abs=1e-4)
    assert optimizer.state[weights]["exp_avg_sq"].dtype == torch.bfloat16
    square = optimizer.state[weights]["exp_avg_sq"].double().mean().item()
    assert square == pytest.approx(1 - 0.999**10, rel=0.01)


def test_offloaded_weights_keep_what_bfloat16_cannot():
    params, optimizer = made(torch.bfloat16, offload="optimizer")
    move(params, optimizer, range(STEPS))
    for copy, master in zip(params, optimizer.masters, strict=True):
        assert master.dtype == torch.float32
        assert torch.equal(copy, master.bfloat16())
        assert not torch.equal(copy.float(), master)


def test_a_missing_library_is_one_line(monkeypatch):
    import importlib

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match=r"optim.moments 8bit: torchao is not .* pip install torch"):
        made(moments="8bit")


def test_8_bits_and_the_cpu_exclude_each_other():
    from rlvr_cli.config import resolve, set_layer

    with pytest.raises(UserError, match="take one of the two"):
        resolve(set_layer(["optim.moments=8bit", "optim.offload=all"]))
