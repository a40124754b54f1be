"""The objectives, each as its equation: pure functions on tensors [B, T].

Nothing here is a mean of means: aggregations take the denominators of the whole optimizer step.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.kl import bounded


def importance_ratio(logprobs: torch.Tensor, old_logprobs: torch.Tensor) -> torch.Tensor:
    """r_t = exp(logprobs - old_logprobs), [B, T]; the exponent is kept within +-20."""
    return bounded(logprobs - old_logprobs).exp()


def sequence_ratio(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """s = exp(mean over t of (logprobs - old_logprobs)), [B, T], the same for a whole response.

    GSPO, Zheng et al. 2025, arXiv:2507.18071, eq. 7.
    """
    total = ((logprobs - old_logprobs) * mask).sum(1, keepdim=True)
    mean = total / mask.sum(1, keepdim=True).clamp_min(1)
    return bounded(mean).exp().expand_as(logprobs)


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


@dataclass(frozen=True)
class Bounds:
    """How far the ratio counts."""

    low: float
    high: float
    dual: float


@dataclass(frozen=True)
class Tokens:
    """What a surrogate sees, all [B, T]."""

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor


Surrogate = Callable[[Tokens, Bounds], tuple[torch.Tensor, torch.Tensor]]


def policy_gradient(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """L_t = A_t log pi_t. REINFORCE, Williams 1992."""
    return tokens.logprobs * tokens.advantages, torch.zeros_like(tokens.mask, dtype=torch.bool)


def ratio_times_advantage(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """L_t = r_t A_t. The unclipped objective of PPO, arXiv:1707.06347, eq. 6."""
    ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs)
    return ratio * tokens.advantages, torch.zeros_like(tokens.mask, dtype=torch.bool)


def clip(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """`clipped_surrogate` of each token's ratio."""
    ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs)
    return _clip(ratio, tokens.advantages, bounds)


def dual_clip(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped surrogate, but at least c A_t where A_t < 0. Ye et al. 2020, arXiv:1912.09729."""
    ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs)
    surrogate, clipped = _clip(ratio, tokens.advantages, bounds)
    negative = tokens.advantages < 0
    floor = bounds.dual * tokens.advantages
    capped = negative & (surrogate < floor)
    return torch.where(capped, floor, surrogate), clipped | capped


def sequence_clip(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """`clipped_surrogate` of the response's ratio. GSPO, arXiv:2507.18071, eq. 5."""
    ratio = sequence_ratio(tokens.logprobs, tokens.old_logprobs, tokens.mask)
    return _clip(ratio, tokens.advantages, bounds)


def cispo(tokens: Tokens, bounds: Bounds) -> tuple[torch.Tensor, torch.Tensor]:
    """L_t = stop_gradient(clip(r_t)) A_t log pi_t: every token keeps a gradient.

    CISPO, MiniMax 2025, arXiv:2506.13585, eq. 4. Second: where the weight was clipped.
    """
    ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs).detach()
    weight = ratio.clamp(1 - bounds.low, 1 + bounds.high)
    return weight * tokens.advantages * tokens.logprobs, weight != ratio


def _clip(
    ratio: torch.Tensor, advantages: torch.Tensor, bounds: Bounds
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        clipped_surrogate(ratio, advantages, bounds.low, bounds.high),
        is_clipped(ratio, advantages, bounds.low, bounds.high),
    )


SURROGATES: dict[str, Surrogate] = {
    "policy_gradient": policy_gradient,
    "ratio": ratio_times_advantage,
    "clip": clip,
    "dual_clip": dual_clip,
    "sequence_clip": sequence_clip,
    "cispo": cispo,
}
"""The surrogate [B, T], to be maximised, and where a bound was at work, bool [B, T]."""


@dataclass(frozen=True)
class Totals:
    """The denominators of one optimizer step, over all its micro-batches."""

    tokens: int
    responses: int
    max_tokens: int
    """The longest response that was allowed."""


def token_mean(mask: torch.Tensor, totals: Totals) -> torch.Tensor:
    """1 / sum_i |o_i|: every token of the optimizer step counts alike. DAPO, eq. 12."""
    return mask / totals.tokens


def sequence_mean(mask: torch.Tensor, totals: Totals) -> torch.Tensor:
    """1 / (B |o_i|): every response of the optimizer step counts alike. GRPO, eq. 3."""
    return mask / (totals.responses * mask.sum(-1, keepdim=True).clamp_min(1))


def sequence_sum(mask: torch.Tensor, totals: Totals) -> torch.Tensor:
    """1 / B: the mean over responses of the sum over their tokens, as in REINFORCE."""
    return mask / totals.responses


def constant_length(mask: torch.Tensor, totals: Totals) -> torch.Tensor:
    """1 / (B L) with the longest length L for all. Dr. GRPO, arXiv:2503.20783, section 3.2."""
    return mask / (totals.responses * totals.max_tokens)


AGGREGATIONS: dict[str, Callable[[torch.Tensor, Totals], torch.Tensor]] = {
    "token_mean": token_mean,
    "sequence_mean": sequence_mean,
    "sequence_sum": sequence_sum,
    "constant_length": constant_length,
}
"""Weights [B, T] whose sum with a per-token loss is that loss over the whole optimizer step.
`mask` is that of one micro-batch; responses without a token in it count nowhere."""


def truncated_weight(log_weight: torch.Tensor, cap: float) -> torch.Tensor:
    """min(w, cap), [B, T]. Truncated importance sampling, Yao et al. 2025."""
    return bounded(log_weight).exp().clamp_max(cap)


def masked_weight(log_weight: torch.Tensor, cap: float) -> torch.Tensor:
    """w where 1/cap <= w <= cap, else 0, [B, T]. IcePop, Ling team 2025."""
    weight = bounded(log_weight).exp()
    return torch.where((weight >= 1 / cap) & (weight <= cap), weight, 0.0)


SAMPLER_WEIGHTS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "off": lambda log_weight, cap: torch.ones_like(log_weight),
    "truncate": truncated_weight,
    "mask": masked_weight,
}
"""From log w = old_logprobs - rollout_logprobs to the weight of a token."""


def value_loss(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, clip: float | None
) -> torch.Tensor:
    """(V - R)^2, [B, T]; with a clip the larger of it and (V_old + clip(V - V_old) - R)^2.

    PPO, Schulman et al. 2017, and its reference implementation.
    """
    plain = (values - returns).square()
    if clip is None:
        return plain
    near = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(plain, (near - returns).square())


def explained_variance(values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor) -> float:
    """1 - Var(R - V) / Var(R) over the mask: 1 is perfect, 0 no better than a constant."""
    inside = mask.bool()
    variance = returns[inside].var(correction=0)
    if variance == 0:
        return 0.0
    return float(1 - (returns - values)[inside].var(correction=0) / variance)
