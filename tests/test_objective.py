"""Objectives and advantages against numbers that can be checked by hand."""

import math

import pytest
import torch

from rlvr_cli.advantage import group_normalised
from rlvr_cli.objective import (
    clipped_surrogate,
    importance_ratio,
    is_clipped,
    kl_k3,
    sequence_mean,
    token_mean,
)
from rlvr_cli.reward import overlong_penalty


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("rewards", "advantages"),
    [
        ((3.8, 5.2, 6.1), (-1.06, 0.14, 0.92)),
        ((2.0, 10.0, 3.0), (-0.69, 1.15, -0.46)),
        ((1.0, -1.0), (1 / math.sqrt(2), -1 / math.sqrt(2))),
        ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
    ],
)
def test_group_normalised_uses_the_sample_deviation(rewards, advantages):
    assert group_normalised(tensor(*rewards)).tolist() == pytest.approx(advantages, abs=5e-3)


def test_a_group_of_one_is_an_error():
    with pytest.raises(ValueError, match="group of one"):
        group_normalised(tensor(1.0))


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (1.1, 2.0, 2.2, 2.0),
        (0.7, 2.0, 1.4, 2.0),
        (1.4, 2.0, 2.4, 0.0),
        (1.1, -2.0, -2.2, -2.0),
        (0.7, -2.0, -1.6, 0.0),
        (1.4, -2.0, -2.8, -2.0),
    ],
)
def test_the_clip_table_value_and_gradient(ratio, advantage, value, gradient):
    ratios = tensor(ratio).requires_grad_()
    surrogate = clipped_surrogate(ratios, tensor(advantage), 0.2, 0.2)
    surrogate.sum().backward()
    assert surrogate.item() == pytest.approx(value)
    assert ratios.grad.item() == pytest.approx(gradient)
    assert is_clipped(ratios, tensor(advantage), 0.2, 0.2).item() == (gradient == 0)


def test_clip_higher_leaves_more_room_above():
    ratio, advantage = tensor(1.35), tensor(1.0)
    assert clipped_surrogate(ratio, advantage, 0.2, 0.28).item() == pytest.approx(1.28)
    assert clipped_surrogate(ratio, advantage, 0.2, 0.2).item() == pytest.approx(1.2)


def test_the_ratio_never_overflows():
    ratio = importance_ratio(tensor(0.0, -1000.0), tensor(-1000.0, 0.0))
    assert torch.isfinite(ratio).all()


def test_k3_is_zero_at_equality_and_positive_elsewhere():
    logprobs, ref_logprobs = tensor(-1.0, -1.0, -2.0), tensor(-1.0, -2.0, -1.0)
    expected = [0.0, math.exp(-1) + 1 - 1, math.e - 1 - 1]
    assert kl_k3(logprobs, ref_logprobs).tolist() == pytest.approx(expected)


def test_token_mean_and_sequence_mean_differ_on_unequal_lengths():
    # Two responses of 1 and 3 tokens with token losses 4 and 1, 1, 1.
    mask = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    losses = torch.tensor([[4.0, 9.0, 9.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    assert (token_mean(mask, 4, 2) * losses).sum().item() == pytest.approx(7 / 4)
    assert (sequence_mean(mask, 4, 2) * losses).sum().item() == pytest.approx((4 + 1) / 2)


@pytest.mark.parametrize(
    ("n_tokens", "penalty"), [(1, 0), (80, 0), (85, -0.25), (90, -0.5), (100, -1)]
)
def test_the_overlong_penalty_falls_over_the_cache(n_tokens, penalty):
    assert overlong_penalty(n_tokens, max_tokens=100, cache=0.2) == pytest.approx(penalty)
