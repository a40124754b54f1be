"""Parts of an algorithm: one of each kind, written as the built-in ones are."""

from torch import Tensor

from rlvr_cli.algorithm.objective import LossDenominators, LossInputs
from rlvr_cli.core.types import Group


def best_of_group(rewards_G: Tensor, rewards_B: Tensor, margin: float = 0.0) -> Tensor:
    """Return what each reward is above the group's mean, less a margin for those above it, [G]."""
    above = rewards_G - rewards_G.mean()
    return above - margin * (above > 0)


def quadratic(inputs: LossInputs, strength: float = 1.0) -> tuple[Tensor, Tensor]:
    """Compute r A - strength (r - 1)^2 / 2, [B, T]: a penalty in place of a clip, never reached."""
    move = inputs.ratio - 1
    return inputs.ratio * inputs.advantages - strength / 2 * move.square(), inputs.no_token


def absolute(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute |log pi - log other|, [B, T]."""
    return (logprobs - other_logprobs).abs()


def root_length(mask: Tensor, denominators: LossDenominators, power: float = 0.5) -> Tensor:
    """Weigh a response by 1 / (B |o|^power), [B, T]: between a sum (0) and a mean (1)."""
    lengths = mask.sum(1, keepdim=True).clamp_min(1)
    return mask / (lengths**power * denominators.responses)


def not_hopeless(group: Group, most: int = 0) -> bool:
    """Keep a group with more than `most` right responses, of which one is not."""
    right = sum(rollout.is_correct for rollout in group.rollouts)
    return most < right < len(group.rollouts)
