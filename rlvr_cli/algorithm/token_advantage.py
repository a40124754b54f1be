"""Advantages of each token: from the rewards of a batch to one number a token.

Pure functions on tensors. They call the methods of tensors, since the kinds are listed without
torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from rlvr_cli.algorithm.kinds import Advantage, Critic, CustomAdvantage, Gamma
from rlvr_cli.core.settings import CUSTOM, register

if TYPE_CHECKING:
    from torch import Tensor

    from rlvr_cli.algorithm.samples import Samples

TOKEN_ADVANTAGES: dict[str, Callable[..., Tensor]] = {}
"""[B, T] advantages of a batch, from its rewards [B, T], its other columns, and the fields of the
kind."""


def reward_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """Compute R_t = r_t + gamma R_{t+1}, [B, T]. Rewards are 0 in the padding. Williams 1992."""
    returns = rewards.new_zeros(rewards.shape)
    running = rewards.new_zeros(len(rewards))
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
    advantages = rewards.new_zeros(rewards.shape)
    running = end_values.new_zeros(end_values.shape)
    next_values = end_values
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t].bool()
        delta = rewards[:, t] + gamma * next_values - values[:, t]
        running = (delta + gamma * lam * running).masked_fill(~here, 0.0)
        next_values = values[:, t].where(here, end_values)
        advantages[:, t] = running
    return advantages


def length_adaptive_lambda(mask: Tensor, alpha: float) -> Tensor:
    """Compute lam = max(0, 1 - 1 / (alpha l)), [B], for responses of l tokens.

    VAPO, Yue et al. 2025, arXiv:2504.05118, section 4.2: the sum of the weights lam^k, 1 / (1 -
    lam), is then in proportion to the length.
    """
    lengths_B = mask.sum(1).clamp_min(1)
    return (1 - 1 / (alpha * lengths_B)).clamp_min(0)


class Gae(Advantage):
    kind: Literal["gae"] = "gae"
    gamma: Gamma = 1.0
    """Discount of a token."""
    lam: float = Field(0.95, ge=0, le=1)
    """Lambda of generalized advantage estimation."""
    alpha: float | None = Field(None, gt=0)
    """Length-adaptive lambda in place of lam: 1 - 1/(alpha l), at least 0, for a response of l
    tokens. None means lam."""
    critic: Critic = Critic()


@register(TOKEN_ADVANTAGES, Gae)
def batch_gae(
    rewards: Tensor, samples: Samples, gamma: float, lam: float | Tensor, alpha: float | None
) -> Tensor:
    """Compute `gae` of a batch, with lambda by length if there is an alpha."""
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


class Likelihood(Advantage):
    """1 for right responses, while no others train (right_only), or 1 for every response, read from
    the data's rows (one)."""

    is_likelihood: ClassVar[bool] = True
    reads_rewards: ClassVar[bool] = False
    kind: Literal["right_only", "one"]


@register(TOKEN_ADVANTAGES, Likelihood, "right_only")
def right_only(rewards: Tensor, samples: Samples) -> Tensor:
    """Compute 1 for the tokens of right responses. RAFT, arXiv:2304.06767."""
    return samples.is_correct[:, None] * samples.mask


@register(TOKEN_ADVANTAGES, Likelihood, "one")
def one(rewards: Tensor, samples: Samples) -> Tensor:
    """Compute 1 for the tokens of every response."""
    return samples.mask.clone()


class Divergence(Advantage):
    """The penalty of each token alone, -coef KL from the reference: no reward is read, and nothing
    is summed over the response."""

    reads_rewards: ClassVar[bool] = False
    kind: Literal["divergence"]


@register(TOKEN_ADVANTAGES, Divergence, "divergence")
def divergence(rewards: Tensor, samples: Samples) -> Tensor:
    """Return the penalty of each token, which is all that there is in the rewards."""
    return rewards * samples.mask


class Return(Advantage):
    """The reward-to-go, optionally less its mean over the batch."""

    kind: Literal["return", "batch_baseline"]
    gamma: Gamma = 1.0
    """Discount of a token."""

    @property
    def has_baseline(self) -> bool:  # type: ignore[override]
        """Return whether the mean is subtracted."""
        return self.kind == "batch_baseline"


@register(TOKEN_ADVANTAGES, Return, "return")
def discounted_return(rewards: Tensor, samples: Samples, gamma: float) -> Tensor:
    """Compute `reward_to_go` of a batch."""
    return reward_to_go(rewards, gamma) * samples.mask


@register(TOKEN_ADVANTAGES, Return, "batch_baseline")
def batch_baseline(rewards: Tensor, samples: Samples, gamma: float) -> Tensor:
    """Compute reward-to-go minus its mean over all tokens. REINFORCE++, arXiv:2501.03262, eq. 7."""
    returns = discounted_return(rewards, samples, gamma)
    return (returns - returns.sum() / samples.mask.sum().clamp_min(1)) * samples.mask


Advantage.registered[CUSTOM] = CustomAdvantage
