"""AdamW in its forms: each equals float32's to what its arithmetic allows, and goes on exactly."""

import json

import pytest
import torch
from conftest import quantizes
from safetensors.torch import load, save

from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.training.optimizer import (
    BFloat16AdamW,
    EightBitAdamW,
    new_optimizer,
    round_at_random,
    set_rates,
)
from rlvr_cli.training.state import State, load_optimizer, optimizer_state

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
    "offloaded": (torch.float32, {"offload": "all"}, 1e-4),
    "8 bits": (torch.float32, {"moments": "8bit"}, 0.1),
    "8 bits, rounded": (torch.bfloat16, {"moments": "8bit"}, 0.02),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=quantizes if "8" in name else ()) for name in FORMS]
)
def test_each_form_is_adamw(name):
    """Against torch's own in float64; the bound is relative to the largest change."""
    dtype, optim, tolerance = FORMS[name]
    exact = parameters(torch.float64)
    start = [p.detach().clone() for p in exact]
    reference = torch.optim.AdamW(exact, lr=LR, weight_decay=0.1)
    for step in range(STEPS):
        reference.param_groups[0]["lr"] = LR / (1 + step)
        for parameter, gradient in zip(exact, gradients(step), strict=True):
            parameter.grad = gradient.double()
        reference.step()
    params, optimizer = made(dtype, **optim)
    move(params, optimizer, range(STEPS))
    for ours, other, before in zip(params, exact, start, strict=True):
        change = (ours.double() - other).abs().mean() / (other - before).abs().mean()
        is_rounded = dtype == torch.bfloat16
        scale = (other.abs().mean() / (other - before).abs().mean()) if is_rounded else 1
        assert change < tolerance * scale


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=quantizes if "8" in name else ()) for name in FORMS]
)
def test_each_form_goes_on_bit_for_bit(name):
    dtype, optim, _ = FORMS[name]
    params, optimizer = made(dtype, **optim)
    move(params, optimizer, range(3))
    state = optimizer_state(optimizer)
    retained = State(
        json.loads(json.dumps(state.values)),
        load(save({k: t.detach().contiguous() for k, t in state.tensors.items()})),
    )
    others, resumed = made(dtype, **optim)
    for other, parameter in zip(others, params, strict=True):
        other.data.copy_(parameter.data)
    load_optimizer(resumed, retained)
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


def test_weights_of_another_type_than_bfloat16_move_as_torchs_own():
    ours, reference = parameters(), parameters()
    numbers = {"lr": 0.05, "betas": (0.8, 0.9), "eps": 0.01, "weight_decay": 0.5}
    pair = BFloat16AdamW(ours, **numbers), torch.optim.AdamW(reference, **numbers)
    unused = torch.nn.Parameter(torch.ones(2))
    pair[0].add_param_group({"params": [unused]})
    for params, optimizer in zip((ours, reference), pair, strict=True):
        for step in range(3):
            for parameter, gradient in zip(params, gradients(step), strict=True):
                parameter.grad = gradient.float()
            optimizer.step()
    for first, other in zip(ours, reference, strict=True):
        torch.testing.assert_close(first, other)
    assert torch.equal(unused, torch.ones(2))
    assert pair[0].state[ours[0]]["step"] == 3


@quantizes
def test_moments_of_8_bits_by_hand():
    """Rows of 300 numbers are blocks of 256 and 44, each with the size of its largest number."""
    weights = torch.nn.Parameter(torch.zeros(2, 300))
    optimizer = EightBitAdamW([{"params": [weights]}], lr=0.5, weight_decay=0.0)
    weights.grad = torch.full((2, 300), 1.0)
    weights.grad[1, 256:] = -8.0
    weights.grad[1, 0] = 0.0
    optimizer.step()
    state = optimizer.state[weights]
    torch.testing.assert_close(state["mean_scales"], torch.tensor([[0.1, 0.1], [0.1, 0.8]]))
    roots = torch.tensor([[1.0, 1.0], [1.0, 8.0]]) * 0.001**0.5
    torch.testing.assert_close(state["root_scales"], roots)
    assert state["mean_codes"].dtype == torch.uint8


@quantizes
def test_the_blocks_of_a_shard_are_those_of_the_whole():
    """So that a run of several processes, which share the rows, computes what one does."""
    (whole, _), optimizer = made(moments="8bit")
    upper, lower = (torch.nn.Parameter(part.clone()) for part in whole.detach().split(32))
    parts = new_optimizer([([upper, lower], LR)], OptimConfig(moments="8bit"))
    for step in range(STEPS):
        gradient = gradients(step)[0].float()
        whole.grad = gradient
        upper.grad, lower.grad = gradient.split(32)
        optimizer.step()
        parts.step()
    assert torch.equal(whole, torch.cat([upper, lower]))


@quantizes
def test_small_second_moments_do_not_become_0():
    """A gradient of 1e-4 beside one of 1: of their squares, 1e-8 apart, 8 bits hold 3e-7.
    Then a step without a gradient divides by the root of the second moment alone."""
    weights = torch.nn.Parameter(torch.zeros(1, 64))
    optimizer = EightBitAdamW([{"params": [weights]}], lr=1.0, weight_decay=0.0)
    for gradient in (1e-4, 0.0):
        weights.grad = torch.full((1, 64), gradient)
        weights.grad[0, 0] = 1.0
        optimizer.step()
    # 1 in the first step, and in the second 0.09 / 0.19 / (1e-4 * 0.707) * 1e-4 = 0.67
    assert weights[0, 1].item() == pytest.approx(-1.67, abs=0.3)


@quantizes
def test_moments_of_another_form_are_refused():
    params, optimizer = made()
    move(params, optimizer, range(1))
    other_params, other = made(moments="8bit")
    with pytest.raises(ValueError, match=r"optimizer\.0: moments of another shape"):
        load_optimizer(other, optimizer_state(optimizer))
    move(other_params, other, range(1))
    with pytest.raises(ValueError, match=r"optimizer\.0: moments of another shape"):
        load_optimizer(optimizer, optimizer_state(other))


def test_a_state_of_other_weights_is_refused():
    params, optimizer = made()
    move(params, optimizer, range(1))
    state = optimizer_state(optimizer)
    _, other = made()
    other.param_groups[0]["more"] = 1
    with pytest.raises(ValueError, match="settings are not those of this run"):
        load_optimizer(other, state)
    tensors = {**state.tensors, "optimizer.1.exp_avg": torch.zeros(4)}
    with pytest.raises(ValueError, match=r"optimizer\.1: moments of another shape"):
        load_optimizer(made()[1], State(state.values, tensors))


def test_the_form_follows_from_weights_and_settings():
    kinds = [
        type(made(dtype, **optim)[1])
        for dtype, optim in (
            (torch.float32, {}),
            (torch.bfloat16, {}),
            (torch.bfloat16, {"offload": "all"}),
            (torch.float32, {"offload": "all"}),
        )
    ]
    assert kinds == [torch.optim.AdamW, BFloat16AdamW, BFloat16AdamW, torch.optim.AdamW]
    assert made()[1].defaults["fused"] is None
    assert made(offload="all")[1].defaults["fused"]
    settings = {"lr": 0.5, "betas": (0.1, 0.2), "eps": 0.3, "weight_decay": 0.4}
    for optim in ({}, {"offload": "all"}):
        _, optimizer = made(**settings, **optim)
        for group in optimizer.param_groups:
            assert {key: group[key] for key in settings} == settings
            assert group["peak"] == LR


def test_rounding_at_random_has_no_bias():
    """1 + 1/512 lies a quarter of the way from 1 to 1 + 1/128; likewise below 0."""
    for sign in (1, -1):
        exact = torch.full((40_000,), sign * (1 + 1 / 512))
        actual = round_at_random(exact, torch.Generator().manual_seed(0))
        assert set(actual.tolist()) == {sign * 1.0, sign * (1 + 1 / 128)}
        share = (actual.abs() > 1).double().mean().item()
        assert abs(share - 0.25) < 0.02


def test_what_bfloat16_holds_stays():
    exact = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-38, 3e38]).bfloat16().float()
    assert torch.equal(round_at_random(exact, torch.Generator()).float(), exact)
