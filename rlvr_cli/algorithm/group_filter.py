"""Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): refill with groups that have a signal.

The words for what is asked of a response (R) or of a group (G), and what each decides:

| word      |   | it means                                         | it decides                  |
| --------- | - | ------------------------------------------------ | --------------------------- |
| correct   | R | the verdict is `correct`                         | accuracy, `right_only`      |
| verdict   | R | the verdict is not a timeout or bad gold         | what accuracy is a share of |
| judged    | R | it has a reward                                  | whether it trains           |
| candidate | R | it is judged, or no verdict is needed            | the rows of the batch       |
| mixed     | G | 0 < correct < verdicts                           | DAPO's filter               |
| differs   | G | judged responses differ in the filter's metric   | the filter                  |
| trains    | G | it differs or, without a filter, has enough judged | the batch, and its refill |
| uniform   | G | nothing tells the responses apart                | which problems rest         |
| signal    | R | its reward gives a gradient                      | whether a step updates      |

The first six but `candidate` are properties of `core/types.py`.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.filters import FILTERS, GroupFilter, Mixed
from rlvr_cli.algorithm.reward import length_penalty, shaped_reward
from rlvr_cli.core.types import Group, R, Response, ResponseGroup, Rollout, are_different

_LEAST_SHARE = 0.25
"""A refill never counts on a smaller share of groups that train than this, so it is never huge."""


def passes(group: ResponseGroup[R], rule: GroupFilter) -> bool:
    """Return whether a filter lets a group train."""
    return FILTERS[rule.component](group, **rule.fields)


def candidates(group: ResponseGroup[R], algo: Algorithm) -> Sequence[R]:
    """Return the responses that may train: the judged ones, or all if no verdict is needed."""
    return group.judged if algo.needs_verdicts else group.responses


def trains(group: ResponseGroup[R], algo: Algorithm) -> bool:
    """Return whether responses differ in the filter's metric. Without a filter, return whether
    enough of them were judged."""
    if algo.filter is not None and not passes(group, algo.filter):
        return False
    needed = 2 if algo.advantage.needs_group else 1
    return not algo.needs_verdicts or len(group.judged) >= needed


def is_uniform(
    group: Group, algo: Algorithm, max_tokens: int, weightless: Collection[str] = ()
) -> bool:
    """Return whether all responses are equal in the filter's metric, or in reward without one
    or with a custom one. Rewards named in `weightless` do not count."""
    if isinstance(algo.filter, Mixed):
        return not passes(group, algo.filter)
    return not _differ_in_reward(group.judged, algo, max_tokens, weightless)


def _differ_in_reward(
    rollouts: Sequence[Response], algo: Algorithm, max_tokens: int, weightless: Collection[str]
) -> bool:
    if any(rollout.places for rollout in rollouts):
        return True  # equal sums, maybe, but not the same for all tokens
    if not algo.normalizes_each:
        return are_different(shaped_reward(rollout, algo, max_tokens) for rollout in rollouts)
    rewards = {name for rollout in rollouts for name in rollout.rewards if "/" not in name}
    names = rewards - {*weightless}
    columns = [[rollout.rewards.get(name) for rollout in rollouts] for name in names]
    if not rewards:  # `math` alone is in the sum only
        columns.append([rollout.reward or 0.0 for rollout in rollouts])
    columns.append([length_penalty(rollout, algo, max_tokens) for rollout in rollouts])
    return any(are_different(column) for column in columns)


def with_signal(
    groups: Sequence[Group], algo: Algorithm, max_tokens: int, weightless: Collection[str] = ()
) -> list[Rollout]:
    """Return the responses whose rewards give a gradient, shaped as in training.

    If a baseline or whitening takes the mean away, they are those of a group (of the batch, for
    other advantages) with different rewards. If a likelihood is maximized, they are the right ones.
    Else they are all. Masked responses and rewards named in `weightless` give none.
    """
    needs_difference = algo.needs_verdicts and (algo.advantage.has_baseline or algo.whiten)
    learns_right = algo.advantage.is_likelihood or algo.positive_nll > 0
    compared = [list(candidates(group, algo)) for group in groups]
    if not algo.advantage.needs_group:
        compared = [[rollout for rollouts in compared for rollout in rollouts]]
    signal: list[Rollout] = []
    for rollouts in compared:
        has_signal = not needs_difference or (
            not algo.advantage.is_likelihood
            and _differ_in_reward(rollouts, algo, max_tokens, weightless)
        )
        if has_signal:
            signal += rollouts
        elif learns_right:
            signal += [rollout for rollout in rollouts if rollout.is_correct]
    if algo.masks_cut_off:
        signal = [rollout for rollout in signal if not rollout.is_cut_off]
    return signal


@dataclass
class GroupBatch:
    """The groups that one step trains on, at most `size`, and all that were sampled for it.

    Sample while `problems_needed` asks for more, `add` what came, and `finish` it.
    """

    size: int
    algo: Algorithm
    groups: list[Group]
    """The groups that train: at first those carried over from the step before, oldest first."""
    sampled: list[Group] = field(default_factory=list)
    gen_batches: int = 0
    given_up: Literal["skip", "stop"] | None = None
    """What the cap does with a batch that it left short. None for a batch that may train."""
    weightless: Collection[str] = ()
    """Names of the rewards that are only logged."""

    def problems_needed(self) -> int:
        """Return how many problems to sample next. Return 0 if the batch is full, or the cap is
        reached."""
        missing = self.size - len(self.groups)
        rule = self.algo.filter
        limit = 1 if rule is None else rule.max_gen_batches or math.inf
        if missing <= 0 or self.gen_batches >= limit:
            return 0
        if rule is not None and rule.gen_batch_size is not None:
            return rule.gen_batch_size
        share = 1.0
        if self.sampled:
            n_trained = sum(trains(group, self.algo) for group in self.sampled)
            share = max(n_trained / len(self.sampled), _LEAST_SHARE)
        return math.ceil(missing / share)

    def add(self, groups: Sequence[Group]) -> None:
        """Add the groups that train. The others only count as sampled."""
        self.groups = self.groups + [group for group in groups if trains(group, self.algo)]
        self.sampled += groups
        self.gen_batches += 1

    def finish(self) -> list[Group]:
        """Cut the batch to its size. Return the groups that the next step begins with: the surplus,
        or all of a batch that is given up."""
        rule = self.algo.filter
        if rule is not None and rule.on_cap != "train" and len(self.groups) < self.size:
            self.given_up = rule.on_cap
            return self.groups
        surplus = self.groups[self.size :]
        self.groups = self.groups[: self.size]
        return surplus
