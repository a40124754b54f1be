"""Estimate the divergence from another policy, and adapt its coefficient.

All are pure functions of `logprobs`, those of the policy that sampled. Schulman, "Approximating KL
divergence", 2020.
"""

from collections.abc import Callable

from torch import Tensor

MAX_LOG_RATIO = 20.0


def bounded_log_ratio(log_ratio: Tensor) -> Tensor:
    """Clamp to +-20, so that no exponential overflows."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def k1(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k1 = log pi - log other, [B, T]. The mean is KL(pi|other), terms may be negative."""
    return logprobs - other_logprobs


def k2(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k2 = (log pi - log other)^2 / 2, [B, T]: on-policy the gradient of KL(pi|other)."""
    return (logprobs - other_logprobs).square() / 2


def k3(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute k3 = other/pi - log(other/pi) - 1, [B, T], never negative. Its gradient is biased.

    GRPO, Shao et al. 2024, arXiv:2402.03300, eq. 4.
    """
    log_ratio = bounded_log_ratio(other_logprobs - logprobs)
    return log_ratio.exp() - log_ratio - 1


def k3_k2(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Compute the value of k3 with the gradient of k2, [B, T]."""
    gradient = k2(logprobs, other_logprobs)
    return k3(logprobs, other_logprobs).detach() + gradient - gradient.detach()


ESTIMATORS: dict[str, Callable[..., Tensor]] = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
    "k3_k2": k3_k2,
}


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
