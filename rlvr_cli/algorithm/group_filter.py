"""Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): refill with groups that have a signal."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.reward import length_penalty, shaped_reward
from rlvr_cli.core.types import Group, Rollout, are_different

_LEAST_SHARE = 0.25
"""A refill never counts on a smaller share of mixed groups than this, so that none is huge."""


def trains(group: Group, algo: Algorithm) -> bool:
    """Return whether enough responses were judged or, with a filter, differ in its metric."""
    if algo.filter is not None:
        return group.differs_in(algo.filter.metric)
    least = 2 if algo.advantage.needs_group else 1
    return not algo.needs_verdicts or len(group.judged) >= least


def is_alike(
    group: Group, algo: Algorithm, max_tokens: int, weightless: Collection[str] = ()
) -> bool:
    """Return whether nothing sets the responses apart: what the filter compares, else rewards,
    without those of the `weightless` names."""
    if algo.filter is not None:
        return not group.differs_in(algo.filter.metric)
    return not _is_set_apart(group.judged, algo, max_tokens, weightless)


def _is_set_apart(
    judged: Sequence[Rollout], algo: Algorithm, max_tokens: int, weightless: Collection[str]
) -> bool:
    columns = [[shaped_reward(rollout, algo, max_tokens) for rollout in judged]]
    if algo.normalizes_each:
        names = {name for rollout in judged for name in rollout.rewards} - {*weightless}
        columns = [[rollout.rewards[name] for rollout in judged] for name in names]
        columns.append([rollout.reward or 0.0 for rollout in judged])
        columns.append([length_penalty(rollout, algo, max_tokens) for rollout in judged])
    return any(are_different(column) for column in columns)


def with_signal(
    groups: Sequence[Group], algo: Algorithm, max_tokens: int, weightless: Collection[str] = ()
) -> list[Rollout]:
    """Return the responses whose rewards give a gradient, shaped as in training: those of groups
    (else of a batch) with different ones, where a baseline or whitening takes the mean away; the
    right ones, where their likelihood counts; else all. What is masked has none, and neither has a
    reward of a `weightless` name."""
    learns_right = algo.advantage.is_likelihood or algo.positive_nll > 0
    takes_all = not algo.needs_verdicts or (algo.advantage.kind == "return" and not algo.whiten)
    compared = [group.judged if algo.needs_verdicts else group.rollouts for group in groups]
    if not algo.advantage.needs_group:
        compared = [[rollout for part in compared for rollout in part]]
    signal: list[Rollout] = []
    for part in compared:
        compares = not algo.advantage.is_likelihood
        is_apart = compares and _is_set_apart(part, algo, max_tokens, weightless)
        signal += [r for r in part if takes_all or is_apart or (learns_right and r.is_correct)]
    if algo.masks_cut_off:
        signal = [rollout for rollout in signal if rollout.completion.finish_reason != "length"]
    return signal


@dataclass
class Batch:
    """The groups that one step trains on, at most `size`, and all that were sampled for it: draw
    while `next_draw` asks for more, keep what came, and end it."""

    size: int
    algo: Algorithm
    kept: list[Group]
    """Those that train; at first those carried over from the step before, oldest first."""
    sampled: list[Group] = field(default_factory=list)
    gen_batches: int = 0
    given_up: Literal["skip", "stop"] | None = None
    """What the cap does with a batch that it left short; None for one that may train."""
    weightless: Collection[str] = ()
    """Names of the rewards that are only logged."""

    def next_draw(self) -> int:
        """Return how many problems to sample next: 0 if the batch is full or the cap is reached."""
        missing = self.size - len(self.kept)
        times = (self.algo.filter.max_gen_batches or math.inf) if self.algo.filter else 1
        if missing <= 0 or self.gen_batches >= times:
            return 0
        share = 1.0
        if self.sampled:
            passed = sum(trains(group, self.algo) for group in self.sampled)
            share = max(passed / len(self.sampled), _LEAST_SHARE)
        return math.ceil(missing / share)

    def keep(self, groups: Sequence[Group]) -> None:
        """Add the groups that train; the others are only counted as sampled."""
        self.kept = self.kept + [group for group in groups if trains(group, self.algo)]
        self.sampled += groups
        self.gen_batches += 1

    def end(self) -> list[Group]:
        """Cut the batch to its size; return what the next step begins with: the surplus, or all of
        a batch that is given up."""
        chosen = self.algo.filter
        if chosen is not None and chosen.on_cap != "train" and len(self.kept) < self.size:
            self.given_up = chosen.on_cap
            return self.kept
        self.kept, surplus = self.kept[: self.size], self.kept[self.size :]
        return surplus
