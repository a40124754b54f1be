"""From the cells of a row to the loss of one micro-batch: a pure function on tensors [B, T]."""

from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.kl import ESTIMATORS, k1
from rlvr_cli.algorithm.objective import (
    AGGREGATIONS,
    SAMPLER_WEIGHTS,
    SURROGATES,
    Bounds,
    Tokens,
    Totals,
    token_mean,
    value_loss,
)
from rlvr_cli.algorithm.presets import Algorithm


@dataclass(frozen=True)
class PolicyTokens:
    """What the policy's loss sees, all [B, T]."""

    logprobs: torch.Tensor
    entropy: torch.Tensor
    old_logprobs: torch.Tensor
    """Of the policy that sampled, as the trainer computes them."""
    rollout_logprobs: torch.Tensor
    """The same as the engine computed them."""
    ref_logprobs: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor


def policy_loss(
    cells: Algorithm, tokens: PolicyTokens, totals: Totals, kl_coef: float
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The micro-batch's share of the step's policy loss, and per-token metrics [B, T]."""
    mask, old_logprobs = tokens.mask, tokens.old_logprobs
    seen = Tokens(tokens.logprobs, old_logprobs, tokens.advantages, mask)
    bounds = Bounds(cells.clip_low, cells.clip_high, cells.dual_clip)
    surrogate, clipped = SURROGATES[cells.surrogate](seen, bounds)
    weight = SAMPLER_WEIGHTS[cells.sampler_weights](
        old_logprobs - tokens.rollout_logprobs, cells.sampler_cap
    )
    token_loss = -weight.detach() * surrogate - cells.entropy_coef * tokens.entropy
    per_token = {
        "entropy": tokens.entropy.detach(),
        "approx_kl": k1(old_logprobs, tokens.logprobs).detach(),
        "clip_fraction": clipped.to(mask),
    }
    if cells.kl != "none":
        divergence = _divergence(cells, tokens)
        if cells.kl_in == "loss":
            token_loss = token_loss + kl_coef * divergence
        per_token["ref_kl"] = divergence.detach()
    weights = AGGREGATIONS[cells.aggregation](mask, totals)
    return (weights * token_loss).sum(), per_token


def critic_loss(
    cells: Algorithm,
    values: torch.Tensor,
    old_values: torch.Tensor,
    returns: torch.Tensor,
    mask: torch.Tensor,
    totals: Totals,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The micro-batch's share of value_coef times the mean value loss, and that loss [B, T]."""
    per_token = value_loss(values, old_values, returns, cells.value_clip)
    return cells.value_coef * (token_mean(mask, totals) * per_token).sum(), per_token.detach()


def _divergence(cells: Algorithm, tokens: PolicyTokens) -> torch.Tensor:
    """KL(pi|reference); with the sampling policy as reference KL(old|pi), for the samples are old's
    (PPO's penalty form)."""
    estimate = ESTIMATORS[cells.kl]
    if cells.reference == "old":
        return estimate(tokens.old_logprobs, tokens.logprobs)
    sampled = tokens.logprobs if cells.kl_in == "loss" else tokens.old_logprobs
    return estimate(sampled, tokens.ref_logprobs)
