"""Rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.rows import Row
from rlvr_cli.model.packing import ModelInputs, pack, pad


@dataclass(frozen=True)
class MicroBatch:
    """Rows for one forward pass. Masks come from lengths, never from token ids."""

    rows: Sequence[Row]
    inputs: ModelInputs

    @property
    def mask(self) -> torch.Tensor:
        """[B, T]: 1 for the tokens of the response, its end token among them."""
        return self.inputs.mask

    def column(self, name: str) -> torch.Tensor:
        """The rows' tensors of this name as [B, T]; 0 in the padding and where a row has none."""
        out = torch.zeros_like(self.mask)
        for target, row in zip(out, self.rows, strict=True):
            value = getattr(row, name)
            if value is not None:
                target[: len(value)] = value
        return out


def micro_batches(
    rows: Sequence[Row], micro_tokens: int, like: torch.Tensor, packed: bool = True
) -> Iterator[MicroBatch]:
    """Cut the rows into forward passes of at most `micro_tokens` tokens (but at least one row).

    Packed, responses to one prompt stay together, for the prompt is passed once for all of them;
    responses of like length stay together, for attention pads to the longest. Not packed, each row
    counts its prompt and its padding. Device and number type are those of `like`, a parameter of
    the model.
    """
    cut = _packed_parts if packed else _padded_parts
    lay_out = pack if packed else pad
    for part in cut(rows, micro_tokens):
        prompts, responses = zip(*((row.prompt_ids, row.response_ids) for row in part), strict=True)
        yield MicroBatch(rows=part, inputs=lay_out(prompts, responses, like))


def _packed_parts(rows: Sequence[Row], micro_tokens: int) -> Iterator[list[Row]]:
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: len(row.response_ids)):
        groups.setdefault(tuple(row.prompt_ids), []).append(row)
    part: list[Row] = []
    tokens = 0
    for prompt, group in sorted(groups.items(), key=lambda item: len(item[1][-1].response_ids)):
        tokens += len(prompt)
        for row in group:
            if part and tokens + len(row.response_ids) > micro_tokens:
                yield part
                part, tokens = [], len(prompt)
            part.append(row)
            tokens += len(row.response_ids)
    if part:
        yield part


def _padded_parts(rows: Sequence[Row], micro_tokens: int) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in sorted(rows, key=_tokens):
        if part and (len(part) + 1) * _tokens(row) > micro_tokens:
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _tokens(row: Row) -> int:
    return len(row.prompt_ids) + len(row.response_ids)
