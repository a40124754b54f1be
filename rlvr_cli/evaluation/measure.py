"""Measure a policy by the first half of the training loop, and summarize what it sampled."""

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rlvr_cli.console.tables import sampling_in_words
from rlvr_cli.core.figures import Estimate
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.seeds import problem_seeds
from rlvr_cli.core.types import WITHOUT_VERDICT, Group, Prompt, SamplingParams
from rlvr_cli.evaluation.estimators import mean, pass_estimate
from rlvr_cli.evaluation.figures import JudgedProblem, by_value, figures_of
from rlvr_cli.evaluation.task import Deliver
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.setup.session import Session
from verifiers import Verifier

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


class Measured(BaseModel):
    """The figures of a held-out set as a run keeps them, with how they were sampled. Older versions
    kept fewer."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")

    pass_at_1: float | None = Field(None, alias="pass@1")
    interval: Annotated[tuple[float, float] | None, Field(strict=False)] = None
    cons_at_k: float | None = Field(None, alias="cons@k")
    problems: int | None = None
    samples: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    format_share: float | None = None
    cut_off_share: float | None = None
    response_length: float | None = None
    verdicts: dict[str, int] = Field({})
    by_level: dict[str, float | None] = Field({})
    """pass@1 for each value of the problems' field `level`."""
    settings: str = ""
    """How many responses were sampled, and how, in words."""

    @classmethod
    def of_estimate(cls, estimate: Estimate) -> "Measured":
        """Return figures of which only pass@1 is known."""
        return cls.model_validate({"pass@1": estimate.value, "interval": estimate.interval})

    @property
    def row(self) -> JsonObject:
        """Return the figures as JSON."""
        return self.model_dump(by_alias=True)

    @property
    def unjudged(self) -> int:
        """Return the number of responses that pass@1 leaves out."""
        return sum(self.verdicts.get(verdict, 0) for verdict in WITHOUT_VERDICT)


class HeldOut(Measured):
    """The figures of the first held-out set and, if there are several, of each by its name."""

    sets: dict[str, Measured] | None = None

    @property
    def by_name(self) -> Mapping[str, Measured]:
        """Return the figures of each set. The name of a single one is empty."""
        return self.sets or {"": self}

    @property
    def row(self) -> JsonObject:
        """Return the figures as `summary.json` has them."""
        row = self.model_dump(by_alias=True, exclude={"sets"})
        if self.sets is not None:
            row |= {"sets": {name: measured.row for name, measured in self.sets.items()}}
        return row


def held_out(sets: Mapping[str, Measured]) -> HeldOut:
    """Put the figures of the held-out sets together."""
    first = next(iter(sets.values()))
    several = {} if "" in sets else {"sets": dict(sets)}
    return HeldOut.model_validate({**first.row, **several})


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


def respond(
    session: Session,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    finished: Container[str],
    verifier: Verifier,
    deliver: Deliver,
) -> dict[str, str]:
    """Sample and judge the responses of the session's policy (`Task.respond`). None is missing."""
    sampler = Sampler(session.engine, session.policy.tokenizer, verifier)

    def on_group(group: Group) -> None:
        tokens = sum(rollout.n_tokens or 0 for rollout in group.rollouts)
        deliver({group.prompt.problem.id: group.rollouts}, tokens)

    evaluate(sampler, prompts, params, session.plan.config.seed, on_group, finished)
    return {}


def prompt_seeds(prompts: Sequence[Prompt], seed: int) -> list[int]:
    """Return the seed of each prompt's first response."""
    return problem_seeds([prompt.problem for prompt in prompts], seed)


def held_out_metrics(sets: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the metrics of a step's held-out sets. Those after the first set end in `/NAME`."""
    metrics: dict[str, Any] = {}
    for name, figures in sets.items():
        low, high = figures.interval or (None, None)
        suffix = f"/{name}" if metrics else ""
        metrics[f"held_out_pass@1{suffix}"] = figures.pass_at_1
        metrics[f"held_out_pass@1_low{suffix}"] = low
        metrics[f"held_out_pass@1_high{suffix}"] = high
        metrics[f"held_out_cons@k{suffix}"] = figures.cons_at_k
        metrics.setdefault("held_out_by_level", figures.by_level)
    return metrics


def summarize(
    problems: Sequence[JudgedProblem], params: SamplingParams, has_format: bool = True
) -> Measured:
    """Compute the figures of a held-out set.

    pass@1 and its 95 % interval over problems are None if no response was judged, and cons@k of all
    samples if no problem has that many judged responses. `has_format`: the prompt asks for a
    format.
    """
    figures = figures_of(problems, ks=(1, params.samples), has_format=has_format)
    pass_at_1 = figures.pass_at[1]
    consensus = figures.cons_at[params.samples]
    return Measured.model_validate(
        {
            "pass@1": None if pass_at_1 is None else pass_at_1.value,
            "interval": None if pass_at_1 is None else pass_at_1.interval,
            "cons@k": None if consensus is None else consensus.value,
            "problems": figures.problems,
            **vars(params),
            "format_share": figures.format_share,
            "cut_off_share": figures.cut_off_share,
            "response_length": figures.response_length,
            "verdicts": {verdict.value: count for verdict, count in figures.verdicts.items()},
            "by_level": by_level(problems),
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


def by_level(problems: Sequence[JudgedProblem]) -> dict[str, float | None]:
    """Compute pass@1 for each value of the problems' field `level`.

    The result is empty if a problem lacks the field, or if a table cannot hold the values.
    """
    parts = by_value(problems, "level")
    if str(None) in parts or len(parts) > _MOST_LEVELS:
        return {}
    levels = {}
    for level, part in parts.items():
        estimate = pass_estimate([problem.tally for problem in part], 1)
        levels[level] = None if estimate is None else estimate.value
    return levels


def checks_itself(text: str) -> bool:
    """Return whether a response has a word of self-checking. A plain search, thirty times as fast,
    leaves few texts for the pattern."""
    lowered = text.lower()
    return any(word in lowered for word in REFLECTIONS) and bool(_REFLECTION.search(lowered))


def rollout_metrics(groups: Sequence[Group], has_format: bool = True) -> dict[str, Any]:
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
    return {
        "reward": mean(r.reward for r in rollouts if r.reward is not None),
        "pass@1": pass_at_1(groups),
        "response_length": mean(tokens),
        # The mean of -log p over samples of p estimates its entropy.
        "sampled_entropy": mean(-value for value in logprobs),
        "reflections": mean(checks_itself(rollout.text) for rollout in rollouts),
        "mixed_share": mean(group.is_mixed for group in groups),
        "format_share": mean(verdict.format_ok for verdict in judged) if has_format else None,
        "unjudged_share": mean(not r.has_verdict for r in rollouts),
        "cut_off_share": mean(r.completion.finish_reason == "length" for r in rollouts),
        "groups_sampled": len(groups),
        "tokens_sampled": sum(tokens),
        "verdicts": dict(Counter(sorted(v.verdict.value for v in judged))),
        **{f"reward/{name}": mean(values) for name, values in rewards.items()},
    }
