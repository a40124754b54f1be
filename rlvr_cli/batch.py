"""Groups to rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.advantage import ADVANTAGES
from rlvr_cli.algorithms import Algorithm
from rlvr_cli.packing import Packed, pack
from rlvr_cli.reward import overlong_penalty
from rlvr_cli.types import Group


@dataclass(frozen=True)
class Row:
    """One response to train on."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logprobs: Sequence[float]
    advantage: float
    is_fresh: bool
    """Sampled by the weights as they are at the start of this step, not carried over."""
    old_logprobs: torch.Tensor | None = None
    """[T]: set where several updates share the batch, so that the policy moves meanwhile."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows for one forward pass. Masks come from lengths, never from token ids."""

    rows: Sequence[Row]
    packed: Packed
    mask: torch.Tensor
    """[B, T]: 1 for the tokens of the response, its end token among them."""
    advantages: torch.Tensor
    """[B, 1]."""
    rollout_logprobs: torch.Tensor
    """[B, T], 0 in the padding."""


def group_rows(
    group: Group, algorithm: Algorithm, max_tokens: int, weight_version: int
) -> list[Row]:
    """The judged responses of a group with their advantages, rewards shaped by length if asked."""
    judged = group.judged
    rewards = [rollout.reward or 0.0 for rollout in judged]
    if algorithm.overlong == "soft":
        rewards = [
            value
            + overlong_penalty(
                len(rollout.completion.token_ids), max_tokens, algorithm.overlong_cache
            )
            for value, rollout in zip(rewards, judged, strict=True)
        ]
    advantages = ADVANTAGES[algorithm.advantage](torch.tensor(rewards, dtype=torch.float64))
    return [
        Row(
            prompt_ids=group.prompt.token_ids,
            response_ids=rollout.completion.token_ids,
            rollout_logprobs=rollout.completion.logprobs,
            advantage=advantage,
            is_fresh=group.weight_version == weight_version,
        )
        for rollout, advantage in zip(judged, advantages.tolist(), strict=True)
    ]


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


def padded(values: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Stack [t_i] tensors to [B, width] with zeros on the right."""
    out = values[0].new_zeros(len(values), width)
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


def _micro_batch(rows: Sequence[Row], like: torch.Tensor) -> MicroBatch:
    lengths = torch.tensor([len(row.response_ids) for row in rows])
    T = int(lengths.max())
    advantages = [[row.advantage] for row in rows]
    rollout_logprobs = [torch.tensor(r.rollout_logprobs, dtype=torch.float64) for r in rows]
    return MicroBatch(
        rows=rows,
        packed=pack([row.prompt_ids for row in rows], [row.response_ids for row in rows], like),
        mask=(torch.arange(T) < lengths[:, None]).to(like),
        advantages=torch.tensor(advantages, dtype=torch.float64).to(like),
        rollout_logprobs=padded(rollout_logprobs, T).to(like),
    )
