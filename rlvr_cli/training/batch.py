"""Groups to rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.presets import Algorithm
from rlvr_cli.algorithm.reward import overlong_penalty
from rlvr_cli.core.types import Group
from rlvr_cli.model.packing import ModelInputs, pack, pad


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
