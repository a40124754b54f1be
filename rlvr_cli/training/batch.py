"""Cut a batch into micro-batches: the rows of one forward pass each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

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
    weight: int
    """0 for a dummy pass that keeps this process in step with the others, else 1."""
    is_last: bool
    """Whether it is the last one of these rows."""

    @property
    def mask(self) -> Tensor:
        """Return the mask [b, t]: 1 for response tokens. It comes from lengths, never from ids."""
        return self.inputs.mask

    @property
    def tokens(self) -> int:
        """Return how many tokens the responses have."""
        return sum(len(self.samples.response_ids[row]) for row in self.rows)

    @property
    def is_fresh(self) -> Tensor:
        """Return which tokens are fresh, bool [b, t]."""
        return self._tokens(self.samples.is_fresh)

    @property
    def is_anchored(self) -> Tensor:
        """Return the tokens whose old log-probability is the trainer's, bool [b, t]."""
        return self._tokens(self.samples.anchored)

    def _tokens(self, column: Tensor) -> Tensor:
        return send(column[self.rows, : self.mask.shape[1]], self.mask.device)

    def column(self, name: str) -> Tensor:
        """Return a column of these rows, [b, t], in the mask's type."""
        column = self.samples.column(name)[self.rows, : self.mask.shape[1]]
        return send(column.to(self.mask.dtype), self.mask.device)


def micro_batches(
    policy: Policy, samples: Samples, rows: Sequence[int], micro_tokens: int
) -> Iterator[MicroBatch]:
    """Cut rows of a batch into forward passes of at most `micro_tokens` tokens (at least one row),
    as the policy computes them: packed or padded. Each process gets the same number of passes.

    If they are packed, responses to one prompt stay together, because the prompt is passed once for
    all of them. So do responses of similar length, because attention pads to the longest. If they
    are padded, each row counts its prompt and its padding.
    """
    is_packed = policy.chosen_forward.packed
    partition = _cut_packed if is_packed else _cut_padded
    lay_out = pack if is_packed else pad
    parts = deal(list(partition(samples, rows, micro_tokens)))
    for number, (part, weight) in enumerate(parts, 1):
        prompts = [samples.prompt_ids[row] for row in part]
        responses = [samples.response_ids[row] for row in part]
        inputs = lay_out(prompts, responses, policy.device, policy.sum_dtype)
        yield MicroBatch(samples, part, inputs, weight, is_last=number == len(parts))


def _cut_packed(samples: Samples, rows: Sequence[int], micro_tokens: int) -> Iterator[list[int]]:
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
                part = []
                tokens = len(prompt)
            part.append(row)
            tokens += length[row]
    if part:
        yield part


def _cut_padded(samples: Samples, rows: Sequence[int], micro_tokens: int) -> Iterator[list[int]]:
    length = [prompt + response for prompt, response in samples.lengths]
    part: list[int] = []
    for row in sorted(rows, key=lambda row: length[row]):
        if part and (len(part) + 1) * length[row] > micro_tokens:
            yield part
            part = []
        part.append(row)
    if part:
        yield part
