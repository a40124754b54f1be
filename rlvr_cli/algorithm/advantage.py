"""Advantages: from rewards to one number a token. Pure functions on tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch


def group_normalised(
    rewards_G: torch.Tensor,
    deviation: Literal["sample", "population"] = "sample",
    eps: float = 1e-6,
) -> torch.Tensor:
    """A_i = (r_i - mean r) / (std r + eps), [G]; the n-1 deviation or the n one.

    GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1.2. Raises ValueError for a group of one.
    """
    _refuse_one(rewards_G)
    std = rewards_G.std(correction=1 if deviation == "sample" else 0)
    return (rewards_G - rewards_G.mean()) / (std + eps)


def group_centred(rewards_G: torch.Tensor) -> torch.Tensor:
    """A_i = r_i - mean r, [G]. Dr. GRPO, Liu et al. 2025, arXiv:2503.20783, section 3.2.

    Raises ValueError for a group of one.
    """
    _refuse_one(rewards_G)
    return rewards_G - rewards_G.mean()


def leave_one_out(rewards_G: torch.Tensor) -> torch.Tensor:
    """A_i = r_i - mean of the other G - 1, [G]. RLOO, Ahmadian et al. 2024, arXiv:2402.14740.

    Raises ValueError for a group of one.
    """
    _refuse_one(rewards_G)
    G = len(rewards_G)
    return (rewards_G - rewards_G.mean()) * G / (G - 1)


def reward_to_go(rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """R_t = r_t + gamma R_{t+1}, [B, T]; rewards are 0 in the padding. Williams 1992."""
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
    """delta_t = r_t + gamma V_{t+1} - V_t; A_t = delta_t + gamma lam A_{t+1}, [B, T].

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


def whiten(values: torch.Tensor, mask: torch.Tensor, eps: float = 1e-8) -> torch.Tensor:
    """(x - mean) / (std + eps) over the mask (n-1 deviation), 0 in the padding, [B, T]."""
    inside = values[mask.bool()]
    if len(inside) < 2:
        return torch.zeros_like(values)
    return (values - inside.mean()) / (inside.std() + eps) * mask


@dataclass(frozen=True)
class Outcome:
    """What one batch of B responses brought."""

    rewards: torch.Tensor
    """[B, T]: the response's own on its last token, the KL penalty on every token; padding 0."""
    mask: torch.Tensor
    """[B, T]."""
    group: torch.Tensor
    """[B]: equal numbers for responses to one prompt that were sampled together."""
    values: torch.Tensor
    """[B, T], zeros where there is no critic."""
    end_values: torch.Tensor
    """[B]: V after the last token."""


@dataclass(frozen=True)
class AdvantageSettings:
    """The numbers that advantages take from the row of the algorithm."""

    deviation: Literal["sample", "population"]
    gamma: float
    gae_lambda: float


def _of_groups(outcome: Outcome, formula: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`formula` of the responses' total rewards, group by group, the same for all tokens."""
    totals = outcome.rewards.sum(1)
    advantages = torch.zeros_like(totals)
    for number in outcome.group.unique():
        members = outcome.group == number
        advantages[members] = formula(totals[members])
    return advantages[:, None] * outcome.mask


def _return(outcome: Outcome, settings: AdvantageSettings) -> torch.Tensor:
    return reward_to_go(outcome.rewards, settings.gamma) * outcome.mask


def _batch_baseline(outcome: Outcome, settings: AdvantageSettings) -> torch.Tensor:
    """Reward-to-go minus its mean over all tokens. REINFORCE++, arXiv:2501.03262, eq. 7."""
    returns = _return(outcome, settings)
    return (returns - returns.sum() / outcome.mask.sum().clamp_min(1)) * outcome.mask


ADVANTAGES: dict[str, Callable[[Outcome, AdvantageSettings], torch.Tensor]] = {
    "gae": lambda o, s: gae(o.rewards, o.values, o.end_values, o.mask, s.gamma, s.gae_lambda),
    "group_normalised": lambda o, s: _of_groups(o, lambda r: group_normalised(r, s.deviation)),
    "group_centred": lambda o, s: _of_groups(o, group_centred),
    "leave_one_out": lambda o, s: _of_groups(o, leave_one_out),
    "return": _return,
    "batch_baseline": _batch_baseline,
}
"""[B, T] advantages of a whole batch."""


def _refuse_one(rewards_G: torch.Tensor) -> None:
    if len(rewards_G) < 2:
        raise ValueError("a group of one has no advantage: sample at least two responses a prompt")
