"""Batches from rows written by hand, and their rows again."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace

import torch

from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import TOKEN_FIGURES
from rlvr_cli.model.forward import PACKED

COLUMNS = (
    "rollout_logprobs",
    "old_logprobs",
    "entropy",
    "ref_logprobs",
    "old_values",
    "advantages",
    "returns",
)


@dataclass(frozen=True)
class Row:
    """One response; the tensors are [T]."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logprobs: torch.Tensor | None = None
    reward: float = 1.0
    group: int = 0
    is_fresh: bool = True
    is_cut_off: bool = False
    is_correct: bool = False
    sample: int = 0
    old_logprobs: torch.Tensor | None = None
    ref_logprobs: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    old_values: torch.Tensor | None = None
    end_value: float = 0.0
    advantages: torch.Tensor | None = None
    returns: torch.Tensor | None = None


def samples_of(rows: Sequence[Row]) -> Samples:
    """A batch of these rows; a column that one of them lacks was not filled."""
    T = max((len(row.response_ids) for row in rows), default=0)

    def padded(values: Sequence) -> torch.Tensor:
        out = torch.zeros(len(rows), T, dtype=torch.float64)
        for target, value in zip(out, values, strict=True):
            target[: len(value)] = torch.as_tensor(value)
        return out

    filled = {}
    for name in COLUMNS:
        column = [getattr(row, name) for row in rows]
        if all(values is not None for values in column):
            filled[name] = padded(column)
    filled.setdefault("rollout_logprobs", padded([[]] * len(rows)))
    return Samples(
        prompt_ids=[row.prompt_ids for row in rows],
        response_ids=[row.response_ids for row in rows],
        sample=[row.sample for row in rows],
        group=torch.tensor([row.group for row in rows]),
        reward=torch.tensor([row.reward for row in rows], dtype=torch.float64),
        is_fresh=padded([[row.is_fresh] * len(row.response_ids) for row in rows]).bool(),
        is_cut_off=torch.tensor([row.is_cut_off for row in rows]),
        is_correct=torch.tensor([row.is_correct for row in rows]),
        mask=padded([[1.0] * len(row.response_ids) for row in rows]),
        token_figures=torch.zeros(len(rows), T, len(TOKEN_FIGURES)),
        end_value=torch.tensor([row.end_value for row in rows], dtype=torch.float64),
        **filled,
    )


def rows_of(samples: Samples) -> list[Row]:
    """The rows of a batch, each cut to its own length."""
    actual = []
    for index, ids in enumerate(samples.response_ids):
        values = {item.name: getattr(samples, item.name) for item in fields(Row)}
        row = {name: value[index] for name, value in values.items() if value is not None}
        row |= {name: row[name][: len(ids)] for name in COLUMNS if name in row}
        row["is_fresh"] = bool(row["is_fresh"][0])
        plain = ("reward", "group", "is_cut_off", "is_correct", "end_value")
        actual.append(Row(**row | {name: row[name].item() for name in plain if name in row}))
    return actual


def policy_stub(sum_dtype: torch.dtype, packed: bool = True) -> SimpleNamespace:
    """What micro-batches need of a policy."""
    return SimpleNamespace(
        device=torch.device("cpu"),
        sum_dtype=sum_dtype,
        chosen_forward=PACKED if packed else SimpleNamespace(packed=False),
    )


def present(figures: object) -> dict:
    """The figures of a dataclass that are not None, by name."""
    return {name: value for name, value in vars(figures).items() if value is not None}
