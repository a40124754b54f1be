"""Advantages within a group: from the rewards of its responses to one number each.

Pure functions on rewards [G] that compute as a tensor does. The trainer gives tensors, and `rlvr
show` plain numbers, for which it loads no torch.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

from rlvr_cli.algorithm.kinds import Advantage
from rlvr_cli.core.settings import register
from rlvr_cli.core.types import TIE


class Rewards(Protocol):
    """What the formulas need of the rewards of a group. A tensor's numbers are tensors too."""

    def __len__(self) -> int: ...
    def __sub__(self, other: float) -> Self: ...
    def __mul__(self, other: float) -> Self: ...
    def __truediv__(self, other: float) -> Self: ...
    def mean(self) -> float: ...
    def min(self) -> float: ...
    def max(self) -> float: ...
    def std(self, *, correction: int) -> float: ...


R = TypeVar("R", bound=Rewards)
GROUP_ADVANTAGES: dict[str, Callable[..., Any]] = {}
"""[G] advantages of the responses to one prompt, from their rewards [G], the rewards of the whole
batch [B], and the fields of the kind."""


class GroupNormalized(Advantage):
    needs_group: ClassVar[bool] = True
    kind: Literal["group_normalized"] = "group_normalized"
    deviation: Literal["sample", "population", "batch"] = "sample"
    """Divisor: the n-1 or the n standard deviation of the group, or the batch's n-1 one."""
    normalization: Literal["sum", "each"] = "sum"
    """What is normalized: the weighted sum of the rewards, or each reward, whose weighted sum is
    then whitened over the batch."""


@register(GROUP_ADVANTAGES, GroupNormalized)
def group_normalized(
    rewards_G: R,
    rewards_B: R | None = None,
    deviation: Literal["sample", "population", "batch"] = "sample",
    normalization: str = "sum",
) -> R:
    """Compute A_i = (r_i - mean r) / (std r + 1e-6), [G]. The deviation is the group's n-1 or n one
    or, with "batch", the n-1 one of all responses' rewards. `normalization` says which rewards
    these are, and changes nothing here.

    GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1.2. With "batch": Liu et al. 2025,
    arXiv:2508.08221.
    """
    compared = rewards_B if deviation == "batch" and rewards_B is not None else rewards_G
    std = compared.std(correction=0 if deviation == "population" else 1)
    return (rewards_G - rewards_G.mean()) / (std + 1e-6)


class GroupBaseline(Advantage):
    needs_group: ClassVar[bool] = True
    kind: Literal["group_centered", "leave_one_out", "mean_normalized"]


@register(GROUP_ADVANTAGES, GroupBaseline, "group_centered")
def group_centered(rewards_G: R, rewards_B: R | None = None) -> R:
    """Compute A_i = r_i - mean r, [G]. Dr. GRPO, Liu et al. 2025, arXiv:2503.20783, section 3.2."""
    return rewards_G - rewards_G.mean()


@register(GROUP_ADVANTAGES, GroupBaseline, "leave_one_out")
def leave_one_out(rewards_G: R, rewards_B: R | None = None) -> R:
    """Compute A_i = r_i - mean of the other G - 1, [G]. RLOO, arXiv:2402.14740."""
    G = len(rewards_G)
    return (rewards_G - rewards_G.mean()) * G / (G - 1)


@register(GROUP_ADVANTAGES, GroupBaseline, "mean_normalized")
def mean_normalized(rewards_G: R, rewards_B: R | None = None) -> R:
    """Compute A_i = (r_i - mean r) / mean r, [G], and 0 if all are equal up to `TIE`. Rewards
    count from the group's lowest, so that any two values are its 0 and 1. MaxRL, arXiv:2602.02710.
    """
    above_G = rewards_G - rewards_G.min()
    if above_G.max() <= TIE:
        return above_G * 0.0
    mean = above_G.mean()
    return (above_G - mean) / mean
