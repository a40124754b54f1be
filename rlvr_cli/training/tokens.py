"""Keep what the update sees of single tokens, for the first groups of a step."""

from collections.abc import Sequence
from typing import Any

import torch

from rlvr_cli.algorithm.group_filter import Batch
from rlvr_cli.algorithm.objective import LossInputs
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.core.types import TOKEN_FIGURES
from rlvr_cli.ranks.group import is_first, joined
from rlvr_cli.training.batch import MicroBatch

_GROUPS, _TOKENS = 2, 4096
"""Whose tokens are kept, and how many of all their responses together."""
_LONGEST_CHARACTER = 4
"""Tokens, of a byte each."""


class TokenWatch:
    """What the newest pass over the watched samples computed, token by token; it changes nothing
    and waits for no device."""

    def __init__(self) -> None:
        self.chosen: list[tuple[int, TrainingSample]] = []
        self.seen: dict[int, torch.Tensor] = {}

    def choose(self, batch: Batch, samples: Sequence[TrainingSample]) -> None:
        """Watch the samples of the step's first groups, mixed ones before others."""
        numbers = {id(group): number for number, group in enumerate(batch.sampled, 1)}
        places = [place for place, group in enumerate(batch.kept) if id(group) in numbers]
        first = sorted(places, key=lambda place: not batch.kept[place].is_mixed)[:_GROUPS]
        self.chosen = [(numbers[id(batch.kept[s.group])], s) for s in samples if s.group in first]

    def begin(self, like: torch.Tensor) -> None:
        """Forget earlier passes; what comes is kept on the device of `like`."""
        most = _TOKENS // max(1, len(self.chosen))
        self.seen = {
            id(sample): torch.zeros(
                min(len(sample.response_ids), most), len(TOKEN_FIGURES), device=like.device
            )
            for _, sample in self.chosen
        }

    def note(self, batch: MicroBatch, inputs: LossInputs, clipped: torch.Tensor) -> None:
        """Keep the figures of the watched samples in a micro-batch; tensors are [B, T]."""
        places = [place for place, one in enumerate(batch.samples) if id(one) in self.seen]
        if not places or not batch.counts:
            return
        figures = (inputs.logprobs, inputs.ratio, inputs.advantages, inputs.entropy, clipped)
        found = torch.stack([each.detach()[places].float() for each in figures], -1)
        for place, values in zip(places, found, strict=True):
            kept = self.seen[id(batch.samples[place])]
            kept.copy_(values[: len(kept)])

    def rows(self, tokenizer: Any) -> list[dict[str, Any]]:
        """Return the responses that were watched, by the numbers of their groups in the step, each
        with its tokens' texts and figures; all processes call it, and the first one gets them."""
        lengths = [(id(sample), len(self.seen[id(sample)])) for _, sample in self.chosen]
        seen, rows = joined(self.seen, lengths), []
        for number, sample in self.chosen if is_first() else ():
            values = seen[id(sample)].double().cpu().round(decimals=4) + 0.0  # no -0
            if values.isfinite().all():
                texts = token_texts(tokenizer, sample.response_ids[: len(values)])
                figures = dict(zip(TOKEN_FIGURES, values.T.tolist(), strict=True))
                place = {"group": number, "sample": sample.sample}
                rows.append(place | {"text": texts, "figures": figures})
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
