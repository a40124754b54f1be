"""Measure a policy by the first half of the training loop, and summarize what it sampled."""

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from rlvr_cli.console.tables import sampling_in_words
from rlvr_cli.core.seeds import problem_seeds
from rlvr_cli.core.step_figures import HeldOut, SampledFigures
from rlvr_cli.core.text import numbers_first
from rlvr_cli.core.types import Group, Prompt, SamplingParams, by_key
from rlvr_cli.data.rows import response_row
from rlvr_cli.evaluation.estimators import cons_estimate, mean, pass_estimate
from rlvr_cli.evaluation.report import Cluster, tally_of
from rlvr_cli.rollout.sampler import Sampler

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

Evaluation = dict[str, Any]
"""The figures of one evaluation with its settings, as JSON values (`summarize`)."""


def evaluate(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    seed: int,
    on_group: Callable[[Group], None] = lambda group: None,
    finished: Container[str] = (),
) -> list[Group]:
    """Sample and verify every prompt except those of problems whose ids are in `finished`.

    `on_group` gets each group when it is complete. The groups return in the order of the prompts.
    """
    remaining = []
    seeds = []
    for prompt, prompt_seed in zip(prompts, prompt_seeds(prompts, seed), strict=True):
        if prompt.problem.id not in finished:
            remaining.append(prompt)
            seeds.append(prompt_seed)
    stream = sampler.stream(remaining, params, seeds)
    return sampler.judge(remaining, stream, on_group=on_group)


def prompt_seeds(prompts: Sequence[Prompt], seed: int) -> list[int]:
    """Return the seed of each prompt's first response."""
    return problem_seeds([prompt.problem for prompt in prompts], seed)


def held_out_sets(evaluations: Mapping[str, Evaluation]) -> dict[str, HeldOut]:
    """Return the figures of held-out sets as a step has them. The first has an empty name."""
    sets: dict[str, HeldOut] = {}
    for name, figures in evaluations.items():
        low, high = figures["interval"] or (None, None)
        sets[name if sets else ""] = HeldOut(
            pass_at_1=figures["pass@1"],
            low=low,
            high=high,
            cons_at_k=figures["cons@k"],
            by_level=figures["by_level"],
        )
    return sets


def summarize(
    groups: Sequence[Group], params: SamplingParams, cluster: Cluster, has_format: bool = True
) -> Evaluation:
    """Summarize all groups.

    pass@1 and its 95 % interval over problems are None if no response was judged, and cons@k of all
    samples if no problem has that many judged responses. `has_format`: the prompt asks for a
    format.
    """
    sampled = rollout_metrics(groups, has_format)
    tallies = [tally_of(list(map(response_row, group.rollouts)), cluster) for group in groups]
    pass_at_1_estimate = pass_estimate(tallies, 1)
    consensus = cons_estimate(tallies, params.samples)
    return {
        "pass@1": sampled.pass_at_1,
        "interval": pass_at_1_estimate["interval"] if pass_at_1_estimate else None,
        "cons@k": consensus["value"] if consensus else None,
        "problems": len(groups),
        **vars(params),
        "format_share": sampled.format_share,
        "cut_off_share": sampled.cut_off_share,
        "response_length": sampled.response_length,
        "verdicts": sampled.verdicts,
        "by_level": by_level(groups),
        "settings": sampling_in_words(len(groups), vars(params)),
    }


def pass_at_1(groups: Sequence[Group]) -> float | None:
    """Compute the mean over problems of the share of correct among judged responses."""
    shares = []
    for group in groups:
        judged = [r for r in group.rollouts if r.has_verdict and r.verification is not None]
        share = mean(rollout.is_correct for rollout in judged)
        if share is not None:
            shares.append(share)
    return mean(shares)


def by_level(groups: Sequence[Group]) -> dict[str, float | None]:
    """Compute pass@1 for each value of the problems' field `level`.

    The result is empty if a problem lacks the field, or if a table cannot hold the values.
    """
    parts = by_key(groups, lambda group: str(group.prompt.problem.extra.get("level")))
    if str(None) in parts or len(parts) > _MOST_LEVELS:
        return {}
    return {level: pass_at_1(parts[level]) for level in sorted(parts, key=numbers_first)}


def checks_itself(text: str) -> bool:
    """Return whether a response has a word of self-checking. A plain search, thirty times as fast,
    leaves few texts for the pattern."""
    lowered = text.lower()
    return any(word in lowered for word in REFLECTIONS) and bool(_REFLECTION.search(lowered))


def rollout_metrics(groups: Sequence[Group], has_format: bool = True) -> SampledFigures:
    """Summarize all that a step sampled, before the group filter.

    Verdicts are counted by name, and each reward's mean is before its weight. format_share is None
    without `has_format`, and sampled_entropy [nats a token] if no engine sampled.
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
