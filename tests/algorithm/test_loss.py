"""Every preset's loss in float64 against a loop over tokens, by value and by finite differences,
and its invariances."""

import dataclasses
import math
import random

import pytest
import torch

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import (
    KL,
    Cispo,
    Clip,
    Critic,
    DualClip,
    FixedReference,
    Gae,
    GeometricMask,
    IterativeReference,
    MaskedWeights,
    SequenceClip,
    SequenceMask,
    TruncatedWeights,
    Unclipped,
)
from rlvr_cli.algorithm.loss import critic_loss, policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs

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
    "positive_nll": Algorithm(positive_nll=0.1),
    "entropy": Algorithm(entropy_coef=0.05, aggregation="sequence_mean"),
    "shared": Algorithm(advantage=Gae(critic=Critic(kind="shared", clip=0.3))),
}
ROWS = ALGORITHMS | VARIANTS
LENGTHS = [3, 7, 1, 5, 2, 6, 4]


def make_tokens(seed: int = 0) -> LossInputs:
    """Seven responses whose ratios lie on both sides of all bounds."""
    rng = random.Random(seed)
    B, T = len(LENGTHS), max(LENGTHS)
    columns = {}
    for field in dataclasses.fields(LossInputs):
        column = torch.zeros(B, T, dtype=torch.float64)
        for row, length in enumerate(LENGTHS):
            for t in range(length):
                column[row, t] = rng.gauss(-1.5, 0.6)
        columns[field.name] = column
    columns["mask"] = (torch.arange(T) < torch.tensor(LENGTHS)[:, None]).double()
    columns["is_right"] = (columns["is_right"] > -1.5) * columns["mask"]
    columns["entropy"] = columns["entropy"].abs()
    columns["advantages"] = (columns["advantages"] + 1.5) * columns["mask"]
    return LossInputs(**columns)


def totals(tokens: LossInputs) -> LossDenominators:
    rights = int((tokens.is_right * tokens.mask).sum())
    return LossDenominators(int(tokens.mask.sum()), int(tokens.mask.any(1).sum()), 9, rights)


def slow_loss(algo: Algorithm, tokens: LossInputs, frozen: torch.Tensor, estimator: str) -> float:
    """The papers' sums, one token at a time; `frozen` holds what a stop-gradient would."""
    n = totals(tokens)
    kind, correction, kl = algo.surrogate.kind, algo.correction, algo.kl
    bounds = algo.surrogate.fields
    low, high = 1 - bounds.get("low", 0), 1 + bounds.get("high", 0)
    loss = 0.0
    for i, length in enumerate(LENGTHS):
        weight_of_response, geometric = 1.0, 1.0
        for t in range(length):
            weight_of_response *= math.exp(frozen[i, t].item() - tokens.old_logprobs[i, t].item())
            item = math.exp(tokens.logprobs[i, t].item() - tokens.old_logprobs[i, t].item())
            if tokens.advantages[i, t] > 0:
                item = min(item, math.exp(bounds.get("high", 0)))
            else:
                item = max(item, math.exp(-bounds.get("low", 0)))
            geometric *= item ** (1 / length)
        logp, old, roll, ref, adv, ent, still = (
            column[i, :length].tolist()
            for column in (
                *(tokens.logprobs, tokens.old_logprobs, tokens.rollout_logprobs),
                *(tokens.ref_logprobs, tokens.advantages, tokens.entropy, frozen),
            )
        )
        product = math.exp(sum(a - b for a, b in zip(old, roll, strict=True)))
        mean_log_ratio = sum(a - b for a, b in zip(logp, old, strict=True)) / length
        for t in range(length):
            ratio = math.exp(logp[t] - old[t])
            if kind == "sequence_clip":
                ratio = math.exp(mean_log_ratio)
            near = min(max(ratio, low), high)
            if kind == "policy_gradient":
                surrogate = adv[t] * logp[t]
            elif kind == "ratio":
                surrogate = ratio * adv[t]
            elif kind == "cispo":
                weight = math.exp(still[t] - old[t])
                weight = min(max(weight, low), high)
                surrogate = weight * adv[t] * logp[t]
            elif kind == "sapo":
                tau = bounds["tau_pos"] if adv[t] > 0 else bounds["tau_neg"]
                surrogate = 4 / tau / (1 + math.exp(-tau * (ratio - 1))) * adv[t]
            elif kind == "vespo":
                k, lam = (bounds[f"{x}_{'pos' if adv[t] >= 0 else 'neg'}"] for x in ("k", "lam"))
                weight = weight_of_response**k * math.exp(lam * (1 - weight_of_response))
                surrogate = weight * adv[t] * logp[t]
            elif kind == "gmpo":
                surrogate = geometric * adv[t]
            elif kind == "dppo":
                rise = math.exp(still[t]) - math.exp(old[t])
                masked = rise > bounds["high"] if adv[t] > 0 else -rise > bounds["low"]
                surrogate = 0.0 if masked else ratio * adv[t]
            else:
                surrogate = min(ratio * adv[t], near * adv[t])
                if kind == "dual_clip" and adv[t] < 0:
                    surrogate = max(surrogate, bounds["dual"] * adv[t])
            weight = math.exp(old[t] - roll[t])
            token_correction = correction
            if correction and correction.kind == "geometric_mask":
                inside = correction.low <= product ** (1 / length) <= correction.high
                surrogate *= 1.0 if inside else 0.0
                token_correction = correction.weight
            if token_correction and token_correction.kind.startswith("sequence"):
                weight = product
            if token_correction and "truncate" in token_correction.kind:
                surrogate *= min(weight, token_correction.cap)
            elif token_correction:
                inside = token_correction.low <= weight <= token_correction.high
                surrogate *= weight if inside else 0.0
            term = -surrogate - algo.entropy_coef * ent[t]
            if kl and kl.place == "loss":
                d = old[t] - logp[t] if kl.reference.kind == "old" else logp[t] - ref[t]
                term += KL_COEF * {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) + d - 1}[estimator]
            loss -= algo.positive_nll * logp[t] * tokens.is_right[i, t].item() / n.right_tokens
            loss += (
                term
                / {
                    "token_mean": n.tokens,
                    "sequence_mean": n.responses * length,
                    "sequence_sum": n.responses,
                    "constant_length": n.responses * n.max_tokens,
                }[algo.aggregation]
            )
    return loss


def estimator(algo: Algorithm) -> str:
    return algo.kl.kind if algo.kl else ""


def with_gradient(algo: Algorithm, tokens: LossInputs, n: LossDenominators):
    """(loss, d loss / d logprobs, per-token metrics)."""
    leaf = tokens.logprobs.clone().requires_grad_()
    loss, per_token = policy_loss(algo, dataclasses.replace(tokens, logprobs=leaf), n, KL_COEF)
    loss.backward()
    return loss.detach(), leaf.grad, per_token


@pytest.mark.parametrize("name", ROWS)
def test_the_loss_equals_the_loop_over_tokens(name):
    algo, tokens = ROWS[name], make_tokens()
    loss, _, _ = with_gradient(algo, tokens, totals(tokens))
    expected = slow_loss(algo, tokens, tokens.logprobs, estimator(algo).removesuffix("_k2"))
    assert loss.item() == pytest.approx(expected, abs=1e-10)


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
    _, _, per_token = with_gradient(ROWS[name], tokens, totals(tokens))
    d = getattr(tokens, from_column) - getattr(tokens, to_column)
    expected = d if ROWS[name].kl.kind == "k1" else d.square() / 2
    torch.testing.assert_close(per_token["ref_kl"], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ROWS)
def test_the_gradient_equals_finite_differences(name):
    algo, tokens = ROWS[name], make_tokens()
    _, gradient, _ = with_gradient(algo, tokens, totals(tokens))
    of_gradient = estimator(algo).removeprefix("k3_")
    step = 1e-6
    for i, length in enumerate(LENGTHS):
        for t in range(length):
            ends = []
            for sign in (1, -1):
                moved = tokens.logprobs.clone()
                moved[i, t] += sign * step
                at = dataclasses.replace(tokens, logprobs=moved)
                ends.append(slow_loss(algo, at, tokens.logprobs, of_gradient))
            expected = (ends[0] - ends[1]) / (2 * step)
            assert gradient[i, t].item() == pytest.approx(expected, abs=1e-6)
    assert bool((gradient[tokens.mask == 0] == 0).all())


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_micro_batches_in_any_order_add_up_to_the_whole(name, count):
    algo, tokens = ROWS[name], make_tokens()
    n = totals(tokens)
    loss, gradient, per_token = with_gradient(algo, tokens, n)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    parts = [torch.arange(len(LENGTHS))[order][i::count] for i in range(count)]
    total, joined, sums = 0.0, torch.zeros_like(gradient), dict.fromkeys(per_token, 0.0)
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
    algo, tokens = ROWS[name], make_tokens()
    n = totals(tokens)
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
def test_the_critics_loss_and_gradient_equal_the_loop(name):
    critic, tokens = ROWS[name].critic, make_tokens()
    values, old, returns = (make_tokens(seed).logprobs for seed in (1, 2, 3))
    n = totals(tokens)

    def slow(values: torch.Tensor) -> float:
        total = 0.0
        for i, length in enumerate(LENGTHS):
            for t in range(length):
                v, before, target = values[i, t].item(), old[i, t].item(), returns[i, t].item()
                near = before + min(max(v - before, -critic.clip), critic.clip)
                total += max((v - target) ** 2, (near - target) ** 2)
        return critic.coef * total / n.tokens

    leaf = values.clone().requires_grad_()
    loss, _ = critic_loss(critic, leaf, old, returns, tokens.mask, n)
    loss.backward()
    assert loss.item() == pytest.approx(slow(values), abs=1e-10)
    for i, length in enumerate(LENGTHS):
        for t in range(length):
            ends = []
            for sign in (1, -1):
                moved = values.clone()
                moved[i, t] += sign * 1e-6
                ends.append(slow(moved))
            assert leaf.grad[i, t].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_grpo_is_dapo_with_cells_changed():
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
    n = totals(tokens)
    ours, other = (with_gradient(c, tokens, n) for c in (ALGORITHMS["grpo"], dapo_as_grpo))
    assert ours[0] == other[0]
    assert torch.equal(ours[1], other[1])


def test_the_clip_of_ppo_is_that_of_grpo_with_other_advantages():
    tokens = make_tokens()
    ppo = ALGORITHMS["ppo"].model_copy(update={"kl": None})
    grpo = ALGORITHMS["grpo"].model_copy(update={"kl": None, "aggregation": "token_mean"})
    n = totals(tokens)
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
        assert per_token[f"clip_fraction_{name}"].flatten().tolist() == expected
    both = per_token["clip_fraction_low"] + per_token["clip_fraction_high"]
    assert torch.equal(both, per_token["clip_fraction"])
