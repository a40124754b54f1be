"""Advantages: from rewards to one number a token. Pure functions on tensors, then on a batch."""

import math
from collections.abc import Callable
from typing import Literal

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import Advantage
from rlvr_cli.algorithm.kl import ESTIMATORS
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import TIE


def group_normalized(
    rewards_G: torch.Tensor,
    deviation: Literal["sample", "population", "batch"] = "sample",
    rewards_B: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute A_i = (r_i - mean r) / (std r + 1e-6), [G]; the n-1 deviation or the n one of the
    group, or with "batch" the n-1 one of all responses' rewards.

    GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1.2; batch: Liu et al. 2025,
    arXiv:2508.08221.
    """
    compared = rewards_B if deviation == "batch" and rewards_B is not None else rewards_G
    std = compared.std(correction=0 if deviation == "population" else 1)
    return (rewards_G - rewards_G.mean()) / (std + 1e-6)


def group_centered(rewards_G: torch.Tensor) -> torch.Tensor:
    """Compute A_i = r_i - mean r, [G]. Dr. GRPO, Liu et al. 2025, arXiv:2503.20783, section 3.2."""
    return rewards_G - rewards_G.mean()


def leave_one_out(rewards_G: torch.Tensor) -> torch.Tensor:
    """Compute A_i = r_i - mean of the other G - 1, [G]. RLOO, arXiv:2402.14740."""
    G = len(rewards_G)
    return (rewards_G - rewards_G.mean()) * G / (G - 1)


def mean_normalized(rewards_G: torch.Tensor) -> torch.Tensor:
    """Compute A_i = (r_i - mean r) / mean r, [G], and 0 where all are alike up to `TIE`. Rewards
    count from the group's lowest, so that any two values are its 0 and 1. MaxRL, arXiv:2602.02710.
    """
    above_G = rewards_G - rewards_G.min()
    mean = above_G.mean()
    return torch.where(above_G.max() > TIE, (above_G - mean) / mean, 0.0)


def reward_to_go(rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """Compute R_t = r_t + gamma R_{t+1}, [B, T]; rewards are 0 in the padding. Williams 1992."""
    returns = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        running = rewards[:, t] + gamma * running
        returns[:, t] = running
    return returns


def gae(
    rewards: torch.Tensor,
    values: torch.Tensor,
    end_values: torch.Tensor,
    mask: torch.Tensor,
    gamma: float,
    lam: float,
) -> torch.Tensor:
    """Compute delta_t = r_t + gamma V_{t+1} - V_t; A_t = delta_t + gamma lam A_{t+1}, [B, T].

    `end_values` [B] is V after the last token: 0 after a true end. Schulman et al. 2016,
    arXiv:1506.02438, eq. 16.
    """
    advantages = torch.zeros_like(rewards)
    running, next_values = torch.zeros_like(end_values), end_values
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t].bool()
        delta = rewards[:, t] + gamma * next_values - values[:, t]
        running = torch.where(here, delta + gamma * lam * running, 0.0)
        next_values = torch.where(here, values[:, t], end_values)
        advantages[:, t] = running
    return advantages


def whiten(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Compute (x - mean) / (std + 1e-8) over the mask (n-1 deviation), 0 in padding, [B, T]."""
    inside = values[mask.bool()]
    if len(inside) < 2:
        return torch.zeros_like(values)
    return (values - inside.mean()) / (inside.std() + 1e-8) * mask


def of_highest_entropy(
    advantages: torch.Tensor, entropy: torch.Tensor, mask: torch.Tensor, share: float
) -> torch.Tensor:
    """Compute I[H_t >= threshold] A_t, [B, T]; `share` of the mask's tokens reach the threshold.

    Wang et al. 2025, arXiv:2506.01939: their indicator stands before the surrogate, and every token
    counts in the denominator. H_t is the policy's before the update, the threshold the batch's.
    """
    inside = entropy[mask.bool()]
    if not len(inside):
        return advantages
    threshold = inside.topk(math.ceil(share * len(inside) - 1e-9)).values[-1]
    return advantages * (entropy >= threshold)


GROUP_ADVANTAGES: dict[str, Callable[..., torch.Tensor]] = {
    "group_normalized": lambda rewards_G, rewards_B, deviation, normalization: group_normalized(
        rewards_G, deviation, rewards_B
    ),
    "group_centered": lambda rewards_G, rewards_B: group_centered(rewards_G),
    "leave_one_out": lambda rewards_G, rewards_B: leave_one_out(rewards_G),
    "mean_normalized": lambda rewards_G, rewards_B: mean_normalized(rewards_G),
}
"""[G] advantages of the responses to one prompt, from their rewards, those of the batch and the
cells of the kind."""


def _batch_baseline(rewards: torch.Tensor, samples: Samples, gamma: float) -> torch.Tensor:
    """Compute reward-to-go minus its mean over all tokens. REINFORCE++, arXiv:2501.03262, eq. 7."""
    returns = reward_to_go(rewards, gamma) * samples.mask
    return (returns - returns.sum() / samples.mask.sum().clamp_min(1)) * samples.mask


TOKEN_ADVANTAGES: dict[str, Callable[..., torch.Tensor]] = {
    "gae": lambda rewards, s, gamma, lam: gae(
        rewards, s.column("old_values"), s.end_value.double(), s.mask, gamma, lam
    ),
    "right_only": lambda rewards, s: s.is_correct[:, None] * s.mask,
    "one": lambda rewards, s: s.mask.clone(),
    "divergence": lambda rewards, s: rewards * s.mask,
    "return": lambda rewards, s, gamma: reward_to_go(rewards, gamma) * s.mask,
    "batch_baseline": _batch_baseline,
}
"""[B, T] advantages of a batch, from its rewards [B, T], its other columns and the cells."""


def advantages_of(rewards: torch.Tensor, samples: Samples, advantage: Advantage) -> torch.Tensor:
    """Compute the advantages of a batch, [B, T], by the kind and its cells: of a group from the
    responses' total rewards, equal for all tokens. Raises ValueError for a group of one."""
    kind, cells = advantage.kind, advantage.fields
    if not advantage.needs_group:
        return TOKEN_ADVANTAGES[kind](rewards, samples, **cells)
    totals, weights = rewards.sum(1)[:, None], torch.ones(1, 1)
    if samples.terms is not None:  # each reward by itself: GDPO, 2026, arXiv:2601.05242
        totals, weights = samples.terms.unbind(-1)
    summed = torch.zeros_like(totals[:, 0])
    for number in samples.group.unique():
        members = samples.group == number
        if members.sum() < 2:
            raise ValueError("a group of one has no advantage: sample at least two a prompt")
        columns = [GROUP_ADVANTAGES[kind](total[members], total, **cells) for total in totals.T]
        own = torch.stack(columns, 1)
        summed[members] = own[:, 0] if samples.terms is None else (own * weights[members]).sum(1)
    if samples.terms is not None:
        summed = whiten(summed, torch.ones_like(summed))
    return summed[:, None] * samples.mask


def with_advantages(samples: Samples, algo: Algorithm, kl_coef: float) -> Samples:
    """Return the rows that train, with advantages and (for a critic) returns, in float64: from the
    reward on the last token and any -kl_coef KL on every one.

    Masked cut-off and rejected responses count in the baseline and leave, as do those without a
    likelihood.
    """
    rewards, ends = torch.zeros_like(samples.mask), samples.mask.sum(1, keepdim=True).long() - 1
    if algo.kl is not None and algo.kl.place == "reward":
        old, reference = samples.column("old_logprobs"), samples.column("ref_logprobs")
        rewards += -kl_coef * ESTIMATORS[algo.kl.kind](old, reference)
    if algo.advantage.reads_rewards:
        rewards = rewards.scatter_add(1, ends, samples.reward[:, None])
    advantages = advantages_of(rewards, samples, algo.advantage)
    samples.returns = advantages + samples.column("old_values") if algo.critic else None
    stays = torch.ones(len(samples), dtype=torch.bool)
    if algo.masks_cut_off:
        stays &= ~samples.is_cut_off
    if samples.is_rejected is not None:
        stays &= ~samples.is_rejected
    if algo.advantage.is_likelihood:
        stays &= advantages.any(1)
    mask = samples.mask * stays[:, None]
    if algo.whiten:
        advantages = whiten(advantages, mask)
    if algo.top_entropy is not None:
        entropy = samples.column("entropy").to(mask)
        advantages = of_highest_entropy(advantages, entropy, mask, algo.top_entropy)
    samples.advantages = advantages
    return samples.only(stays.nonzero()[:, 0].tolist())
