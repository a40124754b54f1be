"""Every preset's loss in float64 against a loop over tokens, by value and by finite differences,
and its invariances."""

import dataclasses
import math
import random

import pytest
import torch

from rlvr_cli.algorithm.loss import PolicyTokens, critic_loss, policy_loss
from rlvr_cli.algorithm.objective import Totals
from rlvr_cli.algorithm.presets import ALGORITHMS, Algorithm

KL_COEF = 0.3
_PPO = {"advantage": "gae", "critic": "own"}
VARIANTS = {
    "dual_clip": Algorithm(surrogate="dual_clip", dual_clip=1.5),
    "penalty": Algorithm(
        surrogate="ratio", kl="k3", kl_coef=0.1, reference="old", mini_batches=2, **_PPO
    ),
    "k1_to_old": Algorithm(kl="k1", kl_coef=0.1, reference="old", epochs=2),
    "k2": Algorithm(kl="k2", kl_coef=0.1, reference="fixed"),
    "k3_k2": Algorithm(kl="k3_k2", kl_coef=0.1, reference="iterative"),
    "k2_in_reward": Algorithm(kl="k2", kl_coef=0.1, kl_in="reward", reference="fixed"),
    "truncate": Algorithm(sampler_weights="truncate", sampler_cap=1.2),
    "mask": Algorithm(sampler_weights="mask", sampler_cap=1.2),
    "entropy": Algorithm(entropy_coef=0.05, aggregation="sequence_mean"),
    "shared": Algorithm(advantage="gae", critic="shared", value_clip=0.3),
}
ROWS = ALGORITHMS | VARIANTS
LENGTHS = [3, 7, 1, 5, 2, 6, 4]


def make_tokens(seed: int = 0) -> PolicyTokens:
    """Seven responses whose ratios lie on both sides of all bounds."""
    rng = random.Random(seed)
    B, T = len(LENGTHS), max(LENGTHS)
    columns = {}
    for field in dataclasses.fields(PolicyTokens):
        column = torch.zeros(B, T, dtype=torch.float64)
        for row, length in enumerate(LENGTHS):
            for t in range(length):
                column[row, t] = rng.gauss(-1.5, 0.6)
        columns[field.name] = column
    columns["mask"] = (torch.arange(T) < torch.tensor(LENGTHS)[:, None]).double()
    columns["entropy"] = columns["entropy"].abs()
    columns["advantages"] = (columns["advantages"] + 1.5) * columns["mask"]
    return PolicyTokens(**columns)


def totals(tokens: PolicyTokens) -> Totals:
    return Totals(int(tokens.mask.sum()), int(tokens.mask.any(1).sum()), 9)


def slow_loss(
    cells: Algorithm, tokens: PolicyTokens, frozen: torch.Tensor, estimator: str
) -> float:
    """The papers' sums, one token at a time; `frozen` holds what a stop-gradient would."""
    n = totals(tokens)
    loss = 0.0
    for i, length in enumerate(LENGTHS):
        logp, old, roll, ref, adv, ent, still = (
            column[i, :length].tolist()
            for column in (
                *(tokens.logprobs, tokens.old_logprobs, tokens.rollout_logprobs),
                *(tokens.ref_logprobs, tokens.advantages, tokens.entropy, frozen),
            )
        )
        mean_log_ratio = sum(a - b for a, b in zip(logp, old, strict=True)) / length
        for t in range(length):
            ratio = math.exp(logp[t] - old[t])
            if cells.surrogate == "sequence_clip":
                ratio = math.exp(mean_log_ratio)
            near = min(max(ratio, 1 - cells.clip_low), 1 + cells.clip_high)
            if cells.surrogate == "policy_gradient":
                surrogate = adv[t] * logp[t]
            elif cells.surrogate == "ratio":
                surrogate = ratio * adv[t]
            elif cells.surrogate == "cispo":
                weight = math.exp(still[t] - old[t])
                weight = min(max(weight, 1 - cells.clip_low), 1 + cells.clip_high)
                surrogate = weight * adv[t] * logp[t]
            else:
                surrogate = min(ratio * adv[t], near * adv[t])
                if cells.surrogate == "dual_clip" and adv[t] < 0:
                    surrogate = max(surrogate, cells.dual_clip * adv[t])
            weight = math.exp(old[t] - roll[t])
            if cells.sampler_weights == "truncate":
                surrogate *= min(weight, cells.sampler_cap)
            elif cells.sampler_weights == "mask":
                inside = 1 / cells.sampler_cap <= weight <= cells.sampler_cap
                surrogate *= weight if inside else 0.0
            term = -surrogate - cells.entropy_coef * ent[t]
            if cells.kl != "none" and cells.kl_in == "loss":
                d = old[t] - logp[t] if cells.reference == "old" else logp[t] - ref[t]
                term += KL_COEF * {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) + d - 1}[estimator]
            loss += (
                term
                / {
                    "token_mean": n.tokens,
                    "sequence_mean": n.responses * length,
                    "sequence_sum": n.responses,
                    "constant_length": n.responses * n.max_tokens,
                }[cells.aggregation]
            )
    return loss


def with_gradient(cells: Algorithm, tokens: PolicyTokens, n: Totals):
    """(loss, d loss / d logprobs, per-token metrics)."""
    leaf = tokens.logprobs.clone().requires_grad_()
    loss, per_token = policy_loss(cells, dataclasses.replace(tokens, logprobs=leaf), n, KL_COEF)
    loss.backward()
    return loss.detach(), leaf.grad, per_token


@pytest.mark.parametrize("name", ROWS)
def test_the_loss_equals_the_loop_over_tokens(name):
    cells, tokens = ROWS[name], make_tokens()
    loss, _, _ = with_gradient(cells, tokens, totals(tokens))
    expected = slow_loss(cells, tokens, tokens.logprobs, cells.kl.removesuffix("_k2"))
    assert loss.item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", ROWS)
def test_the_gradient_equals_finite_differences(name):
    cells, tokens = ROWS[name], make_tokens()
    _, gradient, _ = with_gradient(cells, tokens, totals(tokens))
    estimator = cells.kl.removeprefix("k3_")
    step = 1e-6
    for i, length in enumerate(LENGTHS):
        for t in range(length):
            ends = []
            for sign in (1, -1):
                moved = tokens.logprobs.clone()
                moved[i, t] += sign * step
                at = dataclasses.replace(tokens, logprobs=moved)
                ends.append(slow_loss(cells, at, tokens.logprobs, estimator))
            expected = (ends[0] - ends[1]) / (2 * step)
            assert gradient[i, t].item() == pytest.approx(expected, abs=1e-6)
    assert bool((gradient[tokens.mask == 0] == 0).all())


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_micro_batches_in_any_order_add_up_to_the_whole(name, count):
    cells, tokens = ROWS[name], make_tokens()
    n = totals(tokens)
    loss, gradient, per_token = with_gradient(cells, tokens, n)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    parts = [torch.arange(len(LENGTHS))[order][i::count] for i in range(count)]
    total, joined, sums = 0.0, torch.zeros_like(gradient), dict.fromkeys(per_token, 0.0)
    for part in parts:
        piece = PolicyTokens(**{k: v[part] for k, v in vars(tokens).items()})
        share, share_gradient, share_metrics = with_gradient(cells, piece, n)
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
    cells, tokens = ROWS[name], make_tokens()
    n = totals(tokens)
    loss, gradient, per_token = with_gradient(cells, tokens, n)
    # Two more rows and three more columns of arbitrary numbers, all outside the mask.
    B, T = tokens.mask.shape
    wide = {}
    for key, value in vars(tokens).items():
        filler = 0.0 if key == "mask" else -0.8
        wide[key] = torch.full((B + 2, T + 3), filler, dtype=torch.float64)
        wide[key][:B, :T] = value
    found, wide_gradient, wide_metrics = with_gradient(cells, PolicyTokens(**wide), n)
    assert found.item() == pytest.approx(loss.item(), abs=1e-12)
    torch.testing.assert_close(wide_gradient[:B, :T], gradient, atol=1e-13, rtol=0)
    assert wide_gradient.abs().sum().item() == pytest.approx(gradient.abs().sum().item())
    for key, values in wide_metrics.items():
        inside = (values * wide["mask"]).sum().item()
        assert inside == pytest.approx((per_token[key] * tokens.mask).sum().item(), abs=1e-12)


@pytest.mark.parametrize("name", ["ppo", "shared"])
def test_the_critics_loss_and_gradient_equal_the_loop(name):
    cells, tokens = ROWS[name], make_tokens()
    values, old, returns = (make_tokens(seed).logprobs for seed in (1, 2, 3))
    n = totals(tokens)

    def slow(values: torch.Tensor) -> float:
        total = 0.0
        for i, length in enumerate(LENGTHS):
            for t in range(length):
                v, before, target = values[i, t].item(), old[i, t].item(), returns[i, t].item()
                near = before + min(max(v - before, -cells.value_clip), cells.value_clip)
                total += max((v - target) ** 2, (near - target) ** 2)
        return cells.value_coef * total / n.tokens

    leaf = values.clone().requires_grad_()
    loss, _ = critic_loss(cells, leaf, old, returns, tokens.mask, n)
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
            "clip_high": 0.2,
            "aggregation": "sequence_mean",
            "overlong": "off",
            "kl": "k3",
            "kl_coef": 0.04,
            "reference": "fixed",
            "group_filter": "none",
        }
    )
    assert dapo_as_grpo == ALGORITHMS["grpo"]
    tokens = make_tokens()
    n = totals(tokens)
    ours, other = (with_gradient(c, tokens, n) for c in (ALGORITHMS["grpo"], dapo_as_grpo))
    assert ours[0] == other[0]
    assert torch.equal(ours[1], other[1])


def test_the_clip_of_ppo_is_that_of_grpo_with_other_advantages():
    tokens, plain = make_tokens(), {"kl": "none", "kl_coef": 0.0, "reference": "none"}
    ppo = ALGORITHMS["ppo"].model_copy(update={**plain, "kl_in": "loss"})
    grpo = ALGORITHMS["grpo"].model_copy(update={**plain, "aggregation": "token_mean"})
    n = totals(tokens)
    for ours, other in zip(
        with_gradient(ppo, tokens, n)[:2], with_gradient(grpo, tokens, n)[:2], strict=True
    ):
        assert torch.equal(ours, other)
