"""Measure a policy: the first half of the training loop, with statistics."""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass

from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.evaluation.metrics import by_level, pass_at_1, rollout_metrics, verdict_counts
from rlvr_cli.rollout.sampler import Sampler, response_seed


@dataclass(frozen=True)
class Evaluation:
    """The figures of one evaluation, with its settings."""

    pass_at_1: float | None
    """None where no response was judged."""
    problems: int
    samples: int
    temperature: float
    top_p: float
    max_tokens: int
    format_share: float | None
    """None where no format was asked for."""
    cut_off_share: float
    response_length: float
    verdicts: dict[str, int]
    by_level: dict[str, float | None]
    """pass@1 of each level, where the problems have levels."""

    def as_json(self) -> dict[str, object]:
        """Return the figures for the summary of a run or an evaluation."""
        values = asdict(self)
        return {"pass@1": values.pop("pass_at_1"), **values}

    @property
    def settings(self) -> str:
        """Return the measurement's settings in words."""
        return (
            f"{plural(self.problems, 'problem')} x {plural(self.samples, 'sample')}, "
            f"temperature {self.temperature:g}, top-p {self.top_p:g}, "
            f"at most {self.max_tokens} tokens"
        )


def evaluate(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    seed: int,
    on_group: Callable[[Group], None] = lambda group: None,
    done: Container[str] = (),
) -> list[Group]:
    """Sample and verify every prompt except those of problems whose ids are in `done`.

    `on_group` sees the groups as they finish; they come back in the order of the prompts.
    """
    pairs = zip(prompts, prompt_seeds(prompts, seed), strict=True)
    left = [(prompt, first) for prompt, first in pairs if prompt.problem.id not in done]
    todo, seeds = [prompt for prompt, _ in left], [first for _, first in left]
    groups: list[Group | None] = [None] * len(todo)
    for index, group in sampler.groups(todo, params, seeds):
        groups[index] = group
        on_group(group)
    return [group for group in groups if group is not None]


def prompt_seeds(prompts: Sequence[Prompt], seed: int) -> list[int]:
    """Return the seed of each prompt's first response, which depends only on the run's seed, the
    problem's text and how often it came before."""
    seen: Counter[str] = Counter()
    seeds = []
    for prompt in prompts:
        text = prompt.problem.problem
        seeds.append(response_seed(seed, "eval", text, seen[text]))
        seen[text] += 1
    return seeds


def summarize(
    groups: Sequence[Group], params: SamplingParams, has_format: bool = True
) -> Evaluation:
    """Summarize all groups; `has_format` says whether responses were asked for a format."""
    metrics = rollout_metrics(groups, has_format)
    return Evaluation(
        pass_at_1=pass_at_1(groups),
        problems=len(groups),
        samples=params.samples,
        temperature=params.temperature,
        top_p=params.top_p,
        max_tokens=params.max_tokens,
        format_share=metrics["format_share"],
        cut_off_share=metrics["cut_off_share"],
        response_length=metrics["response_length"],
        verdicts=verdict_counts(rollout for group in groups for rollout in group.rollouts),
        by_level=by_level(groups),
    )
