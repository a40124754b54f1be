"""Measure a policy: the first half of the training loop, with statistics."""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.data.rows import response_row
from rlvr_cli.evaluation.estimators import cons_estimate, pass_estimate
from rlvr_cli.evaluation.metrics import by_level, rollout_metrics
from rlvr_cli.evaluation.report import Cluster, drawn_in_words, tally_of
from rlvr_cli.rollout.sampler import Sampler, response_seed

_SHARES = ("format_share", "cut_off_share", "response_length", "verdicts")

Evaluation = dict[str, Any]
"""The figures of one evaluation, with its settings, as JSON (`summarize`)."""


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
    return sampler.verify(todo, sampler.rollout(todo, params, seeds), on_group=on_group)


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


def held_out_metrics(found: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the metrics of a step's held-out sets; `/NAME` follows those after the first set."""
    metrics: dict[str, Any] = {}
    for name, one in found.items():
        low, high = one["interval"] or (None, None)
        of_set = {"pass@1": one["pass@1"], "pass@1_low": low, "pass@1_high": high}
        of_set["cons@k"], suffix = one["cons@k"], f"/{name}" if metrics else ""
        metrics |= {f"held_out_{key}{suffix}": value for key, value in of_set.items()}
        metrics.setdefault("held_out_by_level", one["by_level"])
    return metrics


def summarize(
    groups: Sequence[Group], params: SamplingParams, cluster: Cluster, has_format: bool = True
) -> Evaluation:
    """Summarize all groups: pass@1 with its 95 % interval over problems, None where no response was
    judged; cons@k of all samples, None where no problem has as many that were judged; `by_level`
    where the problems have levels. `has_format` says whether responses were asked for a format."""
    metrics = rollout_metrics(groups, has_format)
    tallies = [tally_of(list(map(response_row, group.rollouts)), cluster) for group in groups]
    passed, agreed = pass_estimate(tallies, 1), cons_estimate(tallies, params.samples)
    return {
        "pass@1": metrics["pass@1"],
        "interval": passed["interval"] if passed else None,
        "cons@k": agreed["value"] if agreed else None,
        "problems": len(groups),
        **vars(params),
        **{key: metrics[key] for key in _SHARES},
        "by_level": by_level(groups),
        "settings": drawn_in_words(len(groups), vars(params)),
    }
