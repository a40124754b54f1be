"""Advantages: from rewards to one number a token. Pure functions on tensors, then on a batch."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_advantage import GROUP_ADVANTAGES
from rlvr_cli.algorithm.kinds import Advantage, Gae
from rlvr_cli.algorithm.kl import ESTIMATORS
from rlvr_cli.algorithm.samples import Samples


def reward_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """Compute R_t = r_t + gamma R_{t+1}, [B, T]. Rewards are 0 in the padding. Williams 1992."""
    returns = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        running = rewards[:, t] + gamma * running
        returns[:, t] = running
    return returns


def gae(
    rewards: Tensor,
    values: Tensor,
    end_values: Tensor,
    mask: Tensor,
    gamma: float,
    lam: float | Tensor,
) -> Tensor:
    """Compute A_t = delta_t + gamma lam A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t, [B, T].

    `end_values` [B] is V after the last token: 0 after a true end. `lam` may be one number for a
    response, [B]. Schulman et al. 2016, arXiv:1506.02438, eq. 16.
    """
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(end_values)
    next_values = end_values
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t].bool()
        delta = rewards[:, t] + gamma * next_values - values[:, t]
        running = torch.where(here, delta + gamma * lam * running, 0.0)
        next_values = torch.where(here, values[:, t], end_values)
        advantages[:, t] = running
    return advantages


def length_adaptive_lambda(mask: Tensor, alpha: float) -> Tensor:
    """Compute lam = max(0, 1 - 1 / (alpha l)), [B], for responses of l tokens.

    VAPO, Yue et al. 2025, arXiv:2504.05118, section 4.2: the sum of the weights lam^k, 1 / (1 -
    lam), is then in proportion to the length.
    """
    lengths_B = mask.sum(1).clamp_min(1)
    return (1 - 1 / (alpha * lengths_B)).clamp_min(0)


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


def _gae(
    rewards: Tensor, samples: Samples, gamma: float, lam: float | Tensor, alpha: float | None
) -> Tensor:
    assert samples.end_value is not None  # a critic has filled it
    if alpha is not None:
        lam = length_adaptive_lambda(samples.mask, alpha)
    return gae(
        rewards,
        samples.column("old_values"),
        samples.end_value.double(),
        samples.mask,
        gamma=gamma,
        lam=lam,
    )


def _right_only(rewards: Tensor, samples: Samples) -> Tensor:
    """Compute 1 for the tokens of right responses. RAFT, arXiv:2304.06767."""
    return samples.is_correct[:, None] * samples.mask


def _one(rewards: Tensor, samples: Samples) -> Tensor:
    return samples.mask.clone()


def _divergence(rewards: Tensor, samples: Samples) -> Tensor:
    """Return the penalty of each token, which is all that there is in the rewards."""
    return rewards * samples.mask


def _return(rewards: Tensor, samples: Samples, gamma: float) -> Tensor:
    return reward_to_go(rewards, gamma) * samples.mask


def _batch_baseline(rewards: Tensor, samples: Samples, gamma: float) -> Tensor:
    """Compute reward-to-go minus its mean over all tokens. REINFORCE++, arXiv:2501.03262, eq. 7."""
    returns = _return(rewards, samples, gamma)
    return (returns - returns.sum() / samples.mask.sum().clamp_min(1)) * samples.mask


TOKEN_ADVANTAGES: dict[str, Callable[..., Tensor]] = {
    "gae": _gae,
    "right_only": _right_only,
    "one": _one,
    "divergence": _divergence,
    "return": _return,
    "batch_baseline": _batch_baseline,
}
"""[B, T] advantages of a batch, from its rewards [B, T], its other columns, and the fields of the
kind."""


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
        advantages = _gae(
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
