"""`rlvr eval` with models and `rlvr sample`, once their settings are resolved."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from rlvr_cli.cli.problems import (
    Sets,
    problem_sets,
    say_fields,
    say_resumed,
)
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, LiveResponse, measured, show_verdict
from rlvr_cli.console.tables import Figures
from rlvr_cli.core.types import Group, Prompt, SamplingParams, by_key
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.rows import ResponseRow, response_row
from rlvr_cli.data.sources import DEFAULT_PROMPT
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.fingerprint import (
    Fingerprint,
    data_hash,
    engine_fingerprint,
    judge_fingerprint,
    model_hash,
    prompts_hash,
    sampling_fingerprint,
)
from rlvr_cli.evaluation.imported import Label
from rlvr_cli.evaluation.measure import evaluate, pass_at_1, prompt_seeds
from rlvr_cli.evaluation.publish import ReportOptions, publish, read_baselines
from rlvr_cli.evaluation.report import Cluster, Result, judged_problems
from rlvr_cli.evaluation.result_dir import (
    PartialResult,
    ResultDirectory,
    file_names,
    partial_result,
)
from rlvr_cli.model.loading import model_files
from rlvr_cli.ranks.group import broadcast_from_first, is_first
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.runs.narration import say_policy, say_template, warn_of_bad_golds
from rlvr_cli.setup.plan import Plan, asks_for_boxed, plan_evaluation, plan_for
from rlvr_cli.setup.prompts import prompts_for
from rlvr_cli.setup.session import Session, open_session
from verifiers import OURS, Format, open_judge


class _Task(NamedTuple):
    """One model to measure on one problem set."""

    label: Label
    plan: Plan
    problems: ProblemSet
    file_name: str
    """The name of its files in the result directory."""


def eval_(
    configs: Sequence[Config],
    options: ReportOptions,
    display: Display,
    rows: Iterable[Any] | None = None,
) -> Figures:
    """Run `rlvr eval` with models, and return the report, which only the first process has.

    There is one configuration for each model and problem set. `rows` take the place of stdin.
    Raises UserError for anything wrong with the input, before a model is loaded if it can be known
    then.
    """
    sets = problem_sets(configs, options, rows)
    directory = None
    if options.out is not None and is_first():
        directory = ResultDirectory(options.out)
    tasks = _tasks(configs, sets, _beginning(directory), display)
    results = []
    with open_judge(options.judge) as equality:
        problems = {task.label: task.problems.problems for task in tasks}
        baselines = read_baselines(options, problems, equality)
        for problem_set in sets.values():
            say_fields(problem_set, display)
        for same_model in by_key(tasks, lambda task: task.label.model).values():
            results += _measure(same_model, options.judge, directory, equality.cluster, display)
        if not is_first():
            return {}
        return publish(results, options, directory, baselines, display)


def _beginning(directory: ResultDirectory | None) -> datetime:
    """Return when the evaluation began, the same for all processes. A command that continues a
    stopped evaluation has its date, because a chat template may write it into the prompts."""
    here = datetime.now() if directory is None else directory.began
    return datetime.fromisoformat(broadcast_from_first(str(here)))


def _tasks(configs: Sequence[Config], sets: Sets, began: datetime, display: Display) -> list[_Task]:
    """Plan the evaluation of each configuration."""
    labels = [Label(config.model, sets[config.data.source].name) for config in configs]
    tasks = []
    for config, label, name in zip(configs, labels, file_names(labels), strict=True):
        problems = sets[config.data.source]
        if asks_for_boxed(config, problems):
            display.say(
                "prompt",
                f"{config.model} is no run, so {problems.name} asks it for a \\boxed{{}} answer; "
                f"--prompt {DEFAULT_PROMPT} asks for the format that runs are trained on",
            )
        tasks.append(_Task(label, plan_evaluation(config, problems, began), problems, name))
    return tasks


def _measure(
    tasks: Sequence[_Task],
    judge: str,
    directory: ResultDirectory | None,
    cluster: Cluster,
    display: Display,
) -> list[Result]:
    """Sample and judge the tasks of one model. Return their results, in the first process only."""
    results = []
    model = tasks[0].label.model
    with open_session(tasks[0].plan) as session:
        say_policy(model, session, display)
        model_sha = model_hash(model_files(model))
        for task in tasks:
            prompts, params = _prompts_and_params(task.plan, task.problems, session)
            answer_format: Format = task.plan.answer_format if judge == OURS else "any"
            conditions = {
                "model": model_sha,
                **_fingerprint(task, prompts, params, session),
                **judge_fingerprint(answer_format, judge),
            }
            if session.plan.config.rollout.ends:
                conditions["ends"] = list(session.plan.config.rollout.ends)
            say_template(prompts, session, display)
            partial = partial_result(directory, task.file_name, conditions, params.samples)
            with open_judge(judge, format=answer_format) as verifier:
                sampler = Sampler(session.engine, session.policy.tokenizer, verifier)
                speed = _sample(sampler, task, prompts, params, partial, display)
            if is_first():
                rows = partial.rows(prompt.problem.id for prompt in prompts)
                problems = judged_problems(rows, cluster)
                results.append(Result(model, task.label.data, conditions, problems, speed=speed))
    return results


def _fingerprint(
    task: _Task, prompts: Sequence[Prompt], params: SamplingParams, session: Session
) -> Fingerprint:
    """Return the fingerprint of the data, the prompts, the sampling and the engine."""
    config = task.plan.config
    return {
        "data": data_hash(prompt.problem for prompt in prompts),
        "prompts": prompts_hash(prompts),
        **sampling_fingerprint(
            params, config.seed, template=template_text(config.data.prompt or task.problems.prompt)
        ),
        **engine_fingerprint(
            session.engine.name,
            precision=config.rollout.precision,
            device=session.device,
            threads=session.plan.config.threads or 1,
        ),
    }


def _sample(
    sampler: Sampler,
    task: _Task,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    partial: PartialResult,
    display: Display,
) -> dict[str, float] | None:
    """Sample and judge the problems that an earlier command did not, and add their rows to the
    partial result. Return the speed, or None if no problem was left."""
    say_resumed(partial, len(prompts), display)
    finished = set(broadcast_from_first(list(partial.rows_of)))
    lengths: list[int] = []
    shares: list[float] = []
    with display.progress(task.label.data, len(prompts), len(finished), lines=True) as bar:

        def on_group(group: Group) -> None:
            lengths.extend(len(rollout.completion.token_ids) for rollout in group.rollouts)
            partial.add(group.prompt.problem.id, list(map(response_row, group.rollouts)))
            share = pass_at_1([group])
            if share is not None:
                shares.append(share)
            bar.tick(f"pass@1 {measured(mean(shares))}")

        warn_of_bad_golds(prompts, sampler.verifier, display)
        started = time.perf_counter()
        evaluate(sampler, prompts, params, task.plan.config.seed, on_group, finished)
        seconds = time.perf_counter() - started
    tokens = sum(lengths)
    if not tokens:
        return None
    display.say("speed", f"{tokens:,} tokens, {tokens / seconds:,.0f} a second")
    return {"tokens": tokens, "seconds": seconds}


def _prompts_and_params(
    plan: Plan, problems: ProblemSet, session: Session
) -> tuple[list[Prompt], SamplingParams]:
    """Return the prompts of the first `limit` problems, and the sampling settings with the room for
    a response.

    Unless that is set, it is what the context leaves beside the longest prompt of the whole set, so
    that `limit` changes no answer.
    """
    config = plan.config
    limit = config.data.limit
    if "max_tokens" in config.rollout.model_fields_set:
        first = replace(problems, problems=problems.problems[:limit])
        prompts = prompts_for(first, session.policy, config, plan.evaluation.max_tokens)
        return prompts, plan.evaluation
    prompts = prompts_for(problems, session.policy, config, 1)
    longest = max(len(prompt.token_ids) for prompt in prompts)
    return prompts[:limit], plan.evaluation_within(session.policy.context - longest)


def sample(
    config: Config, problems: ProblemSet, display: Display, is_live: bool
) -> list[ResponseRow]:
    """Run `rlvr sample` and return the rows, or none if they are shown live on a terminal."""
    with open_session(plan_for(config, problems)) as session:
        config = session.plan.config
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        say_policy(config.model, session, display)
        if is_live:
            _show_live(prompts, session, display)
            return []
        groups = evaluate(session.sampler, prompts, session.plan.evaluation, config.seed)
    return [response_row(rollout) for group in groups for rollout in group.rollouts]


def _show_live(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Show each response on a terminal while it is written, those that a pipe would get."""
    sampler = session.sampler
    params = session.plan.evaluation
    one_sample = replace(params, samples=1)
    first_seeds = prompt_seeds(prompts, session.plan.config.seed)
    for prompt, first in zip(prompts, first_seeds, strict=True):
        display.say("problem", prompt.problem.problem)
        for seed in range(first, first + params.samples):
            live = LiveResponse(sampler.decode, prompt.think_open)
            stream = sampler.stream([prompt], one_sample, [seed], live)
            (group,) = sampler.judge([prompt], stream)
            print()
            show_verdict(group.rollouts[0])
