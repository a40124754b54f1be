"""Rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.rows import Row
from rlvr_cli.model.packing import Packed, pack


@dataclass(frozen=True)
class MicroBatch:
    """Rows for one forward pass. Masks come from lengths, never from token ids."""

    rows: Sequence[Row]
    packed: Packed
    mask: torch.Tensor
    """[B, T]: 1 for the tokens of the response, its end token among them."""

    def column(self, name: str) -> torch.Tensor:
        """The rows' tensors of this name as [B, T]; 0 in the padding and where a row has none."""
        out = torch.zeros_like(self.mask)
        for target, row in zip(out, self.rows, strict=True):
            value = getattr(row, name)
            if value is not None:
                target[: len(value)] = value
        return out


def micro_batches(
    rows: Sequence[Row], micro_tokens: int, like: torch.Tensor
) -> Iterator[MicroBatch]:
    """Cut the rows into forward passes of at most `micro_tokens` tokens (but at least one row).

    Responses to one prompt stay together, for the prompt is passed once for all of them; responses
    of like length stay together, for attention pads to the longest. Device and number type are
    those of `like`, a parameter of the model.
    """
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: len(row.response_ids)):
        groups.setdefault(tuple(row.prompt_ids), []).append(row)
    part: list[Row] = []
    tokens = 0
    for prompt, group in sorted(groups.items(), key=lambda item: len(item[1][-1].response_ids)):
        tokens += len(prompt)
        for row in group:
            if part and tokens + len(row.response_ids) > micro_tokens:
                yield _micro_batch(part, like)
                part, tokens = [], len(prompt)
            part.append(row)
            tokens += len(row.response_ids)
    if part:
        yield _micro_batch(part, like)


def _micro_batch(rows: Sequence[Row], like: torch.Tensor) -> MicroBatch:
    lengths = torch.tensor([len(row.response_ids) for row in rows])
    return MicroBatch(
        rows=rows,
        packed=pack([row.prompt_ids for row in rows], [row.response_ids for row in rows], like),
        mask=(torch.arange(int(lengths.max())) < lengths[:, None]).to(like),
    )
