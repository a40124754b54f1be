"""Estimate the divergence from another policy, and adapt its coefficient.

All are pure functions of `logprobs`, those of the policy that sampled. Schulman, "Approximating KL
divergence", 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rlvr_cli.algorithm.kinds import ByKind, FixedReference, IterativeReference, KLControl
from rlvr_cli.core.settings import CUSTOM, Choice, Kinds, Values, register, setting

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOG_RATIO = 20.0


def bounded_log_ratio(log_ratio: Tensor) -> Tensor:
    """Clamp to +-20, so that no exponential overflows."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


class KL(Choice):
    """A penalty on the divergence from a reference policy. The kind is its estimator. k3_k2 has the
    value of k3 and the gradient of k2."""

    number: ClassVar[str] = "coef"
    registered: ClassVar[Kinds] = {}
    kind: str = "k3"
    function: str | None = None
    """Custom estimator, called as those of `kl.ESTIMATORS` are. None means the kind."""
    settings: Values = setting({})
    """Keyword arguments of a custom estimator."""
    coef: float = Field(0.04, gt=0)
    """Coefficient of the penalty."""
    place: Literal["loss", "reward"] = "loss"
    """Where the penalty is subtracted: in the loss, or from tokens' rewards (unbiased for k1)."""
    reference: Annotated[FixedReference | IterativeReference, ByKind] = FixedReference()
    """Policy that the divergence is measured from."""
    control: KLControl | None = None
    """Adaptation of the coefficient. None keeps it constant."""

    @property
    def component(self) -> str:
        return self.function or self.kind

    @property
    def is_ppo_penalty(self) -> bool:
        """Return whether the coefficient adapts to the divergence of the updates themselves: PPO's
        penalty form."""
        return self.reference.kind == "old" and self.control is not None

    @field_validator("kind")
    @classmethod
    def _is_registered(cls, kind: str) -> str:
        if kind not in cls.registered:
            raise ValueError(f"is not known; choose from {', '.join(cls.registered)}")
        return kind


ESTIMATORS: dict[str, Callable[..., Tensor]] = {}
"""From log-probabilities, those of the policy that sampled first, to a divergence [B, T]."""


@register(ESTIMATORS, KL, "k1")
def k1(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k1 = log pi - log other, [B, T]. The mean is KL(pi|other), terms may be negative."""
    return logprobs - other_logprobs


@register(ESTIMATORS, KL, "k2")
def k2(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k2 = (log pi - log other)^2 / 2, [B, T]: on-policy the gradient of KL(pi|other)."""
    return (logprobs - other_logprobs).square() / 2


@register(ESTIMATORS, KL, "k3")
def k3(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k3 = other/pi - log(other/pi) - 1, [B, T], never negative. Its gradient is biased.

    GRPO, Shao et al. 2024, arXiv:2402.03300, eq. 4.
    """
    log_ratio = bounded_log_ratio(other_logprobs - logprobs)
    return log_ratio.exp() - log_ratio - 1


@register(ESTIMATORS, KL, "k3_k2")
def k3_k2(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute the value of k3 with the gradient of k2, [B, T]."""
    gradient = k2(logprobs, other_logprobs)
    return k3(logprobs, other_logprobs).detach() + gradient - gradient.detach()


KL.registered[CUSTOM] = KL


def proportional(coef: float, divergence: float, target: float) -> float:
    """Return coef (1 + 0.1 clip(KL / target - 1, -0.2, 0.2)). Ziegler 2019, arXiv:1909.08593."""
    return coef * (1 + 0.1 * min(0.2, max(-0.2, divergence / target - 1)))


def doubling(coef: float, divergence: float, target: float) -> float:
    """Double the coefficient above 1.5 target, halve it below target / 1.5. PPO's penalty form,
    Schulman et al. 2017, arXiv:1707.06347, section 4."""
    if divergence > 1.5 * target:
        return coef * 2
    return coef / 2 if divergence < target / 1.5 else coef


CONTROLS: dict[str, Callable[[float, float, float], float]] = {
    "proportional": proportional,
    "doubling": doubling,
}
"""The next coefficient from the present one, the divergence of the step, and the target."""
