"""Keep the figures of a step's single tokens, for the page of a run."""

from typing import Any

from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.algorithm.loss import has_gradient
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.types import TOKEN_FIGURES, TokenIds
from rlvr_cli.ranks.group import is_first, sum_tensor

_GROUPS = 2
"""Groups of a step whose tokens are stored."""
_TOKENS = 4096
"""Tokens that are stored of all their responses together."""
_LONGEST_CHARACTER = 4
"""Tokens, of a byte each."""


def token_rows(batch: GroupBatch, samples: Samples, tokenizer: Any) -> list[JsonObject]:
    """Return the responses of the step's first groups, mixed ones before others, each with the
    texts and figures of its tokens, and the number of its group in the step. A response without a
    part in the gradient was not passed, and its figures are None.

    All processes call it, and the first one gets the rows.
    """
    numbers = {id(group): number for number, group in enumerate(batch.sampled, 1)}
    places = [place for place, group in enumerate(batch.groups) if id(group) in numbers]
    first = sorted(places, key=lambda place: not batch.groups[place].is_mixed)[:_GROUPS]
    selected = [row for row, place in enumerate(samples.group.tolist()) if place in first]
    limit = _TOKENS // max(1, len(selected))
    figures = sum_tensor(samples.token_figures[selected, :limit].cpu())
    was_passed = has_gradient(samples, batch.algo)
    rows: list[JsonObject] = []
    if not is_first():
        return rows
    for row, figures_TF in zip(selected, figures, strict=True):
        ids = samples.response_ids[row][:limit]
        values = figures_TF[: len(ids)].double().round(decimals=4) + 0.0  # no -0
        if not values.isfinite().all():
            continue
        place = int(samples.group[row])
        by_name = dict(zip(TOKEN_FIGURES, values.T.tolist(), strict=True))
        rows.append(
            {
                "group": numbers[id(batch.groups[place])],
                "sample": samples.sample[row],
                "text": token_texts(tokenizer, ids),
                "figures": by_name if was_passed[row] else None,
            }
        )
    return rows


def token_texts(tokenizer: Any, ids: TokenIds) -> list[str]:
    """Return the text that each token adds. The last token of a character has all of its text."""
    texts: list[str] = []
    start = 0
    ended = 0
    for end in range(1, len(ids) + 1):
        parts = [list(ids[start:ended]), list(ids[start:end])]
        before, now = tokenizer.batch_decode(parts, skip_special_tokens=False)
        is_complete = not now.endswith("\N{REPLACEMENT CHARACTER}")
        if is_complete or end - ended >= _LONGEST_CHARACTER or end == len(ids):
            texts.append(now[len(before) :])
            start = ended
            ended = end
        else:
            texts.append("")
    return texts
