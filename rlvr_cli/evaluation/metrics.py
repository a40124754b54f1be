"""Summarize a step: pure functions from groups to numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlvr_cli.core.text import numbers_first
from rlvr_cli.core.types import Group, by_key

_MOST_LEVELS = 12


def mean(values: Iterable[float]) -> float | None:
    """Compute the mean; None if there are no values."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def pass_at_1(groups: Sequence[Group]) -> float | None:
    """Compute the mean over problems of the share of correct among judged responses."""
    return mean(mean(r.is_correct for r in group.judged) or 0.0 for group in groups if group.judged)


def by_level(groups: Sequence[Group]) -> dict[str, float | None]:
    """Compute pass@1 of each value of the problems' field `level`; nothing where one has none, or
    there are more than a table holds."""
    parts = by_key(groups, lambda group: str(group.prompt.problem.extra.get("level")))
    if str(None) in parts or len(parts) > _MOST_LEVELS:
        return {}
    return {level: pass_at_1(parts[level]) for level in sorted(parts, key=numbers_first)}


def rollout_metrics(groups: Sequence[Group], has_format: bool = True) -> dict[str, Any]:
    """Summarize all that a step sampled, before a filter: verdicts counted by name in order, and
    each reward's mean before its weight; no format share without `has_format`."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    judged = [r.verification for r in rollouts if r.verification]
    tokens = [len(rollout.completion.token_ids) for rollout in rollouts]
    names = dict.fromkeys(name for rollout in rollouts for name in rollout.rewards)
    return {
        "reward": mean(r.reward for r in rollouts if r.reward is not None),
        "pass@1": pass_at_1(groups),
        "response_length": mean(tokens),
        "mixed_share": mean(group.is_mixed for group in groups),
        "format_share": mean(one.format_ok for one in judged) if has_format else None,
        "unjudged_share": mean(r.reward is None for r in rollouts),
        "cut_off_share": mean(r.completion.finish_reason == "length" for r in rollouts),
        "groups_sampled": len(groups),
        "tokens_sampled": sum(tokens),
        "verdicts": dict(Counter(sorted(one.verdict.value for one in judged))),
        **{
            f"reward/{name}": mean(r.rewards[name] for r in rollouts if name in r.rewards)
            for name in names
        },
    }
