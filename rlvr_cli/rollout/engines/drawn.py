"""Collect the tokens that decoding has drawn so far, row by row, and the groups they finish."""

import math
from collections.abc import Iterator

import torch

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.base import Listener


class Drawn:
    """The tokens of each row so far."""

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
        finished = []
        for row, token, logprob in zip(row_B.tolist(), token_B.tolist(), logprobs, strict=True):
            self.token_ids[row].append(token)
            self.logprobs[row].append(logprob)
            p, sample = divmod(row, self.samples)
            if self.listener is not None:
                self.listener(p, sample, token)
            if token in self.stop_ids or len(self.token_ids[row]) == self.max_tokens:
                self.unfinished[p] -= 1
                if not self.unfinished[p]:
                    finished.append(p)
        for p in finished:
            yield p, self._completions(p)

    def _completions(self, p: int) -> list[Completion]:
        return [
            Completion(ids, logprobs, "stop" if ids[-1] in self.stop_ids else "length")
            for ids, logprobs in zip(
                self.token_ids[p * self.samples : (p + 1) * self.samples],
                self.logprobs[p * self.samples : (p + 1) * self.samples],
                strict=True,
            )
        ]
