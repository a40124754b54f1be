"""Sample one token per row, and collect the tokens until a group is finished.

The random number of a row depends on that row only.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.base import FinishedGroup, Listener, not_finite

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX = (-4658895280553007687, -7723592293110705685)  # splitmix64's two multipliers
_CACHED = 1 << 19
"""Probabilities that a CPU works on at once: 64 rows of 151,936 take 276 ms, 3 at a time 52 ms."""
_BLOCK = 512
"""Numbers in a block, whose sums are searched first. The largest vocabularies, of 262,144, have as
many blocks as a block has numbers."""
_NUCLEUS = 1024
"""Ids among which a nucleus is searched at first, and then among eight times as many."""


def uniform(seeds: Tensor, step: Tensor | int) -> Tensor:
    """Return number `step` of each seed's stream, float64 in [0, 1): splitmix64 (2014)."""
    z = seeds + (torch.as_tensor(step, device=seeds.device) + 1) * _GOLDEN
    for shift, multiplier in zip((30, 27), _MIX, strict=True):
        z = (z ^ _shifted_right(z, shift)) * multiplier
    z = z ^ _shifted_right(z, 31)
    return _shifted_right(z, 11).double() * 2.0**-53


def sample_tokens(
    logits_BV: Tensor, uniform_B: Tensor, temperature: float, top_p: float
) -> tuple[Tensor, Tensor]:
    """Return token ids [B] and their log-probabilities [B] under the sampling distribution.

    The token is the inverse of the cumulative distribution at `uniform_B`. Temperature 0 takes the
    likeliest token, with log-probability 0. Top-p keeps the smallest set of likeliest tokens whose
    mass reaches `top_p` and renormalizes (Holtzman et al. 2020). Of tokens that are equally likely
    it may take any.
    """
    if temperature == 0:
        token_B = logits_BV.argmax(-1)
        return token_B, logits_BV.amax(-1).isfinite().float().log()  # 0, or -inf for no numbers
    rows = len(logits_BV) if logits_BV.is_cuda else max(1, _CACHED // logits_BV.shape[-1])
    if rows < len(logits_BV):
        parts = zip(logits_BV.split(rows), uniform_B.split(rows), strict=True)
        sampled = [sample_tokens(logits, numbers, temperature, top_p) for logits, numbers in parts]
        tokens, logprobs = zip(*sampled, strict=True)
        return torch.cat(tokens), torch.cat(logprobs)
    scaled_BV = logits_BV.float()
    if temperature != 1:
        scaled_BV = scaled_BV / temperature
    logprobs_BV = torch.log_softmax(scaled_BV, -1)
    if top_p < 1:
        logprobs_BV = _nucleus(logprobs_BV, top_p)
    # A GPU would read its memory once more for numbers in float64. A CPU takes the token that the
    # exact sum gives.
    exact_BV = logprobs_BV if logits_BV.is_cuda else logprobs_BV.double()
    token_B1 = _search(exact_BV.exp(), uniform_B[:, None])
    return token_B1[:, 0], logprobs_BV.gather(-1, token_B1)[:, 0]


def _search(weights_BN: Tensor, share_B1: Tensor) -> Tensor:
    """Return the place [B, 1] where the running sum of the weights passes this share of their sum.

    It is never after the last weight above 0. Many weights are first added up by blocks.
    """
    N = weights_BN.shape[-1]
    if N > _BLOCK:
        end = N - N % _BLOCK
        full_blocks = weights_BN[:, :end].unflatten(-1, (-1, _BLOCK))
        blocks = (full_blocks, weights_BN[:, None, end:])
        sums_BK = torch.cat([block.sum(-1, dtype=torch.float64) for block in blocks], -1)
        block_B1 = _search(sums_BK, share_B1)
        running_BK = sums_BK.cumsum(-1)
        sum_B1 = sums_BK.gather(-1, block_B1)
        before_B1 = running_BK.gather(-1, block_B1) - sum_B1
        rest_B1 = (share_B1 * running_BK[:, -1:] - before_B1).clamp_min(0) / sum_B1
        place_BN = _BLOCK * block_B1 + torch.arange(_BLOCK, device=weights_BN.device)
        block_BN = weights_BN.gather(-1, place_BN.clamp_max(N - 1)).masked_fill(place_BN >= N, 0)
        return (_BLOCK * block_B1 + _search(block_BN, rest_B1)).clamp_max(N - 1)
    running_BN = weights_BN.cumsum(-1, dtype=torch.float64)
    total_B1 = running_BN[:, -1:].contiguous()
    last_B1 = torch.searchsorted(running_BN, total_B1)
    place_B1 = torch.searchsorted(running_BN, share_B1 * total_B1, right=True)
    return place_B1.minimum(last_B1).clamp_max(N - 1)  # if no weight is a number


def _nucleus(logprobs_BV: Tensor, top_p: float) -> Tensor:
    """Return the log-probabilities [B, V] within the nucleus, -inf outside of it."""
    V = logprobs_BV.shape[-1]
    count = _NUCLEUS
    while True:
        likeliest_BK, place_BK = logprobs_BV.topk(min(count, V))
        mass_BK = likeliest_BK.exp().cumsum(-1)
        if count >= V or bool((mass_BK[:, -1] >= top_p).all()):
            break
        count *= 8
    is_beyond_BK = mass_BK - likeliest_BK.exp() >= top_p
    nucleus_BK = likeliest_BK.masked_fill(is_beyond_BK, -torch.inf)
    nucleus_BV = torch.full_like(logprobs_BV, -torch.inf).scatter_(-1, place_BK, nucleus_BK)
    return torch.log_softmax(nucleus_BV, -1)


def _shifted_right(z: Tensor, bits: int) -> Tensor:
    """Shift int64 right logically (not arithmetically)."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


class TokenTransfer:
    """A step's tokens and log-probabilities on their way to the CPU, which goes on meanwhile."""

    def __init__(self, token_B: Tensor, logprob_B: Tensor) -> None:
        self.tokens = token_B.to("cpu", non_blocking=True)
        self.logprobs = logprob_B.to("cpu", non_blocking=True)
        self.arrival = torch.cuda.Event() if token_B.is_cuda else None
        if self.arrival is not None:
            self.arrival.record()

    def wait(self) -> tuple[list[int], list[float]]:
        """Return tokens and log-probabilities once they have arrived."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.tokens.tolist(), self.logprobs.tolist()


class TokenCollector:
    """Collects the tokens of each row, and the groups that are finished."""

    def __init__(
        self,
        P: int,
        params: SamplingParams,
        stop_ids: set[int],
        listener: Listener | None,
        precision: str = "float32",
        limits: Sequence[int] | None = None,
    ) -> None:
        self.precision = precision
        self.samples = params.samples
        self.limits = limits or [params.max_tokens] * (P * params.samples)
        """The most tokens of each row."""
        self.stop_ids = stop_ids
        self.listener = listener
        self.token_ids: list[list[int]] = [[] for _ in range(P * self.samples)]
        self.logprobs: list[list[float]] = [[] for _ in range(P * self.samples)]
        self.unfinished = [self.samples] * P
        self.ended: set[int] = set()
        """The rows that are finished."""

    def add(self, rows: Sequence[int], transfer: TokenTransfer) -> Iterator[FinishedGroup]:
        """Append a step's tokens to those of these rows that are not finished.

        Yield the groups that this finishes. Raises UserError for a log-probability that is not
        finite.
        """
        for row, token, logprob in zip(rows, *transfer.wait(), strict=True):
            if row in self.ended:
                continue
            if not math.isfinite(logprob):
                raise not_finite(self.precision)
            self.token_ids[row].append(token)
            self.logprobs[row].append(logprob)
            if self.listener is not None:
                self.listener(token)
            if token in self.stop_ids or len(self.token_ids[row]) == self.limits[row]:
                self.ended.add(row)
                p = row // self.samples
                self.unfinished[p] -= 1
                if not self.unfinished[p]:
                    rows_of_group = slice(p * self.samples, (p + 1) * self.samples)
                    pairs = zip(
                        self.token_ids[rows_of_group], self.logprobs[rows_of_group], strict=True
                    )
                    group = [
                        Completion(ids, values, "stop" if ids[-1] in self.stop_ids else "length")
                        for ids, values in pairs
                    ]
                    yield p, group
