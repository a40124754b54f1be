"""Reward agreement: a response earns what a right one does if its answer is its group's majority.

Test-time RL, Zuo et al. 2025, arXiv:2504.16084. No gold answer is read.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from rlvr_cli.algorithm.reward import MAJORITY, RewardConfig
from rlvr_cli.core.types import Group
from verifiers import Attempt, Verdict, Verifier


def votes(
    answers: Sequence[str | None], cluster: Callable[[Sequence[str]], list[int]]
) -> tuple[list[bool], float]:
    """Return whether each answer is the majority's, and the share of all that the largest cluster
    has. None casts no vote. In a tie nobody has the majority."""
    cast = [answer for answer in answers if answer is not None]
    numbers = iter(cluster(cast))
    number_of = [None if answer is None else next(numbers) for answer in answers]
    ranked = Counter(number for number in number_of if number is not None).most_common(2)
    if not ranked:
        return [False] * len(answers), 0.0
    (winner, size), *second = ranked
    is_tie = bool(second) and second[0][1] == size
    return [number == winner and not is_tie for number in number_of], size / len(answers)


def with_majority(
    group: Group, attempts: Sequence[Attempt], verifier: Verifier, config: RewardConfig
) -> Group:
    """Return the group with the reward `majority` of each response, and two figures of the group.

    They are the largest cluster's share and, if the problem has a gold answer, whether the majority
    is right. A group whose share is below `reward.majority_share` gets no reward.
    """
    is_majority, share = votes([verifier.answer(attempt) for attempt in attempts], verifier.cluster)
    figures = {f"{MAJORITY}/share": share}
    pairs = list(zip(group.rollouts, is_majority, strict=True))
    verdicts = {r.verification.verdict for r in group.rollouts if r.verification is not None}
    if verdicts - {Verdict.UNPARSEABLE_GOLD}:
        is_right = any(rollout.is_correct and wins for rollout, wins in pairs)
        figures[f"{MAJORITY}/right"] = float(is_right)
    rollouts = []
    for rollout, wins in pairs:
        rewards = dict(figures)
        if share >= (config.majority_share or 0.0):
            rewards[MAJORITY] = config.correct if wins else config.wrong
        rollouts.append(replace(rollout, rewards=rewards))
    return replace(group, rollouts=tuple(rollouts))
