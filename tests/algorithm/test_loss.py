"""Every preset's loss in float64 against the papers' sums, by value and by gradient, and its
invariances."""

import dataclasses
import math
import random

import oracle
import pytest
import torch
from small_samples import Row, present, samples_of

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import (
    Critic,
    FixedReference,
    GeometricMask,
    IterativeReference,
    MaskedWeights,
    SequenceMask,
    TruncatedWeights,
)
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.loss import critic_loss, policy_loss, rejected
from rlvr_cli.algorithm.objective import (
    Cispo,
    Clip,
    Dppo,
    DualClip,
    LossDenominators,
    LossInputs,
    SequenceClip,
    Unclipped,
)
from rlvr_cli.algorithm.token_advantage import Gae

KL_COEF = 0.3
_OLD = FixedReference(kind="old")
VARIANTS = {
    "dual_clip": Algorithm(surrogate=DualClip(dual=1.5)),
    "penalty": Algorithm(
        advantage=Gae(),
        surrogate=Unclipped(kind="ratio"),
        kl=KL(kind="k3", coef=0.1, reference=_OLD),
        mini_batches=2,
    ),
    "k1_to_old": Algorithm(kl=KL(kind="k1", coef=0.1, reference=_OLD), epochs=2),
    "k2": Algorithm(kl=KL(kind="k2", coef=0.1)),
    "k3_k2": Algorithm(kl=KL(kind="k3_k2", coef=0.1, reference=IterativeReference())),
    "k2_in_reward": Algorithm(kl=KL(kind="k2", coef=0.1, place="reward")),
    "truncate": Algorithm(importance_correction=TruncatedWeights(cap=1.2)),
    "mask": Algorithm(importance_correction=MaskedWeights(low=0.9, high=1.2)),
    "sequence_truncate": Algorithm(
        importance_correction=TruncatedWeights(kind="sequence_truncate", cap=1.2)
    ),
    "sequence_mask": Algorithm(importance_correction=SequenceMask(low=0.3, high=2.5)),
    "geometric_mask": Algorithm(importance_correction=GeometricMask(low=0.9, high=1.3)),
    "geometric_mask and weights": Algorithm(
        importance_correction=GeometricMask(low=0.7, high=1.3, weight=TruncatedWeights(cap=1.2))
    ),
    "geometric_mask and mask": Algorithm(
        importance_correction=GeometricMask(
            low=0.7, high=1.3, weight=MaskedWeights(low=0.7, high=1.4)
        )
    ),
    "positive_nll": Algorithm(positive_nll=0.1),
    "entropy": Algorithm(entropy_coef=0.05, aggregation="sequence_mean"),
    "shared": Algorithm(advantage=Gae(critic=Critic(kind="shared", clip=0.3))),
}
ROWS = ALGORITHMS | VARIANTS
LENGTHS = [3, 7, 1, 5, 2, 6, 4]


def make_tokens(seed: int = 0) -> LossInputs:
    """Seven responses whose ratios lie on both sides of all bounds."""
    rng = random.Random(seed)
    B = len(LENGTHS)
    T = max(LENGTHS)
    columns = {}
    for field in dataclasses.fields(LossInputs):
        column = torch.zeros(B, T, dtype=torch.float64)
        for row, length in enumerate(LENGTHS):
            for t in range(length):
                column[row, t] = rng.gauss(-1.5, 0.6)
        columns[field.name] = column
    columns["mask"] = (torch.arange(T) < torch.tensor(LENGTHS)[:, None]).double()
    columns["is_right"] = (columns["is_right"][:, :1] > -1.5) * columns["mask"]
    columns["entropy"] = columns["entropy"].abs()
    columns["advantages"] = (columns["advantages"] + 1.5) * columns["mask"]
    return LossInputs(**columns)


def denominators(tokens: LossInputs) -> LossDenominators:
    right_tokens = int((tokens.is_right * tokens.mask).sum())
    return LossDenominators(
        tokens=int(tokens.mask.sum()),
        responses=int(tokens.mask.any(1).sum()),
        max_tokens=9,
        right_tokens=right_tokens,
    )


def responses(tokens: LossInputs) -> list[oracle.Response]:
    """The responses as the oracle reads them; the gradient flows through `logprobs` alone."""
    rows = []
    for i, length in enumerate(LENGTHS):
        rows.append(
            oracle.Response(
                logprobs=list(tokens.logprobs[i, :length]),
                frozen_logprobs=tokens.logprobs[i, :length].tolist(),
                old_logprobs=tokens.old_logprobs[i, :length].tolist(),
                rollout_logprobs=tokens.rollout_logprobs[i, :length].tolist(),
                ref_logprobs=tokens.ref_logprobs[i, :length].tolist(),
                advantages=tokens.advantages[i, :length].tolist(),
                entropy=tokens.entropy[i, :length].tolist(),
                is_right=bool(tokens.is_right[i, 0]),
            )
        )
    return rows


def with_gradient(algo: Algorithm, tokens: LossInputs, n: LossDenominators):
    """(loss, d loss / d logprobs, per-token metrics)."""
    leaf = tokens.logprobs.clone().requires_grad_()
    loss, per_token = policy_loss(algo, dataclasses.replace(tokens, logprobs=leaf), n, KL_COEF)
    loss.backward()
    return loss.detach(), leaf.grad, present(per_token)


@pytest.mark.parametrize("name", ROWS)
def test_the_loss_and_its_gradient_equal_the_papers_sums(name):
    algo = ROWS[name]
    tokens = make_tokens()
    n = denominators(tokens)
    loss, gradient, _ = with_gradient(algo, tokens, n)
    leaf = tokens.logprobs.clone().requires_grad_()
    expected = oracle.policy_loss(
        algo, responses(dataclasses.replace(tokens, logprobs=leaf)), n, KL_COEF
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    torch.testing.assert_close(gradient, leaf.grad, atol=1e-12, rtol=0)
    assert gradient.any()
    assert not gradient[tokens.mask == 0].any()


@pytest.mark.parametrize(
    ("name", "from_column", "to_column"),
    [
        ("k2", "logprobs", "ref_logprobs"),
        ("k2_in_reward", "old_logprobs", "ref_logprobs"),
        ("k1_to_old", "old_logprobs", "logprobs"),
    ],
)
def test_the_divergence_of_a_step_is_that_of_the_policy_that_it_is_taken_from(
    name, from_column, to_column
):
    tokens = make_tokens()
    _, _, per_token = with_gradient(ROWS[name], tokens, denominators(tokens))
    d = getattr(tokens, from_column) - getattr(tokens, to_column)
    expected = d if ROWS[name].kl.kind == "k1" else d.square() / 2
    torch.testing.assert_close(per_token["ref_kl"], expected, rtol=1e-12, atol=0)


CORRECTIONS = {
    name: algo.importance_correction
    for name, algo in VARIANTS.items()
    if algo.importance_correction.kind != "auto"
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_some_tokens_lie_beyond_the_bound_of_a_correction_and_some_within(name):
    correction = CORRECTIONS[name]
    weights = [
        oracle.correction_weight(correction, response, t)
        for response in responses(make_tokens())
        for t in range(len(response))
    ]
    bound = getattr(correction, "cap", 0.0)
    assert 0 < weights.count(bound) < len(weights)


@pytest.mark.parametrize(
    "name", [name for name, correction in CORRECTIONS.items() if correction.rejects]
)
def test_a_rejected_response_has_no_weight_and_the_others_have_one(name):
    tokens = make_tokens()
    correction = CORRECTIONS[name]
    rows = responses(tokens)
    samples = samples_of(
        [
            Row(
                prompt_ids=[0],
                response_ids=[0] * len(row),
                old_logprobs=torch.tensor(row.old_logprobs, dtype=torch.float64),
                rollout_logprobs=torch.tensor(row.rollout_logprobs, dtype=torch.float64),
            )
            for row in rows
        ]
    )
    expected = []
    for row in rows:
        pairs = zip(row.old_logprobs, row.rollout_logprobs, strict=True)
        log_product = sum(old - rollout for old, rollout in pairs)
        exponent = log_product if correction.kind == "sequence_mask" else log_product / len(row)
        expected.append(not correction.low <= math.exp(exponent) <= correction.high)
    actual = rejected(samples, Algorithm(importance_correction=correction))
    assert actual.tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_a_truncation_rejects_nothing():
    algo = Algorithm(importance_correction=TruncatedWeights(cap=1.2))
    assert rejected(samples_of([]), algo) is None


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_micro_batches_in_any_order_add_up_to_the_whole(name, count):
    algo = ROWS[name]
    tokens = make_tokens()
    n = denominators(tokens)
    loss, gradient, per_token = with_gradient(algo, tokens, n)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    parts = [torch.arange(len(LENGTHS))[order][i::count] for i in range(count)]
    total = 0.0
    joined = torch.zeros_like(gradient)
    sums = dict.fromkeys(per_token, 0.0)
    for part in parts:
        piece = LossInputs(**{k: v[part] for k, v in vars(tokens).items()})
        share, share_gradient, share_metrics = with_gradient(algo, piece, n)
        total += share.item()
        joined[part] = share_gradient
        for key, values in share_metrics.items():
            sums[key] += (values * piece.mask).sum().item()
    assert total == pytest.approx(loss.item(), abs=1e-12)
    torch.testing.assert_close(joined, gradient, atol=1e-13, rtol=0)
    for key, values in per_token.items():
        assert sums[key] == pytest.approx((values * tokens.mask).sum().item(), abs=1e-11)


@pytest.mark.parametrize("name", ROWS)
def test_padding_and_masked_rows_change_nothing(name):
    algo = ROWS[name]
    tokens = make_tokens()
    n = denominators(tokens)
    loss, gradient, per_token = with_gradient(algo, tokens, n)
    # Two more rows and three more columns of arbitrary numbers, all outside the mask.
    B, T = tokens.mask.shape
    wide = {}
    for key, value in vars(tokens).items():
        filler = 0.0 if key == "mask" else -0.8
        wide[key] = torch.full((B + 2, T + 3), filler, dtype=torch.float64)
        wide[key][:B, :T] = value
    actual, wide_gradient, wide_metrics = with_gradient(algo, LossInputs(**wide), n)
    assert actual.item() == pytest.approx(loss.item(), abs=1e-12)
    torch.testing.assert_close(wide_gradient[:B, :T], gradient, atol=1e-13, rtol=0)
    assert wide_gradient.abs().sum().item() == pytest.approx(gradient.abs().sum().item())
    for key, values in wide_metrics.items():
        inside = (values * wide["mask"]).sum().item()
        assert inside == pytest.approx((per_token[key] * tokens.mask).sum().item(), abs=1e-12)


@pytest.mark.parametrize("name", ["ppo", "shared"])
def test_the_critics_loss_and_gradient_equal_the_sum(name):
    critic = ROWS[name].critic
    tokens = make_tokens()
    values, old, returns = (make_tokens(seed).logprobs for seed in (1, 2, 3))
    n = denominators(tokens)

    leaf = values.clone().requires_grad_()
    loss, _ = critic_loss(critic, leaf, old, returns, tokens.mask, n)
    loss.backward()
    oracle_leaf = values.clone().requires_grad_()
    expected = sum(
        oracle.critic_loss(
            critic=critic,
            values=list(oracle_leaf[i, :length]),
            old_values=old[i, :length].tolist(),
            returns=returns[i, :length].tolist(),
            tokens=n.tokens,
        )
        for i, length in enumerate(LENGTHS)
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    torch.testing.assert_close(leaf.grad, oracle_leaf.grad, atol=1e-12, rtol=0)


def test_grpo_is_dapo_with_other_choices():
    dapo_as_grpo = ALGORITHMS["dapo"].model_copy(
        update={
            "surrogate": Clip(high=0.2),
            "aggregation": "sequence_mean",
            "overlong": None,
            "kl": KL(kind="k3", coef=0.04),
            "filter": None,
            "mini_batches": 1,
        }
    )
    assert dapo_as_grpo == ALGORITHMS["grpo"]
    tokens = make_tokens()
    n = denominators(tokens)
    ours, other = (with_gradient(c, tokens, n) for c in (ALGORITHMS["grpo"], dapo_as_grpo))
    assert ours[0] == other[0]
    assert torch.equal(ours[1], other[1])


def test_the_clip_of_ppo_is_that_of_grpo_with_other_advantages():
    tokens = make_tokens()
    ppo = ALGORITHMS["ppo"].model_copy(update={"kl": None})
    grpo = ALGORITHMS["grpo"].model_copy(update={"kl": None, "aggregation": "token_mean"})
    n = denominators(tokens)
    for ours, other in zip(
        with_gradient(ppo, tokens, n)[:2], with_gradient(grpo, tokens, n)[:2], strict=True
    ):
        assert torch.equal(ours, other)


@pytest.mark.parametrize(
    ("surrogate", "low", "high"),
    [
        (Clip(low=0.2, high=0.3), [0, 0, 1, 0], [1, 0, 0, 0]),
        (DualClip(low=0.2, high=0.3, dual=1.5), [0, 0, 1, 0], [1, 1, 0, 0]),
        (Cispo(low=0.2, high=0.3), [0, 0, 1, 1], [1, 1, 0, 0]),
        (SequenceClip(low=0.2, high=0.3), [0, 0, 1, 0], [1, 0, 0, 0]),
        (Dppo(low=0.2, high=0.3), [0, 0, 1, 0], [1, 0, 0, 0]),  # by probabilities
        (Unclipped(kind="ratio"), [0] * 4, [0] * 4),
    ],
)
def test_the_clipped_share_is_told_by_its_bounds(surrogate, low, high):
    """Four responses of a token, whose ratios are 2, 2, 0.5 and 0.5, with A = 1, -1, -1 and 1."""
    logprobs = torch.tensor([[2.0], [2.0], [0.5], [0.5]], dtype=torch.float64).log()
    advantages = torch.tensor([[1.0], [-1.0], [-1.0], [1.0]], dtype=torch.float64)
    zeros, ones = torch.zeros_like(logprobs), torch.ones_like(logprobs)
    inputs = LossInputs(logprobs, zeros, zeros, zeros, zeros, advantages, ones, zeros)
    algo = Algorithm(surrogate=surrogate)
    _, per_token = policy_loss(algo, inputs, LossDenominators(4, 4, 1), 0.0)
    for name, expected in (("low", low), ("high", high)):
        assert present(per_token)[f"clip_fraction_{name}"].flatten().tolist() == expected
    both = per_token.clip_fraction_low + per_token.clip_fraction_high
    assert torch.equal(both, per_token.clip_fraction)
