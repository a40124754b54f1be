"""Summarize what was sampled: in a step of training, or of a held-out set."""

import re
from collections import Counter
from collections.abc import Sequence

from rlvr_cli.console.tables import sampling_in_words
from rlvr_cli.core.step_figures import SampledFigures
from rlvr_cli.core.types import Group, SamplingParams
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.figures import JudgedProblem, by_value, figures_of
from rlvr_cli.evaluation.held_out import Measured

_MOST_LEVELS = 12

REFLECTIONS = (
    "wait",
    "hold on",
    "on second thought",
    "let me check",
    "let me verify",
    "let me recheck",
    "let me reconsider",
    "double-check",
    "check again",
    "re-evaluate",
)
"""Words of self-checking, of which the papers count some in their "aha moments"."""
_REFLECTION = re.compile(rf"\b(?:{'|'.join(REFLECTIONS)})\b")


def summarize(
    problems: Sequence[JudgedProblem], params: SamplingParams, has_format: bool = True
) -> Measured:
    """Compute the figures of a held-out set.

    There is no pass@1 and no 95 % interval over problems if no response was judged, and no cons@k
    of all samples if no problem has that many judged responses, or if one sample is the only vote.
    `has_format`: the prompt asks for a format.
    """
    figures = figures_of(problems, ks=(1, params.samples), has_format=has_format)
    estimate = figures.pass_at[1]
    consensus = figures.cons_at[params.samples] if params.samples > 1 else None
    return Measured.model_validate(
        {
            "pass@1": _share_right(problems),
            "interval": None if estimate is None else estimate.interval,
            "cons@k": None if consensus is None else consensus.value,
            "problems": figures.problems,
            **vars(params),
            "format_share": figures.format_share,
            "cut_off_share": figures.cut_off_share,
            "response_length": figures.response_length,
            "verdicts": {verdict.value: count for verdict, count in figures.verdicts.items()},
            "by_level": pass_at_1_by_level(problems),
            "settings": sampling_in_words(figures.problems, params),
        }
    )


def pass_at_1(groups: Sequence[Group]) -> float | None:
    """Compute the mean over problems of the share of correct among judged responses."""
    shares = []
    for group in groups:
        judged = [r for r in group.rollouts if r.has_verdict and r.verification is not None]
        share = mean(rollout.is_correct for rollout in judged)
        if share is not None:
            shares.append(share)
    return mean(shares)


def pass_at_1_by_level(problems: Sequence[JudgedProblem]) -> dict[str, float | None]:
    """Compute pass@1 for each value of the problems' field `level`.

    The result is empty if a problem lacks the field, or if a table cannot hold the values.
    """
    parts = by_value(problems, "level")
    if str(None) in parts or len(parts) > _MOST_LEVELS:
        return {}
    return {level: _share_right(part) for level, part in parts.items()}


def _share_right(problems: Sequence[JudgedProblem]) -> float | None:
    """Compute pass@1 as a step has it, to the last digit: `1 - C(n-c, 1) / C(n, 1)` rounds."""
    tallies = [problem.tally for problem in problems]
    return mean(tally.correct / tally.n for tally in tallies if tally.n)


def checks_itself(text: str) -> bool:
    """Return whether a response has a word of self-checking. A plain search, thirty times as fast,
    leaves few texts for the pattern."""
    lowered = text.lower()
    return any(word in lowered for word in REFLECTIONS) and bool(_REFLECTION.search(lowered))


def rollout_metrics(groups: Sequence[Group], has_format: bool = True) -> SampledFigures:
    """Summarize all that a step sampled, before the group filter.

    Verdicts are counted by name, and each reward's mean is before its weight. There
    is a format_share only with `has_format`, and a sampled_entropy [nats a token] only if an engine
    sampled.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    judged = [r.verification for r in rollouts if r.verification]
    tokens = [len(rollout.completion.token_ids) for rollout in rollouts]
    logprobs = [value for rollout in rollouts for value in rollout.completion.logprobs]
    rewards: dict[str, list[float]] = {}
    for rollout in rollouts:
        for name, value in rollout.rewards.items():
            rewards.setdefault(name, []).append(value)
    return SampledFigures(
        reward=mean(r.reward for r in rollouts if r.reward is not None),
        pass_at_1=pass_at_1(groups),
        response_length=mean(tokens),
        # The mean of -log p over samples of p estimates its entropy.
        sampled_entropy=mean(-value for value in logprobs),
        reflections=mean(checks_itself(rollout.text) for rollout in rollouts),
        mixed_share=mean(group.is_mixed for group in groups),
        format_share=mean(verdict.format_ok for verdict in judged) if has_format else None,
        unjudged_share=mean(not r.has_verdict for r in rollouts),
        cut_off_share=mean(r.completion.finish_reason == "length" for r in rollouts),
        groups_sampled=len(groups),
        tokens_sampled=sum(tokens),
        verdicts=dict(Counter(sorted(v.verdict.value for v in judged))),
        rewards={name: mean(values) for name, values in rewards.items()},
    )
