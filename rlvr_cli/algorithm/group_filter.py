"""Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): sample until the batch is full of groups
that carry a signal, at most so many times; what is left over waits for the next step."""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.core.types import Group

_LEAST_SHARE = 0.25
"""A refill never counts on a smaller share of mixed groups than this, so that none is huge."""


def trains(group: Group, algo: Algorithm) -> bool:
    """Enough responses were judged for an advantage; with a filter, some right and some wrong."""
    if algo.filter is not None:
        return group.is_mixed
    return len(group.judged) >= (2 if algo.advantage.needs_group else 1)


def has_signal(groups: Sequence[Group], algo: Algorithm) -> bool:
    """Whether anything sets right apart from wrong: within a group where that is the baseline, else
    within the batch."""
    if algo.advantage.needs_group:
        return any(group.is_mixed for group in groups)
    return len({rollout.is_correct for group in groups for rollout in group.judged}) > 1


def in_order(
    groups: Generator[tuple[int, Group]], is_enough: Callable[[Sequence[Group]], bool]
) -> list[Group]:
    """Groups 0, 1, 2, … up to the first with which it is enough; what is under way is given up.

    The order is that of the prompts, not of their ends, so that the lengths of the responses choose
    nothing.
    """
    found: dict[int, Group] = {}
    ready: list[Group] = []
    with closing(groups):
        for index, group in groups:
            found[index] = group
            while len(ready) in found:
                ready.append(found.pop(len(ready)))
                if is_enough(ready):
                    return ready
    return ready


@dataclass
class Collected:
    """What one step has to train on, and all that was sampled for it."""

    kept: list[Group] = field(default_factory=list)
    sampled: list[Group] = field(default_factory=list)
    gen_batches: int = 0
    is_full: bool = True


class GroupCollector:
    """Fills batches of `size` groups; `carried` holds the surplus, oldest first.

    `sample(count, enough)` draws up to `count` groups, and may end after the first `enough` of them
    that train.
    """

    def __init__(
        self, sample: Callable[[int, int], list[Group]], size: int, algo: Algorithm
    ) -> None:
        self.sample, self.size, self.algo = sample, size, algo
        self.carried: list[Group] = []

    def collect(self) -> Collected:
        """The next batch: carried groups first, then freshly sampled ones until it is full."""
        times = self.algo.filter.max_gen_batches if self.algo.filter else 1
        batch = Collected(kept=self.carried)
        passed = 0
        while len(batch.kept) < self.size and batch.gen_batches < times:
            missing = self.size - len(batch.kept)
            share = max(passed / len(batch.sampled), _LEAST_SHARE) if batch.sampled else 1.0
            groups = self.sample(math.ceil(missing / share), missing)
            fresh = [group for group in groups if trains(group, self.algo)]
            passed += len(fresh)
            batch.kept = batch.kept + fresh
            batch.sampled += groups
            batch.gen_batches += 1
        batch.is_full = len(batch.kept) >= self.size or self.algo.filter is None
        batch.kept, self.carried = batch.kept[: self.size], batch.kept[self.size :]
        return batch
