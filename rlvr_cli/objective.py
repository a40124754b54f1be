"""The objectives, each as its equation: pure functions on tensors [B, T].

Nothing here is a mean of means: aggregations take the denominators of the whole optimizer step.
"""

from collections.abc import Callable

import torch

_MAX_LOG_RATIO = 20.0


def importance_ratio(logprobs: torch.Tensor, old_logprobs: torch.Tensor) -> torch.Tensor:
    """r_t = exp(logprobs - old_logprobs), [B, T]; the exponent is kept within +-20."""
    return (logprobs - old_logprobs).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()


def clipped_surrogate(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> torch.Tensor:
    """L_t = min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t), [B, T], to be maximised.

    PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7; separate bounds: DAPO, Yu et al. 2025,
    arXiv:2503.14476, eq. 8.
    """
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return torch.minimum(ratio * advantages, clipped * advantages)


def is_clipped(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> torch.Tensor:
    """Where the clip takes the gradient away, bool [B, T]: outside the bounds on A's own side."""
    return ((ratio > 1 + clip_high) & (advantages > 0)) | (
        (ratio < 1 - clip_low) & (advantages < 0)
    )


def kl_k1(logprobs: torch.Tensor, other_logprobs: torch.Tensor) -> torch.Tensor:
    """k1 = logprobs - other_logprobs, [B, T]: KL(policy|other) as a mean over the policy's samples.

    Schulman, "Approximating KL divergence", 2020.
    """
    return logprobs - other_logprobs


def kl_k3(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """k3 = ref/pi - log(ref/pi) - 1, [B, T], never negative.

    GRPO, Shao et al. 2024, arXiv:2402.03300, eq. 4.
    """
    log_ratio = (ref_logprobs - logprobs).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return log_ratio.exp() - log_ratio - 1


def token_mean(mask: torch.Tensor, total_tokens: int, total_responses: int) -> torch.Tensor:
    """1 / sum_i |o_i|: every token of the optimizer step counts alike. DAPO, eq. 12."""
    return mask / total_tokens


def sequence_mean(mask: torch.Tensor, total_tokens: int, total_responses: int) -> torch.Tensor:
    """1 / (B |o_i|): every response of the optimizer step counts alike. GRPO, eq. 3."""
    return mask / (total_responses * mask.sum(-1, keepdim=True).clamp_min(1))


AGGREGATIONS: dict[str, Callable[[torch.Tensor, int, int], torch.Tensor]] = {
    "token_mean": token_mean,
    "sequence_mean": sequence_mean,
}
"""Weights [B, T] whose sum with a per-token loss is that loss over the whole optimizer step.
`mask` is that of one micro-batch; the totals are those of the step."""

KL_ESTIMATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {"k3": kl_k3}
