"""The objectives, each with its equation: pure functions on tensors [B, T].

Nothing here is a mean of means: aggregations take the denominators of the whole optimizer step.
Formulas call the methods of tensors, since the kinds are listed without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import Field

from rlvr_cli.algorithm.kinds import CustomSurrogate, Surrogate
from rlvr_cli.algorithm.kl import bounded_log_ratio
from rlvr_cli.core.settings import CUSTOM, register

if TYPE_CHECKING:
    from torch import Tensor


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """Compute r_t = exp(logprobs - old_logprobs), [B, T], with the exponent within +-20."""
    return bounded_log_ratio(logprobs - old_logprobs).exp()


def response_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum the values over each response, [B, 1]: of log-ratios, the log of their product."""
    return (values * mask).sum(1, keepdim=True)


def sequence_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Compute s = exp(mean over t of (logprobs - old_logprobs)), [B, T], one for a response.

    GSPO, Zheng et al. 2025, arXiv:2507.18071, eq. 7.
    """
    mean = response_sum(logprobs - old_logprobs, mask) / mask.sum(1, keepdim=True).clamp_min(1)
    return bounded_log_ratio(mean).exp().expand_as(logprobs)


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """Compute min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t), [B, T], to be maximized.

    PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7. Separate bounds: DAPO, Yu et al. 2025,
    arXiv:2503.14476, eq. 8.
    """
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return (ratio * advantages).minimum(clipped * advantages)


def is_beyond(values: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Return where values are above `high` with A > 0, or below `low` with A < 0, bool [B, T]."""
    return ((values > high) & (advantages > 0)) | ((values < low) & (advantages < 0))


@dataclass(frozen=True)
class LossInputs:
    """The inputs of the policy loss, all [B, T]."""

    logprobs: Tensor
    entropy: Tensor
    old_logprobs: Tensor
    """Those of the policy that sampled, computed by the trainer."""
    rollout_logprobs: Tensor
    """Those of the policy that sampled, computed by the engine."""
    ref_logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    is_right: Tensor
    """1 for the tokens of right responses."""

    @property
    def ratio(self) -> Tensor:
        return importance_ratio(self.logprobs, self.old_logprobs)

    @property
    def no_token(self) -> Tensor:
        """Return False for every token: where a surrogate without a bound reaches one."""
        return self.mask.new_zeros(self.mask.shape).bool()


Objective: TypeAlias = "tuple[Tensor, Tensor]"
"""A surrogate [B, T], to be maximized, and where a bound was reached, bool [B, T]."""
SURROGATES: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {}
"""From LossInputs and the fields of the kind to an `Objective`."""


class Unclipped(Surrogate):
    kind: Literal["policy_gradient", "ratio"]


@register(SURROGATES, Unclipped, "policy_gradient")
def policy_gradient(inputs: LossInputs) -> Objective:
    """Compute L_t = A_t log pi_t. REINFORCE, Williams 1992."""
    return inputs.logprobs * inputs.advantages, inputs.no_token


@register(SURROGATES, Unclipped, "ratio")
def ratio_times_advantage(inputs: LossInputs) -> Objective:
    """Compute L_t = r_t A_t. The unclipped objective of PPO, arXiv:1707.06347, eq. 6."""
    return inputs.ratio * inputs.advantages, inputs.no_token


class _Clipping(Surrogate):
    low: float = Field(0.2, ge=0, le=1)
    """Lower clip: the ratio is clipped at 1 - low."""
    high: float = Field(0.2, ge=0)
    """Upper clip: the ratio is clipped at 1 + high."""


class Clip(_Clipping):
    kind: Literal["clip"] = "clip"


@register(SURROGATES, Clip)
def clip(inputs: LossInputs, low: float, high: float) -> Objective:
    """Compute `clipped_surrogate` of each token's ratio."""
    return _clip(inputs.ratio, inputs.advantages, low, high)


class DualClip(_Clipping):
    kind: Literal["dual_clip"] = "dual_clip"
    dual: float = Field(3.0, gt=1)
    """Third clip: for A < 0 the surrogate is at least this times A."""


@register(SURROGATES, DualClip)
def dual_clip(inputs: LossInputs, low: float, high: float, dual: float) -> Objective:
    """Compute the clipped surrogate, at least c A_t where A_t < 0. Ye 2020, arXiv:1912.09729."""
    surrogate, clipped = clip(inputs, low, high)
    floor = dual * inputs.advantages
    capped = (inputs.advantages < 0) & (surrogate < floor)
    return floor.where(capped, surrogate), clipped | capped


class Dppo(Surrogate):
    kind: Literal["dppo"] = "dppo"
    low: float = Field(0.2, ge=0, le=1)
    """Largest fall of a token's probability, beyond which A < 0 has no gradient."""
    high: float = Field(0.2, ge=0, le=1)
    """Largest rise of a token's probability, beyond which A > 0 has no gradient."""


@register(SURROGATES, Dppo)
def dppo(inputs: LossInputs, low: float, high: float) -> Objective:
    """Compute L_t = r_t A_t, and 0 where A_t > 0 and pi_t - old_t > high, or A_t < 0 and
    old_t - pi_t > low. Rare tokens move freely, and likely ones cannot lurch.

    DPPO, 2026, arXiv:2602.04879, by the probability of the sampled token. Its old policy is the
    engine's (`algorithm.old_logprobs`).
    """
    rise = inputs.logprobs.exp() - inputs.old_logprobs.exp()
    masked = is_beyond(rise, inputs.advantages, -low, high)
    return (inputs.ratio * inputs.advantages).masked_fill(masked, 0.0), masked


class SequenceClip(_Clipping):
    has_response_ratio: ClassVar[bool] = True
    kind: Literal["sequence_clip"] = "sequence_clip"
    low: float = Field(3e-4, ge=0, le=1)
    high: float = Field(4e-4, ge=0)


@register(SURROGATES, SequenceClip)
def sequence_clip(inputs: LossInputs, low: float, high: float) -> Objective:
    """Compute `clipped_surrogate` of the response's ratio. GSPO, arXiv:2507.18071, eq. 5."""
    ratio = sequence_ratio(inputs.logprobs, inputs.old_logprobs, inputs.mask)
    return _clip(ratio, inputs.advantages, low, high)


class Cispo(_Clipping):
    kind: Literal["cispo"] = "cispo"
    low: float = Field(1.0, ge=0, le=1)
    high: float = Field(4.0, ge=0)


@register(SURROGATES, Cispo)
def cispo(inputs: LossInputs, low: float, high: float) -> Objective:
    """Compute L_t = stop_gradient(clip(r_t)) A_t log pi_t: every token keeps a gradient.

    CISPO, MiniMax 2025, arXiv:2506.13585, eq. 4. The second result is where the weight was clipped.
    """
    ratio = inputs.ratio.detach()
    weight = ratio.clamp(1 - low, 1 + high)
    return weight * inputs.advantages * inputs.logprobs, weight != ratio


class Sapo(Surrogate):
    kind: Literal["sapo"] = "sapo"
    tau_pos: float = Field(1.0, gt=0)
    """Temperature of the gate where A > 0: the higher it is, the faster the gate closes."""
    tau_neg: float = Field(1.05, gt=0)
    """Temperature of the gate elsewhere."""


@register(SURROGATES, Sapo)
def sapo(inputs: LossInputs, tau_pos: float, tau_neg: float) -> Objective:
    """Compute L_t = 4/tau sigmoid(tau (r_t - 1)) A_t, with tau_pos where A_t > 0, else tau_neg.

    SAPO, Gao et al. 2025, arXiv:2511.20347. It has no bound, and at r = 1 the gradient of r A.
    """
    tau = tau_neg + (tau_pos - tau_neg) * (inputs.advantages > 0).to(inputs.mask)
    gate = 4 / tau * (tau * (inputs.ratio - 1)).sigmoid()
    return gate * inputs.advantages, inputs.no_token


class Vespo(Surrogate):
    has_response_ratio: ClassVar[bool] = True
    kind: Literal["vespo"] = "vespo"
    k_pos: float = Field(2.0, ge=0)
    """Power of the weight where A >= 0."""
    lam_pos: float = Field(3.0, gt=0)
    """Rate at which the weight decays where A >= 0."""
    k_neg: float = Field(3.0, ge=0)
    """Power of the weight where A < 0."""
    lam_neg: float = Field(2.0, gt=0)
    """Rate at which the weight decays where A < 0."""


@register(SURROGATES, Vespo)
def vespo(
    inputs: LossInputs, k_pos: float, lam_pos: float, k_neg: float, lam_neg: float
) -> Objective:
    """Compute L_t = stop_gradient(W^k exp(lam (1 - W))) A log pi_t, W = prod_t r_t of the response,
    with k_pos and lam_pos where A >= 0, else k_neg and lam_neg.

    VESPO, 2026, arXiv:2602.10693, and its authors' code. It has no bound, and weight 1 at W = 1.
    """
    log_weight = bounded_log_ratio(
        response_sum(inputs.logprobs - inputs.old_logprobs, inputs.mask)
    ).detach()
    positive = (inputs.advantages >= 0).to(inputs.mask)
    k = k_neg + (k_pos - k_neg) * positive
    lam = lam_neg + (lam_pos - lam_neg) * positive
    weight = (k * log_weight + lam * (1 - log_weight.exp())).exp()
    return weight * inputs.advantages * inputs.logprobs, inputs.no_token


class Gmpo(Surrogate):
    has_response_ratio: ClassVar[bool] = True
    kind: Literal["gmpo"] = "gmpo"
    low: float = Field(0.4, ge=0)
    """Lower clip of a token's ratio, exp(-low)."""
    high: float = Field(0.4, ge=0)
    """Upper clip of a token's ratio, exp(high)."""


@register(SURROGATES, Gmpo)
def gmpo(inputs: LossInputs, low: float, high: float) -> Objective:
    """Compute L = (prod_t clipped r_t)^(1/|o|) A for a whole response, [B, T] equal for its tokens:
    r_t at most exp(high) where A > 0, at least exp(-low) where A < 0.

    GMPO, Zhao et al. 2025, arXiv:2507.20673, eq. 4, in log space.
    """
    log_ratio = inputs.logprobs - inputs.old_logprobs
    sign = inputs.advantages.sign()
    clipped = sign * (sign * log_ratio).minimum(sign * log_ratio.clamp(-low, high))
    ratio = sequence_ratio(clipped, clipped.new_zeros(clipped.shape), inputs.mask)
    return ratio * inputs.advantages, is_beyond(log_ratio, inputs.advantages, -low, high)


def _clip(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Objective:
    surrogate = clipped_surrogate(ratio, advantages, low, high)
    return surrogate, is_beyond(ratio, advantages, 1 - low, 1 + high)


Surrogate.registered[CUSTOM] = CustomSurrogate


@dataclass(frozen=True)
class LossDenominators:
    """The denominators of one optimizer step, over all its micro-batches."""

    tokens: int
    responses: int
    max_tokens: int
    """The longest response that was allowed."""
    right_tokens: int = 0


AGGREGATIONS: dict[str, Callable[..., Tensor]] = {}
"""Weights [B, T] whose sum with a per-token loss is that loss over the whole optimizer step.
`mask` is that of one micro-batch, and responses without a token in it do not count."""


@register(AGGREGATIONS)
def token_mean(mask: Tensor, denominators: LossDenominators) -> Tensor:
    """Weigh by 1 / sum_i |o_i|: every token of the optimizer step counts alike. DAPO, eq. 12."""
    return mask / denominators.tokens


@register(AGGREGATIONS)
def sequence_mean(mask: Tensor, denominators: LossDenominators) -> Tensor:
    """Weigh by 1 / (B |o_i|): every response of the optimizer step counts alike. GRPO, eq. 3."""
    return mask / (denominators.responses * mask.sum(-1, keepdim=True).clamp_min(1))


@register(AGGREGATIONS)
def sequence_sum(mask: Tensor, denominators: LossDenominators) -> Tensor:
    """Weigh by 1 / B: the mean over responses of the sum over tokens, as in REINFORCE. For
    a response's ratio it is |o_i| times the surrogate, as in LUSPO, Liu et al. 2026,
    arXiv:2602.05261."""
    return mask / denominators.responses


@register(AGGREGATIONS)
def constant_length(mask: Tensor, denominators: LossDenominators) -> Tensor:
    """Weigh by 1 / (B L), L the longest length for all. Dr. GRPO, arXiv:2503.20783, section 3.2."""
    return mask / (denominators.responses * denominators.max_tokens)


def truncated_weight(log_weight: Tensor, mask: Tensor, cap: float) -> Tensor:
    """Compute min(w_t, cap), [B, T]. Truncated importance sampling, Yao et al. 2025."""
    return bounded_log_ratio(log_weight).exp().clamp_max(cap)


def masked_weight(log_weight: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Compute w_t where low <= w_t <= high, else 0, [B, T]. IcePop, Ling team 2025,
    arXiv:2510.18855 (0.5 and 5)."""
    weight = bounded_log_ratio(log_weight).exp()
    return weight.masked_fill((weight < low) | (weight > high), 0.0)


def sequence_truncated_weight(log_weight: Tensor, mask: Tensor, cap: float) -> Tensor:
    """Compute min(W, cap), [B, T], with W = prod_t w_t, one for a response."""
    return truncated_weight(response_sum(log_weight, mask).expand_as(log_weight), mask, cap)


def sequence_masked_weight(log_weight: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Compute W where low <= W <= high, else 0, [B, T], with W = prod_t w_t, one for a response."""
    return masked_weight(response_sum(log_weight, mask).expand_as(log_weight), mask, low, high)


def geometric_mask(log_weight: Tensor, mask: Tensor, low: float, high: float) -> Tensor:
    """Compute 1 where low <= exp(mean over t of log w_t) <= high, else 0, [B, T] equal in t."""
    mean = sequence_ratio(log_weight, log_weight.new_zeros(log_weight.shape), mask)
    return ((mean >= low) & (mean <= high)).to(mask)


IMPORTANCE_CORRECTIONS: dict[str, Callable[..., Tensor]] = {
    "truncate": truncated_weight,
    "mask": masked_weight,
    "sequence_truncate": sequence_truncated_weight,
    "sequence_mask": sequence_masked_weight,
    "geometric_mask": geometric_mask,
}
"""From log w = old_logprobs - rollout_logprobs, the mask and the fields of the kind to the weights
of tokens [B, T]. Those of a rejected response are 0."""


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """Compute (V - R)^2, with a clip the larger of it and (V_old + clip(V - V_old) - R)^2, [B, T].

    PPO, Schulman et al. 2017, and its reference implementation.
    """
    error = (values - returns).square()
    if clip is None:
        return error
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return error.maximum((clipped - returns).square())


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """Compute 1 - Var(R - V) / Var(R) over the mask: 1 is perfect, 0 no better than a constant."""
    in_mask = mask.bool()
    variance = returns[in_mask].var(correction=0)
    if variance == 0:
        return 0.0
    return float(1 - (returns - values)[in_mask].var(correction=0) / variance)
