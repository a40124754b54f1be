"""Objectives against numbers that can be checked by hand."""

import math
from dataclasses import replace

import pytest
import torch

from rlvr_cli.algorithm.kinds import Surrogate
from rlvr_cli.algorithm.objective import (
    SURROGATES,
    LossDenominators,
    LossInputs,
    cispo,
    clipped_surrogate,
    constant_length,
    dppo,
    dual_clip,
    explained_variance,
    geometric_mask,
    gmpo,
    importance_ratio,
    is_beyond,
    masked_weight,
    sapo,
    sequence_masked_weight,
    sequence_mean,
    sequence_ratio,
    sequence_sum,
    sequence_truncated_weight,
    token_mean,
    truncated_weight,
    value_loss,
    vespo,
)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


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
    assert is_beyond(ratios, tensor(advantage), 0.8, 1.2).item() == (gradient == 0)


def test_clip_higher_leaves_more_room_above():
    ratio, advantage = tensor(1.35), tensor(1.0)
    assert clipped_surrogate(ratio, advantage, 0.2, 0.28).item() == pytest.approx(1.28)
    assert clipped_surrogate(ratio, advantage, 0.2, 0.2).item() == pytest.approx(1.2)


def one_token(ratio: float, advantage: float) -> LossInputs:
    logprobs = tensor(math.log(ratio))[None].requires_grad_()
    zero = torch.zeros_like(logprobs)
    return LossInputs(
        logprobs=logprobs,
        entropy=zero,
        old_logprobs=zero,
        rollout_logprobs=zero,
        ref_logprobs=zero,
        advantages=zero + advantage,
        mask=zero + 1,
        is_right=zero,
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (2.0, -1.0, -2.0, -2.0),  # clipped surrogate alone: unbounded below
        (5.0, -1.0, -3.0, 0.0),  # not past 3 A
        (5.0, 1.0, 1.2, 0.0),
        (0.5, -1.0, -0.8, 0.0),
    ],
)
def test_the_dual_clip_bounds_what_a_bad_token_costs(ratio, advantage, value, gradient):
    inputs = one_token(ratio, advantage)
    surrogate, clipped = dual_clip(inputs, 0.2, 0.2, 3.0)
    surrogate.sum().backward()
    assert surrogate.item() == pytest.approx(value)
    assert inputs.logprobs.grad.item() == pytest.approx(gradient)
    assert clipped.item() == (gradient == 0)


@pytest.mark.parametrize(
    ("old", "new", "advantage", "gradient"),
    [
        (0.5, 0.75, 1.0, 0.0),  # likelier by 0.25
        (0.5, 0.69, 1.0, 1.38),
        (0.01, 0.1, 1.0, 10.0),  # ten times as likely, and free: it moved by 0.09
        (0.5, 0.25, -1.0, 0.0),
        (0.5, 0.75, -1.0, -1.5),
        (0.5, 0.25, 1.0, 0.5),
    ],
)
def test_dppo_bounds_probabilities_and_not_their_ratio(old, new, advantage, gradient):
    inputs = replace(one_token(new, advantage), old_logprobs=tensor(math.log(old))[None])
    surrogate, masked = dppo(inputs, 0.2, 0.2)
    surrogate.sum().backward()
    assert inputs.logprobs.grad.item() == pytest.approx(gradient)
    assert surrogate.item() == pytest.approx(gradient)
    assert masked.item() == (gradient == 0)


def test_cispo_clips_the_weight_and_keeps_the_gradient():
    inputs = one_token(7.0, 2.0)
    surrogate, clipped = cispo(inputs, 1.0, 4.0)
    surrogate.sum().backward()
    assert inputs.logprobs.grad.item() == pytest.approx(5.0 * 2.0)
    assert clipped.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "gradient"),
    [
        (1.0, 2.0, 4.0, 2.0),  # on the policy: r A's gradient, 4 sigmoid(0) A its value
        (2.0, 1.0, 4 / (1 + math.exp(-1)), 2 * 4 * math.e / (1 + math.e) ** 2),
        (1.0, -1.0, -2 / 1.05, -1.0),
        (
            3.0,
            -1.0,
            -4 / 1.05 / (1 + math.exp(-2.1)),
            -12 * math.exp(2.1) / (1 + math.exp(2.1)) ** 2,
        ),
    ],
)
def test_the_gate_of_sapo_closes_smoothly(ratio, advantage, value, gradient):
    inputs = one_token(ratio, advantage)
    surrogate, clipped = sapo(inputs, 1.0, 1.05)
    surrogate.sum().backward()
    assert surrogate.item() == pytest.approx(value)
    assert inputs.logprobs.grad.item() == pytest.approx(gradient)
    assert not clipped.any()


def response(ratios: list[float], advantage: float) -> LossInputs:
    """One response of these ratios, and a padding token that must not count."""
    logprobs = tensor(*map(math.log, ratios), 7.0)[None].requires_grad_()
    mask = tensor(*[1.0] * len(ratios), 0.0)[None]
    zero = torch.zeros_like(mask)
    return LossInputs(logprobs, zero, zero, zero, zero, mask * advantage, mask, zero)


@pytest.mark.parametrize(
    ("ratios", "advantage", "weight"),
    [
        ([1.0, 1.0], 2.0, 1.0),
        ([2.0, 3.0], 2.0, 36 * math.exp(-15)),  # W = 6: 6^2 exp(3 (1 - 6))
        ([0.5, 0.5], 2.0, math.exp(2.25) / 16),
        ([2.0, 3.0], -1.0, 216 * math.exp(-10)),  # 6^3 exp(2 (1 - 6))
        ([0.5, 0.5], -1.0, math.exp(1.5) / 64),
    ],
)
def test_vespo_weighs_a_response_by_the_product_of_its_ratios(ratios, advantage, weight):
    inputs = response(ratios, advantage)
    surrogate, clipped = vespo(inputs, 2.0, 3.0, 3.0, 2.0)
    surrogate.sum().backward()
    expected = [weight * advantage] * len(ratios)
    assert inputs.logprobs.grad.tolist()[0] == pytest.approx([*expected, 0.0])
    assert not clipped.any()


@pytest.mark.parametrize(
    ("ratios", "advantage", "mean", "gradients"),
    [
        ([1.1, 0.9], 2.0, (1.1 * 0.9) ** 0.5, [1, 1]),
        # A > 0: 2 is clipped to e^0.4 and has no gradient; 0.5 is kept
        ([2.0, 0.5], 1.0, (math.exp(0.4) * 0.5) ** 0.5, [0, 1]),
        ([2.0, 0.5], -1.0, (2 * math.exp(-0.4)) ** 0.5, [1, 0]),
    ],
)
def test_gmpo_is_the_geometric_mean_of_the_clipped_ratios(ratios, advantage, mean, gradients):
    inputs = response(ratios, advantage)
    surrogate, clipped = gmpo(inputs, 0.4, 0.4)
    assert surrogate[0, 0].item() == pytest.approx(mean * advantage)
    surrogate[0, 0].backward()
    expected = [gradient * mean * advantage / 2 for gradient in gradients]
    assert inputs.logprobs.grad.tolist()[0] == pytest.approx([*expected, 0.0])
    assert clipped.tolist()[0] == [*[gradient == 0 for gradient in gradients], False]


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_surrogate_has_no_gradient_at_all_where_the_advantages_are_0(name, zero):
    """Beside a response that has one, at ratios within and beyond every bound."""
    choice = Surrogate.registered[name]
    logprobs = -tensor(0.1, 1, 2, 9).expand(2, 4).clone()
    old_logprobs = -tensor(9, 2, 1, 0.1).expand(2, 4)
    ones = torch.ones_like(old_logprobs)
    inputs = LossInputs(
        logprobs=logprobs.requires_grad_(),
        entropy=ones,
        old_logprobs=old_logprobs,
        rollout_logprobs=old_logprobs,
        ref_logprobs=old_logprobs,
        advantages=torch.stack([zero * ones[0], ones[0]]),
        mask=ones,
        is_right=ones,
    )
    values, _ = SURROGATES[name](inputs, **choice(kind=name).fields)
    values.sum().backward()
    assert values[0].tolist() == logprobs.grad[0].tolist() == [0.0] * 4
    assert logprobs.grad[1].any()


def test_no_ratio_of_a_response_overflows():
    for ratios in ([1e30, 1e30], [1e-30, 1e-30]):
        for advantage in (1.0, -1.0):
            for surrogate in (
                vespo(response(ratios, advantage), 2.0, 3.0, 3.0, 2.0)[0],
                gmpo(response(ratios, advantage), 99.0, 99.0)[0],
            ):
                assert torch.isfinite(surrogate).all()


def test_the_sequence_ratio_is_the_geometric_mean_over_the_tokens():
    logprobs = torch.tensor([[math.log(2.0), math.log(8.0), 50.0]]).double()
    mask = torch.tensor([[1.0, 1.0, 0.0]]).double()
    ratio = sequence_ratio(logprobs, torch.zeros_like(logprobs), mask)
    assert ratio.tolist()[0] == pytest.approx([4.0] * 3)


def test_the_ratio_never_overflows():
    ratio = importance_ratio(tensor(0.0, -1000.0), tensor(-1000.0, 0.0))
    assert torch.isfinite(ratio).all()


def test_the_aggregations_differ_on_unequal_lengths():
    # Two responses of 1 and 3 tokens with token losses 4 and 1, 1, 1; at most 5 tokens allowed.
    mask = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    losses = torch.tensor([[4.0, 9.0, 9.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    totals = LossDenominators(tokens=4, responses=2, max_tokens=5)
    assert (token_mean(mask, totals) * losses).sum().item() == pytest.approx(7 / 4)
    assert (sequence_mean(mask, totals) * losses).sum().item() == pytest.approx((4 + 1) / 2)
    assert (sequence_sum(mask, totals) * losses).sum().item() == pytest.approx((4 + 3) / 2)
    assert (constant_length(mask, totals) * losses).sum().item() == pytest.approx(7 / (2 * 5))


def test_weights_for_a_sampler_that_differs():
    log_weight = tensor(math.log(3.0), math.log(1.5), math.log(0.4))
    mask = torch.ones(3)
    assert truncated_weight(log_weight, mask, 2.0).tolist() == pytest.approx([2.0, 1.5, 0.4])
    assert masked_weight(log_weight, mask, 0.5, 2.0).tolist() == pytest.approx([0.0, 1.5, 0.0])
    log_weight = tensor(*map(math.log, (0.49, 0.5, 0.51, 4.9, 5.1)))
    retained = masked_weight(log_weight, mask, 0.499, 5.0).tolist()
    assert retained == pytest.approx([0, 0.5, 0.51, 4.9, 0])
    assert masked_weight(tensor(0.0), mask, 1.0, 1.0).tolist() == [1.0]  # bounds count as inside


def test_weights_of_whole_responses():
    """Two tokens of weights 2 and 0.72: the product is 1.44, the geometric mean 1.2; the third is
    padding."""
    mask = tensor(1, 1, 0)[None]
    log_weight = tensor(math.log(2), math.log(0.72), 5.0)[None]
    for weight, expected in (
        (sequence_truncated_weight(log_weight, mask, 2.0), 1.44),
        (sequence_truncated_weight(log_weight, mask, 1.25), 1.25),
        (sequence_masked_weight(log_weight, mask, 0.5, 1.5), 1.44),
        (sequence_masked_weight(log_weight, mask, 0.5, 1.43), 0.0),
        (sequence_masked_weight(-log_weight, mask, 0.69, 1.5), 1 / 1.44),
        (sequence_masked_weight(-log_weight, mask, 0.7, 1.5), 0.0),
        (geometric_mask(log_weight, mask, 0.9, 1.21), 1.0),
        (geometric_mask(log_weight, mask, 0.9, 1.19), 0.0),
        (geometric_mask(-log_weight, mask, 0.83, 1.1), 1.0),
        (geometric_mask(-log_weight, mask, 0.84, 1.1), 0.0),
    ):
        assert weight[0, :2].tolist() == pytest.approx([expected, expected])


def test_the_value_loss_and_its_clip():
    values = tensor(1.0, 0.1)
    old = tensor(0.0, 0.0)
    returns = tensor(2.0, 2.0)
    assert value_loss(values, old, returns, None).tolist() == pytest.approx([1.0, 1.9**2])
    # clipped to 0.2 of the old value: (0.2 - 2)^2 is worse than (1 - 2)^2
    assert value_loss(values, old, returns, 0.2).tolist() == pytest.approx([1.8**2, 1.9**2])


def test_explained_variance():
    returns, mask = tensor(1, 2, 3, 99)[None], tensor(1, 1, 1, 0)[None]
    assert explained_variance(returns, returns, mask) == 1.0
    assert explained_variance(tensor(2, 2, 2, 0)[None], returns, mask) == pytest.approx(0.0)
    # errors 0, 0, 1: variance 2/9 against 2/3
    assert explained_variance(tensor(1, 2, 2, 0)[None], returns, mask) == pytest.approx(2 / 3)
    assert explained_variance(returns, torch.ones_like(returns), mask) == 0.0


@pytest.mark.parametrize(("T", "rejected"), [(4, 0.6892), (100, 0.0455)])
def test_a_bound_on_a_mean_knows_the_length_and_one_on_a_token_does_not(T, rejected):
    """Gaps of 0.05 nats: a mean of T is outside of 0.01 with the probability of a normal variable
    beyond 0.4 and 2, and the mean of exp(gap) is exp(0.05^2 / 2) at any length."""
    gaps = 0.05 * torch.randn(40_000, T, generator=torch.Generator().manual_seed(T))
    mask = torch.ones_like(gaps)
    retained = geometric_mask(gaps, mask, math.exp(-0.01), math.exp(0.01))[:, 0]
    assert 1 - retained.mean().item() == pytest.approx(rejected, abs=0.01)
    weights = truncated_weight(gaps, mask, 2.0)
    assert weights.mean(1).gt(0).all()
    assert weights.mean().item() == pytest.approx(math.exp(0.05**2 / 2), abs=1e-3)
