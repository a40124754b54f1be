"""Groups to rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.presets import Algorithm
from rlvr_cli.algorithm.reward import overlong_penalty
from rlvr_cli.core.types import Group
from rlvr_cli.model.packing import Packed, pack


@dataclass(frozen=True)
class Row:
    """One response to train on; tensors are [T], None where the algorithm has no use for them."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logprobs: torch.Tensor
    reward: float
    """Of the whole response, shaped by its length if so asked."""
    group: int
    """Equal numbers for responses to one prompt that were sampled together."""
    is_fresh: bool
    """Sampled by the weights as they are at the start of this step, not carried over."""
    is_cut_off: bool
    old_logprobs: torch.Tensor | None = None
    """None for a fresh row that trains once: the policy's own at that moment."""
    ref_logprobs: torch.Tensor | None = None
    old_values: torch.Tensor | None = None
    end_value: float = 0.0
    """V after the last token."""
    advantages: torch.Tensor | None = None
    returns: torch.Tensor | None = None


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


def group_rows(
    groups: Sequence[Group], algorithm: Algorithm, max_tokens: int, weight_version: int
) -> list[Row]:
    """The judged responses of the groups, rewards shaped by length if so asked."""
    rows = []
    for number, group in enumerate(groups):
        for rollout in group.judged:
            completion = rollout.completion
            reward = rollout.reward or 0.0
            if algorithm.overlong == "soft":
                n_tokens = len(completion.token_ids)
                reward += overlong_penalty(n_tokens, max_tokens, algorithm.overlong_cache)
            rows.append(
                Row(
                    prompt_ids=group.prompt.token_ids,
                    response_ids=completion.token_ids,
                    rollout_logprobs=torch.tensor(completion.logprobs, dtype=torch.float64),
                    reward=reward,
                    group=number,
                    is_fresh=group.weight_version == weight_version,
                    is_cut_off=completion.finish_reason == "length",
                )
            )
    return rows


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
