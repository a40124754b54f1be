"""What the update saw of single tokens, for the first groups of a step."""

from collections.abc import Sequence
from typing import Any

from rlvr_cli.algorithm.group_filter import Batch
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.types import TOKEN_FIGURES
from rlvr_cli.ranks.group import added_up, is_first

_GROUPS, _TOKENS = 2, 4096
"""Whose tokens are kept, and how many of all their responses together."""
_LONGEST_CHARACTER = 4
"""Tokens, of a byte each."""


def token_rows(batch: Batch, samples: Samples, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the responses of the step's first groups, mixed ones before others, by the numbers of
    their groups in the step, each with its tokens' texts and figures. All processes call it, and
    the first one gets them."""
    numbers = {id(group): number for number, group in enumerate(batch.sampled, 1)}
    places = [place for place, group in enumerate(batch.kept) if id(group) in numbers]
    first = sorted(places, key=lambda place: not batch.kept[place].is_mixed)[:_GROUPS]
    chosen = [row for row, place in enumerate(samples.group.tolist()) if place in first]
    most = _TOKENS // max(1, len(chosen))
    seen, rows = added_up(samples.seen[chosen, :most]), []
    for row, figures in zip(chosen, seen, strict=True) if is_first() else ():
        ids = samples.response_ids[row][:most]
        values = figures[: len(ids)].double().round(decimals=4) + 0.0  # no -0
        if values.isfinite().all():
            group = numbers[id(batch.kept[int(samples.group[row])])]
            place = {"group": group, "sample": samples.sample[row]}
            columns = dict(zip(TOKEN_FIGURES, values.T.tolist(), strict=True))
            rows.append(place | {"text": token_texts(tokenizer, ids), "figures": columns})
    return rows


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the text that each token adds; a character of several tokens stands at its last."""
    texts: list[str] = []
    start = done = 0
    for end in range(1, len(ids) + 1):
        parts = [list(ids[start:done]), list(ids[start:end])]
        before, now = tokenizer.batch_decode(parts, skip_special_tokens=False)
        is_whole = not now.endswith("\N{REPLACEMENT CHARACTER}")
        if is_whole or end - done >= _LONGEST_CHARACTER or end == len(ids):
            texts.append(now[len(before) :])
            start, done = done, end
        else:
            texts.append("")
    return texts
