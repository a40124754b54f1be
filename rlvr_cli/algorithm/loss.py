"""Compute the loss of one micro-batch as the algorithm defines it: pure functions on [B, T]."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import Correction, Critic, GeometricMask
from rlvr_cli.algorithm.kl import ESTIMATORS, KL, k1
from rlvr_cli.algorithm.objective import (
    AGGREGATIONS,
    IMPORTANCE_CORRECTIONS,
    SURROGATES,
    LossDenominators,
    LossInputs,
    token_mean,
    value_loss,
)
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import TIE


@dataclass(frozen=True)
class TokenFigures:
    """What is measured of each token [B, T]. None is what an algorithm does not have."""

    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    """1 where the ratio is bounded."""
    clip_fraction_low: Tensor
    clip_fraction_high: Tensor
    ref_kl: Tensor | None
    value_loss: Tensor | None = None
    mismatch: Tensor | None = None
    """|engine - trainer| log-probability, 0 where older weights sampled."""


def policy_loss(
    algo: Algorithm, inputs: LossInputs, denominators: LossDenominators, kl_coef: float
) -> tuple[Tensor, TokenFigures]:
    """Compute the micro-batch's share of the step's policy loss, and the figures of its tokens."""
    mask = inputs.mask
    old_logprobs = inputs.old_logprobs
    surrogate, clipped = SURROGATES[algo.surrogate.component](inputs, **algo.surrogate.fields)
    if algo.correction is not None:
        log_weight = old_logprobs - inputs.rollout_logprobs
        surrogate = corrected(algo.correction, log_weight, mask).detach() * surrogate
    token_loss = -surrogate - algo.entropy_coef * inputs.entropy
    # A bound on a response is reached on the side of its advantage, one on a token of its ratio.
    is_above = inputs.ratio > 1
    if algo.surrogate.has_response_ratio:
        is_above = inputs.advantages > 0
    divergence = None
    if algo.kl is not None:
        divergence = _reference_divergence(algo.kl, inputs)
        if algo.kl.place == "loss":
            token_loss = token_loss + kl_coef * divergence
    weights = AGGREGATIONS[algo.aggregation](mask, denominators, **algo.aggregation_settings)
    loss = (weights * token_loss).sum()
    if algo.positive_nll > 0:  # VAPO, Yue et al. 2025, arXiv:2504.05118, section 4.3
        nll = -(inputs.logprobs * inputs.is_right * mask).sum() / max(1, denominators.right_tokens)
        loss = loss + algo.positive_nll * nll
    return loss, TokenFigures(
        entropy=inputs.entropy.detach(),
        approx_kl=k1(old_logprobs, inputs.logprobs).detach(),
        clip_fraction=clipped.to(mask),
        clip_fraction_low=(clipped & ~is_above).to(mask),
        clip_fraction_high=(clipped & is_above).to(mask),
        ref_kl=None if divergence is None else divergence.detach(),
    )


def corrected(correction: Correction, log_weight: Tensor, mask: Tensor) -> Tensor:
    """Compute the weights of a correction [B, T]: those of a mask times its `weight`, if any."""
    weight = IMPORTANCE_CORRECTIONS[correction.kind](log_weight, mask, **correction.fields)
    if isinstance(correction, GeometricMask) and correction.weight is not None:
        weight = weight * corrected(correction.weight, log_weight, mask)
    return weight


def rejected(samples: Samples, algo: Algorithm) -> Tensor | None:
    """Return which responses the correction rejects, bool [B]. Return None if it never rejects."""
    correction = algo.correction
    if correction is None or not correction.rejects:
        return None
    log_weight = samples.column("old_logprobs") - samples.column("rollout_logprobs")
    weight = IMPORTANCE_CORRECTIONS[correction.kind](log_weight, samples.mask, **correction.fields)
    return weight[:, 0] == 0


def has_gradient(samples: Samples, algo: Algorithm) -> Tensor:
    """Return which responses have a part in the gradient, bool [B]: all, or those with an advantage
    other than 0 if nothing else in the loss reads them. Equal rewards round to 1e-10 of 0."""
    if samples.advantages is None or not algo.learns_by_advantage_alone:
        return torch.ones(len(samples), dtype=torch.bool)
    return (samples.advantages.abs() > TIE).any(1)


def critic_loss(
    critic: Critic,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    denominators: LossDenominators,
) -> tuple[Tensor, Tensor]:
    """Compute the micro-batch's share of coef times the mean value loss, and that loss [B, T]."""
    per_token = value_loss(values, old_values, returns, critic.clip)
    return critic.coef * (token_mean(mask, denominators) * per_token).sum(), per_token.detach()


def _reference_divergence(kl: KL, inputs: LossInputs) -> Tensor:
    """Estimate KL(pi|reference) or, with the sampling policy as reference, KL(old|pi), since the
    samples are the old policy's (PPO's penalty form)."""
    estimate = partial(ESTIMATORS[kl.component], **kl.settings)
    if kl.reference.kind == "old":
        return estimate(inputs.old_logprobs, inputs.logprobs)
    sampled = inputs.logprobs if kl.place == "loss" else inputs.old_logprobs
    return estimate(sampled, inputs.ref_logprobs)
