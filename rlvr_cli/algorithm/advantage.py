"""Compute the advantages of a batch: from rewards to one number a token."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_advantage import GROUP_ADVANTAGES
from rlvr_cli.algorithm.kinds import Advantage
from rlvr_cli.algorithm.kl import ESTIMATORS
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.algorithm.token_advantage import TOKEN_ADVANTAGES, Gae, batch_gae


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Compute (x - mean) / (std + 1e-8) over the mask (n-1 deviation), 0 in padding, [B, T]."""
    in_mask = values[mask.bool()]
    if len(in_mask) < 2:
        return torch.zeros_like(values)
    return (values - in_mask.mean()) / (in_mask.std() + 1e-8) * mask


def top_entropy_only(advantages: Tensor, entropy: Tensor, mask: Tensor, share: float) -> Tensor:
    """Compute I[H_t >= threshold] A_t, [B, T]. A `share` of the mask's tokens reach the threshold.

    Wang et al. 2025, arXiv:2506.01939: their indicator precedes the surrogate, and every token
    counts in the denominator. H_t is the policy's before the update, the threshold the batch's.
    """
    in_mask = entropy[mask.bool()]
    if not len(in_mask):
        return advantages
    threshold = in_mask.topk(math.ceil(share * len(in_mask) - 1e-9)).values[-1]
    return advantages * (entropy >= threshold)


def compute_advantages(rewards: Tensor, samples: Samples, advantage: Advantage) -> Tensor:
    """Compute the advantages of a batch, [B, T], by the kind and its fields. A group advantage
    comes from the total reward of each response and is equal for all of its tokens. Raises
    ValueError for a group of one."""
    if not advantage.needs_group:
        formula = TOKEN_ADVANTAGES[advantage.component]
        return formula(rewards, samples, **advantage.fields).to(rewards)
    if samples.terms is None:
        advantages_B = _group_advantages(rewards.sum(1), samples.group, advantage)
    else:  # each reward by itself: GDPO, 2026, arXiv:2601.05242
        values, weights = samples.terms.unbind(-1)  # [B, rewards] each
        columns = [_term_advantages(column, samples.group, advantage) for column in values.T]
        weighted_B = (torch.stack(columns, 1) * weights).sum(1)
        advantages_B = whiten(weighted_B, torch.ones_like(weighted_B))
    return advantages_B[:, None] * samples.mask


def _term_advantages(rewards_B: Tensor, group_B: Tensor, advantage: Advantage) -> Tensor:
    """Compute the group advantages of one reward, which is NaN for a response that it leaves out.
    There, and if it takes only one of a group, the advantage is 0."""
    advantages_B = torch.zeros_like(rewards_B)
    takes_B = ~rewards_B.isnan()
    takes_B &= ((group_B[:, None] == group_B) & takes_B).sum(1) > 1
    advantages_B[takes_B] = _group_advantages(rewards_B[takes_B], group_B[takes_B], advantage)
    return advantages_B


def _group_advantages(rewards_B: Tensor, group_B: Tensor, advantage: Advantage) -> Tensor:
    advantages_B = torch.zeros_like(rewards_B)
    for number in group_B.unique():
        members = group_B == number
        if members.sum() < 2:
            raise ValueError("a group of one has no advantage: sample at least two a prompt")
        formula = GROUP_ADVANTAGES[advantage.component]
        advantages_G = formula(rewards_B[members], rewards_B, **advantage.fields)
        advantages_B[members] = advantages_G.to(advantages_B)
    return advantages_B


def critic_returns(rewards: Tensor, samples: Samples, advantage: Gae, advantages: Tensor) -> Tensor:
    """Return what the critic learns, [B, T]: its values before the update plus the advantages by
    its own lambda, if it has one. With lambda 1 these are the true returns. Decoupled GAE, Yuan et
    al. 2025, arXiv:2503.01491."""
    if advantage.critic.lam is not None:
        advantages = batch_gae(
            rewards, samples, gamma=advantage.gamma, lam=advantage.critic.lam, alpha=None
        )
    return advantages + samples.column("old_values")


def with_advantages(samples: Samples, algo: Algorithm, kl_coef: float) -> Samples:
    """Return a batch of the rows that train, with advantages and (for a critic) returns, in
    float64. They come from the reward, which is on the last token unless some was earned earlier,
    and -kl_coef KL on every token if the penalty is in the reward.

    Cut-off responses that are masked and rejected ones count in the baseline and then leave. So do
    those without a likelihood.
    """
    rewards = torch.zeros_like(samples.mask)
    if algo.rewards_kl and algo.kl is not None:
        old_logprobs = samples.column("old_logprobs")
        estimate = ESTIMATORS[algo.kl.component]
        divergence = estimate(old_logprobs, samples.column("ref_logprobs"), **algo.kl.settings)
        rewards += -kl_coef * divergence
    if algo.advantage.reads_rewards:
        ends = samples.mask.sum(1, keepdim=True).long() - 1
        earlier = samples.column("earlier_rewards")
        rest = samples.reward - earlier.sum(1)
        rewards = (rewards + earlier).scatter_add(1, ends, rest[:, None])
    advantages = compute_advantages(rewards, samples, algo.advantage)
    returns = None
    if isinstance(algo.advantage, Gae):
        returns = critic_returns(rewards, samples, algo.advantage, advantages)
    trains = torch.ones(len(samples), dtype=torch.bool)
    if algo.masks_cut_off:
        trains &= ~samples.is_cut_off
    if samples.is_rejected is not None:
        trains &= ~samples.is_rejected
    if algo.advantage.is_likelihood:
        trains &= advantages.any(1)
    mask = samples.mask * trains[:, None]
    if algo.whiten:
        advantages = whiten(advantages, mask)
    if algo.top_entropy is not None:
        entropy = samples.column("entropy").to(mask)
        advantages = top_entropy_only(advantages, entropy, mask, algo.top_entropy)
    samples = replace(samples, advantages=advantages, returns=returns)
    return samples.only(trains.nonzero()[:, 0].tolist())
