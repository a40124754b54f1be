"""Cut a batch into micro-batches: the rows of one forward pass each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import by_key
from rlvr_cli.model.packing import ModelInputs, pack, pad, send
from rlvr_cli.model.policy import Policy
from rlvr_cli.ranks.group import deal


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of a batch, laid out for one forward pass: b responses, the longest of t tokens."""

    samples: Samples
    rows: list[int]
    inputs: ModelInputs
    counts: int
    """0 for a pass that is only made because other processes make one."""
    is_last: bool
    """Whether none comes after it."""

    @property
    def mask(self) -> torch.Tensor:
        """Return the mask [b, t]: 1 for response tokens. It comes from lengths, never from ids."""
        return self.inputs.mask

    @property
    def tokens(self) -> int:
        """Return how many tokens the responses have."""
        return sum(len(self.samples.response_ids[row]) for row in self.rows)

    @property
    def is_fresh(self) -> torch.Tensor:
        """Return which rows the present weights sampled, bool [b, 1]."""
        return send(self.samples.is_fresh[self.rows, None], self.mask.device)

    def column(self, name: str) -> torch.Tensor:
        """Return a column of these rows, [b, t], in the mask's type."""
        column = self.samples.column(name)[self.rows, : self.mask.shape[1]]
        return send(column.to(self.mask.dtype), self.mask.device)


def micro_batches(
    policy: Policy, samples: Samples, rows: Sequence[int], micro_tokens: int
) -> Iterator[MicroBatch]:
    """Cut rows of a batch into forward passes of at most `micro_tokens` tokens (at least one row),
    as the policy computes them: packed or padded.

    Packed, responses to one prompt stay together, for the prompt is passed once for all of them;
    responses of like length stay together, for attention pads to the longest. Padded, each row
    counts its prompt and its padding. Of several processes each gets as many as the others.
    """
    cut, lay_out = (_packed_parts, pack) if policy.chosen_forward.packed else (_padded_parts, pad)
    parts = deal(list(cut(samples, rows, micro_tokens)))
    for number, (part, counts) in enumerate(parts, 1):
        prompts = [samples.prompt_ids[row] for row in part]
        responses = [samples.response_ids[row] for row in part]
        inputs = lay_out(prompts, responses, policy.device, policy.sum_dtype)
        yield MicroBatch(samples, part, inputs, counts, is_last=number == len(parts))


def _packed_parts(samples: Samples, rows: Sequence[int], micro_tokens: int) -> Iterator[list[int]]:
    length = [len(response) for response in samples.response_ids]
    by_length = sorted(rows, key=lambda row: length[row])
    groups = by_key(by_length, lambda row: tuple(samples.prompt_ids[row]))
    part: list[int] = []
    tokens = 0
    for prompt, group in sorted(groups.items(), key=lambda item: length[item[1][-1]]):
        tokens += len(prompt)
        for row in group:
            if part and tokens + length[row] > micro_tokens:
                yield part
                part, tokens = [], len(prompt)
            part.append(row)
            tokens += length[row]
    if part:
        yield part


def _padded_parts(samples: Samples, rows: Sequence[int], micro_tokens: int) -> Iterator[list[int]]:
    length = [prompt + response for prompt, response in samples.lengths]
    part: list[int] = []
    for row in sorted(rows, key=lambda row: length[row]):
        if part and (len(part) + 1) * length[row] > micro_tokens:
            yield part
            part = []
        part.append(row)
    if part:
        yield part
