"""Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): refill with groups that have a signal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.core.types import Group, Prompt, Rollout, groups_as_json, groups_from_json

_LEAST_SHARE = 0.25
"""A refill never counts on a smaller share of mixed groups than this, so that none is huge."""


def trains(group: Group, algo: Algorithm) -> bool:
    """Return whether enough responses were judged or, with a filter, differ in its metric."""
    if algo.filter is not None:
        return group.differs_in(algo.filter.metric)
    least = 2 if algo.advantage.needs_group else 1
    return algo.reads_responses or len(group.judged) >= least


def with_signal(groups: Sequence[Group], algo: Algorithm) -> list[Rollout]:
    """Return the responses whose rewards give a gradient: those of groups (else of a batch) with
    different ones, where a baseline or whitening takes the mean away; the right ones; else all."""
    if algo.reads_responses:
        return [rollout for group in groups for rollout in group.rollouts]
    compared = [group.judged for group in groups]
    if not algo.advantage.needs_group:
        compared = [[rollout for judged in compared for rollout in judged]]
    if algo.advantage.is_likelihood:
        return [rollout for rollout in compared[0] if rollout.is_correct]
    is_plain = algo.advantage.kind == "return" and not algo.whiten
    return [
        rollout
        for judged in compared
        if is_plain or len({rollout.reward for rollout in judged}) > 1
        for rollout in judged
    ]


@dataclass
class Batch:
    """The groups that one step trains on, and all that were sampled for it."""

    kept: list[Group] = field(default_factory=list)
    sampled: list[Group] = field(default_factory=list)
    gen_batches: int = 0
    given_up: Literal["skip", "stop"] | None = None
    """What the cap does with a batch that it left short; None for one that may train."""


class GroupCollector:
    """Fill batches of `size` groups; `carried` holds the surplus, oldest first.

    A step begins a batch, draws while `next_draw` asks for more, keeps what came, and ends it.
    """

    def __init__(self, size: int, algo: Algorithm) -> None:
        self.size, self.algo = size, algo
        self.carried: list[Group] = []

    def state_dict(self, prompts: Sequence[Prompt]) -> dict[str, Any]:
        """Return the groups carried over, their prompts by number."""
        return {"carried": groups_as_json(self.carried, prompts)}

    def load_state_dict(self, state: Mapping[str, Any], prompts: Sequence[Prompt]) -> None:
        """Restore the groups that `state_dict` returned."""
        self.carried = groups_from_json(state["carried"], prompts)

    def begin(self) -> Batch:
        """Start a batch with the groups carried over."""
        return Batch(kept=self.carried)

    def next_draw(self, batch: Batch) -> int:
        """Return how many problems to sample next: 0 if the batch is full or the cap is reached."""
        times = (self.algo.filter.max_gen_batches or math.inf) if self.algo.filter else 1
        if self.missing(batch) <= 0 or batch.gen_batches >= times:
            return 0
        share = 1.0
        if batch.sampled:
            passed = sum(trains(group, self.algo) for group in batch.sampled)
            share = max(passed / len(batch.sampled), _LEAST_SHARE)
        return math.ceil(self.missing(batch) / share)

    def missing(self, batch: Batch) -> int:
        """Return the number of groups that the batch lacks."""
        return self.size - len(batch.kept)

    def keep(self, batch: Batch, groups: Sequence[Group]) -> None:
        """Add the groups that train; the others are only counted as sampled."""
        batch.kept = batch.kept + [group for group in groups if trains(group, self.algo)]
        batch.sampled += groups
        batch.gen_batches += 1

    def end(self, batch: Batch) -> None:
        """Cut the batch to its size and carry the surplus over, or all of a batch given up."""
        chosen = self.algo.filter
        if chosen is not None and chosen.on_cap != "train" and self.missing(batch) > 0:
            batch.given_up, self.carried = chosen.on_cap, batch.kept
        else:
            batch.kept, self.carried = batch.kept[: self.size], batch.kept[self.size :]
