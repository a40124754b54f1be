"""Groups to rows to micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.advantage import ADVANTAGES
from rlvr_cli.algorithms import Algorithm
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
    """Rows padded on the right. Masks come from lengths, never from token ids."""

    rows: Sequence[Row]
    input_ids: torch.Tensor
    """[B, prompt and response and padding]."""
    prompt_lengths: torch.Tensor
    """[B]."""
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
    judged = [rollout for rollout in group.rollouts if rollout.gives_signal]
    rewards = [rollout.reward for rollout in judged]
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
    """Rows of like length together, at most `micro_tokens` tokens (padding included) at a time.

    Device and number type are those of `like`, a parameter of the model.
    """
    ordered = sorted(rows, key=_length, reverse=True)
    while ordered:
        count = max(1, micro_tokens // _length(ordered[0]))
        yield _padded(ordered[:count], like)
        ordered = ordered[count:]


def padded(values: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Stack [t_i] tensors to [B, width] with zeros on the right."""
    out = values[0].new_zeros(len(values), width)
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


def _length(row: Row) -> int:
    return len(row.prompt_ids) + len(row.response_ids)


def _padded(rows: Sequence[Row], like: torch.Tensor) -> MicroBatch:
    lengths = torch.tensor([len(row.response_ids) for row in rows])
    T = int(lengths.max())
    ids = [torch.tensor([*row.prompt_ids, *row.response_ids]) for row in rows]
    advantages = [[row.advantage] for row in rows]
    rollout_logprobs = [torch.tensor(r.rollout_logprobs, dtype=torch.float64) for r in rows]
    return MicroBatch(
        rows=rows,
        input_ids=padded(ids, max(map(_length, rows))).to(like.device),
        prompt_lengths=torch.tensor([len(row.prompt_ids) for row in rows], device=like.device),
        mask=(torch.arange(T) < lengths[:, None]).to(like),
        advantages=torch.tensor(advantages, dtype=torch.float64).to(like),
        rollout_logprobs=padded(rollout_logprobs, T).to(like),
    )
