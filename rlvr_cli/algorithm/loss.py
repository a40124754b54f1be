"""Compute the loss of one micro-batch as the algorithm defines it: pure functions on [B, T]."""

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import KL, Critic
from rlvr_cli.algorithm.kl import ESTIMATORS, k1
from rlvr_cli.algorithm.objective import (
    AGGREGATIONS,
    IMPORTANCE_CORRECTIONS,
    SURROGATES,
    LossDenominators,
    LossInputs,
    token_mean,
    value_loss,
)


def policy_loss(
    algo: Algorithm, inputs: LossInputs, denominators: LossDenominators, kl_coef: float
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Compute the micro-batch's share of the step's policy loss, and per-token metrics [B, T]."""
    mask, old_logprobs = inputs.mask, inputs.old_logprobs
    surrogate, clipped = SURROGATES[algo.surrogate.kind](inputs, **algo.surrogate.cells)
    if correction := algo.importance_correction:
        log_weight = old_logprobs - inputs.rollout_logprobs
        weight = IMPORTANCE_CORRECTIONS[correction.kind](log_weight, **correction.cells)
        surrogate = weight.detach() * surrogate
    token_loss = -surrogate - algo.entropy_coef * inputs.entropy
    per_token = {
        "entropy": inputs.entropy.detach(),
        "approx_kl": k1(old_logprobs, inputs.logprobs).detach(),
        "clip_fraction": clipped.to(mask),
    }
    if algo.kl is not None:
        divergence = _divergence(algo.kl, inputs)
        if algo.kl.place == "loss":
            token_loss = token_loss + kl_coef * divergence
        per_token["ref_kl"] = divergence.detach()
    weights = AGGREGATIONS[algo.aggregation](mask, denominators)
    return (weights * token_loss).sum(), per_token


def critic_loss(
    critic: Critic,
    values: torch.Tensor,
    old_values: torch.Tensor,
    returns: torch.Tensor,
    mask: torch.Tensor,
    denominators: LossDenominators,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the micro-batch's share of coef times the mean value loss, and that loss [B, T]."""
    per_token = value_loss(values, old_values, returns, critic.clip)
    return critic.coef * (token_mean(mask, denominators) * per_token).sum(), per_token.detach()


def _divergence(kl: KL, inputs: LossInputs) -> torch.Tensor:
    """Estimate KL(pi|reference) or, with the sampling policy as reference, KL(old|pi), since the
    samples are the old policy's (PPO's penalty form)."""
    estimate = ESTIMATORS[kl.kind]
    if kl.reference.kind == "old":
        return estimate(inputs.old_logprobs, inputs.logprobs)
    sampled = inputs.logprobs if kl.place == "loss" else inputs.old_logprobs
    return estimate(sampled, inputs.ref_logprobs)
