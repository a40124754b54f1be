"""Sample one token per row, each with a random number that depends on its own row only, and collect
the tokens until a group is finished."""

import math
from collections.abc import Iterator

import torch

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.base import Listener

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX = (-4658895280553007687, -7723592293110705685)  # splitmix64's two multipliers
_CACHED = 1 << 19
"""Probabilities that a CPU works on at once: 64 rows of 151,936 take 276 ms, by 3 of them 52."""


def uniform(seeds_B: torch.Tensor, step: int) -> torch.Tensor:
    """Return number `step` of each seed's stream, float64 [B] in [0, 1): splitmix64 (2014)."""
    z = seeds_B + (step + 1) * torch.tensor(_GOLDEN, device=seeds_B.device)
    for shift, multiplier in zip((30, 27), _MIX, strict=True):
        z = (z ^ _shifted_right(z, shift)) * multiplier
    z = z ^ _shifted_right(z, 31)
    return _shifted_right(z, 11).double() * 2.0**-53


def sample(
    logits_BV: torch.Tensor, uniform_B: torch.Tensor, temperature: float, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids [B] and their log-probabilities [B] under the sampling distribution.

    The inverse of the cumulative distribution at `uniform_B`; temperature 0 takes the likeliest
    token, with log-probability 0. Top-p keeps the smallest set of likeliest tokens whose mass
    reaches `top_p` and renormalizes (Holtzman et al. 2020).
    """
    if temperature == 0:
        token_B = logits_BV.argmax(-1)
        return token_B, logits_BV.amax(-1).isfinite().float().log()  # 0, or -inf for no numbers
    rows = len(logits_BV) if logits_BV.is_cuda else max(1, _CACHED // logits_BV.shape[-1])
    if rows < len(logits_BV):
        parts = zip(logits_BV.split(rows), uniform_B.split(rows), strict=True)
        drawn = [sample(*part, temperature, top_p) for part in parts]
        tokens, logprobs = zip(*drawn, strict=True)
        return torch.cat(tokens), torch.cat(logprobs)
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperature, -1)
    if top_p < 1:
        logprobs_BV = _nucleus(logprobs_BV, top_p)
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    total_B1 = cumulative_BV[:, -1:].contiguous()
    last_B1 = torch.searchsorted(cumulative_BV, total_B1)  # the last of any probability
    token_B1 = torch.searchsorted(cumulative_BV, uniform_B[:, None] * total_B1, right=True)
    token_B1 = token_B1.minimum(last_B1)
    token_B1 = token_B1.clamp_max(logits_BV.shape[-1] - 1)  # where nothing is a number
    return token_B1[:, 0], logprobs_BV.gather(-1, token_B1)[:, 0]


def _nucleus(logprobs_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    sorted_BV, order_BV = logprobs_BV.sort(-1, descending=True)
    mass_before_BV = sorted_BV.exp().cumsum(-1) - sorted_BV.exp()
    sorted_BV = sorted_BV.masked_fill(mass_before_BV >= top_p, -torch.inf)
    kept_BV = torch.empty_like(sorted_BV).scatter_(-1, order_BV, sorted_BV)
    return torch.log_softmax(kept_BV, -1)


def _shifted_right(z: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift int64 right logically (not arithmetically)."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


class Drawn:
    """Collects the tokens of each row and the groups that are finished."""

    def __init__(
        self, P: int, params: SamplingParams, stop_ids: set[int], listener: Listener | None
    ) -> None:
        self.samples, self.max_tokens = params.samples, params.max_tokens
        self.stop_ids, self.listener = stop_ids, listener
        self.token_ids: list[list[int]] = [[] for _ in range(P * self.samples)]
        self.logprobs: list[list[float]] = [[] for _ in range(P * self.samples)]
        self.unfinished = [self.samples] * P

    def add(
        self, row_B: torch.Tensor, token_B: torch.Tensor, logprob_B: torch.Tensor
    ) -> Iterator[tuple[int, list[Completion]]]:
        """Append one token to each of these rows; yield the groups that it finishes. Raises
        UserError for a log-probability that is not finite."""
        logprobs = logprob_B.tolist()
        if not all(map(math.isfinite, logprobs)):
            raise UserError("the model gives probabilities that are not finite")
        for row, token, logprob in zip(row_B.tolist(), token_B.tolist(), logprobs, strict=True):
            self.token_ids[row].append(token)
            self.logprobs[row].append(logprob)
            if self.listener is not None:
                self.listener(token)
            if token in self.stop_ids or len(self.token_ids[row]) == self.max_tokens:
                p = row // self.samples
                self.unfinished[p] -= 1
                if not self.unfinished[p]:
                    rows = slice(p * self.samples, (p + 1) * self.samples)
                    pairs = zip(self.token_ids[rows], self.logprobs[rows], strict=True)
                    group = [
                        Completion(ids, values, "stop" if ids[-1] in self.stop_ids else "length")
                        for ids, values in pairs
                    ]
                    yield p, group
