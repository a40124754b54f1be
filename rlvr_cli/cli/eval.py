"""`rlvr eval` with models and `rlvr sample`, once their settings are resolved."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, LiveResponse, measured, show_verdict
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import writing
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Group, Problem, Prompt, SamplingParams
from rlvr_cli.data.problems import ProblemSet, joined, load_all
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.rows import response_row
from rlvr_cli.data.sources import DEFAULT_PROMPT, FILE_TYPES
from rlvr_cli.evaluation import fingerprint
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.imported import check_problems
from rlvr_cli.evaluation.measure import evaluate, pass_at_1, prompt_seeds
from rlvr_cli.evaluation.publish import ReportOptions, earlier_results, publish
from rlvr_cli.evaluation.report import Result, check_fields, judged_problems
from rlvr_cli.evaluation.result_dir import PartialResult, ResultDirectory, file_names
from rlvr_cli.model.loading import model_files
from rlvr_cli.ranks.group import broadcast_from_first, is_first
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.runs.narration import say_policy, say_template, warn_of_bad_golds
from rlvr_cli.runs.run_dir import rollout_lines
from rlvr_cli.setup.plan import Plan, asks_for_boxed, plan_evaluation, plan_for
from rlvr_cli.setup.session import Session, open_session, prompts_for
from verifiers import OURS, Format, open_judge


def eval_(configs: Sequence[Config], asked: ReportOptions, display: Display) -> None:
    """Run `rlvr eval` with models: one configuration for each model and problem set, those of one
    model together. Raises UserError for anything wrong with the input, before a model is loaded
    where it can be known."""
    sets = _problem_sets(configs, asked)
    directory = None if asked.out is None or not is_first() else ResultDirectory(asked.out)
    first = datetime.now() if directory is None else directory.began
    began = datetime.fromisoformat(broadcast_from_first(str(first)))
    plans: dict[tuple[str, str], tuple[Plan, ProblemSet]] = {}
    for config in configs:
        problems = sets[config.data.source]
        if asks_for_boxed(config, problems):
            display.say(
                "prompt",
                f"{config.model} is no run, so {problems.name} asks it for a \\boxed{{}} answer; "
                f"--prompt {DEFAULT_PROMPT} asks for the format that runs are trained on",
            )
        plan = plan_evaluation(config, problems, began)
        plans[config.model, problems.name] = plan, problems
    names = dict(zip(plans, file_names(list(plans)), strict=True))
    results = []
    with open_judge(asked.judge) as equality:
        ours = {pair: problems.problems for pair, (_, problems) in plans.items()}
        theirs = earlier_results(asked, ours, equality)
        for problems in sets.values():
            if problems.taken:
                count = f"{len(problems.problems)} of {problems.name}"
                display.say("problems", f"{count}; {problems.taken}")
            if {"response", "responses"} & problems.problems[0].extra.keys():
                display.warn(
                    f"{problems.name} holds responses, which are not read where a model gives its "
                    f"own: rlvr eval --responses {problems.name} judges them"
                )
        for model, of_model in groupby(plans, key=lambda pair: pair[0]):
            pairs = list(of_model)
            with open_session(plans[pairs[0]][0]) as session:
                say_policy(model, session, display)
                model_sha = fingerprint.model_hash(model_files(model))
                for pair in pairs:
                    plan, problems = plans[pair]
                    prompts, params = _prompts_and_params(plan, problems, session)
                    form: Format = plan.answer_format if asked.judge == OURS else "any"
                    template = template_text(plan.config.data.prompt or problems.prompt)
                    threads = session.plan.config.threads or 1
                    hardware = plan.config.rollout.precision, session.device, threads
                    how: fingerprint.Fingerprint = {
                        "model": model_sha,
                        "data": fingerprint.data_hash(prompt.problem for prompt in prompts),
                        "prompts": fingerprint.prompts_hash(prompts),
                        **fingerprint.sampling(params, plan.config.seed, template),
                        **fingerprint.engine_versions(session.engine.name, *hardware),
                        **fingerprint.judging(form, asked.judge),
                    }
                    if ends := session.plan.config.rollout.ends:
                        how["ends"] = list(ends)
                    say_template(prompts, session, display)
                    if directory is None:
                        done = PartialResult(None, how, params.samples)
                    else:
                        done = directory.unfinished(names[pair], how, params.samples)
                    with open_judge(asked.judge, format=form) as verifier:
                        sampler = Sampler(session.engine, session.policy.tokenizer, verifier)
                        seed, name = plan.config.seed, problems.name
                        speed = _sample(sampler, prompts, params, seed, name, done, display)
                    if is_first():
                        rows = done.rows(prompt.problem.id for prompt in prompts)
                        judged = judged_problems(rows, equality.cluster)
                        results.append(Result(*pair, how, judged, speed=speed))
        if is_first():
            publish(results, asked, directory, theirs, display)


def _sample(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    seed: int,
    name: str,
    partial: PartialResult,
    display: Display,
) -> dict[str, float] | None:
    """Sample and judge the problems of the set that an earlier command did not, and add their rows
    to the partial result. Return the speed; None if no problem was left."""
    if partial.dropped:
        lines = plural(partial.dropped, "line")
        display.warn(f"{partial.path}: {lines} could not be read; their problems are sampled again")
    if partial.rows_of:
        count = f"{len(partial.rows_of)} of {len(prompts)} problems"
        display.say("resumed", f"{count} are done already")
    done = set(broadcast_from_first(list(partial.rows_of)))
    with display.progress(name, len(prompts), len(done), lines=True) as bar:
        warn_of_bad_golds(prompts, sampler.verifier, display)
        tokens, started, shares = 0, time.perf_counter(), list[float]()

        def on_group(group: Group) -> None:
            nonlocal tokens
            tokens += sum(len(rollout.completion.token_ids) for rollout in group.rollouts)
            partial.add(group.prompt.problem.id, list(map(response_row, group.rollouts)))
            if (share := pass_at_1([group])) is not None:
                shares.append(share)
            bar.tick(f"pass@1 {measured(mean(shares))}")

        evaluate(sampler, prompts, params, seed, on_group, done)
    if not tokens:
        return None
    seconds = time.perf_counter() - started
    display.say("speed", f"{tokens:,} tokens, {tokens / seconds:,.0f} a second")
    return {"tokens": tokens, "seconds": seconds}


def _problem_sets(
    configs: Sequence[Config], asked: ReportOptions
) -> dict[str | tuple[str, ...], ProblemSet]:
    """Return the problems of each source, read once and checked, whatever the limit."""
    sets: dict[str | tuple[str, ...], ProblemSet] = {}
    for config in configs:
        data, samples = config.data, config.eval.samples
        if max(asked.ks, default=1) > samples:
            raise UserError(
                f"--k {max(asked.ks)}: larger than the {samples} samples a problem (-n)"
            )
        if data.source in sets:
            continue
        problems = load_all(data.sources, data.split or "test", data, limit=None)
        check_problems(zip(problems.places, problems.problems, strict=True), repeated=False)
        texts = {(problem.problem, problem.turns) for problem in problems.problems}
        if twins := len(problems.problems) - len(texts):
            LOG.warning(
                "%s: %s with the text of another: each counts as a problem of its own, and the "
                "intervals are too narrow",
                problems.name,
                plural(twins, "problem"),
            )
        fields = {key for problem in problems.problems for key in problem.extra}
        check_fields(asked.by, fields, problems.name)
        sets[data.source] = problems
    return sets


def _prompts_and_params(
    plan: Plan, problems: ProblemSet, session: Session
) -> tuple[list[Prompt], SamplingParams]:
    """Return the prompts of the first `limit` problems, and room for responses: as asked, else what
    the context leaves beside the set's longest prompt, so that `limit` changes no answer."""
    config, params, limit = plan.config, plan.evaluation, plan.config.data.limit
    if "max_tokens" in config.rollout.model_fields_set:
        first = replace(problems, problems=problems.problems[:limit])
        return prompts_for(first, session.policy, config, params.max_tokens), params
    prompts = prompts_for(problems, session.policy, config, 1)
    longest = max(len(prompt.token_ids) for prompt in prompts)
    return prompts[:limit], plan.evaluation_within(session.policy.context - longest)


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """Run `rlvr sample`: text on a terminal, JSONL in a pipe or in the file `out`."""
    parts = []
    for number, text in enumerate(inputs, 1):
        if text == "-" or text.endswith(FILE_TYPES):
            split = config.data.split or "test"
            parts.append(load_all([text], split, config.data, need_answer=False))
        elif text.strip():
            problem = Problem(f"prompt-{number}", text, None)
            parts.append(ProblemSet("prompt", (problem,), "plain"))
        else:
            raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    problems = joined(parts)
    if out is not None and out.exists():
        raise UserError(f"--out {out}: it exists already; name another or remove it")
    with open_session(plan_for(config, problems)) as session:
        config, sampler, params = session.plan.config, session.sampler, session.plan.evaluation
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        say_policy(config.model, session, display)
        if out is None and sys.stdout.isatty():
            # A terminal shows each response while it is written, those that a pipe would get.
            for prompt, first in zip(prompts, prompt_seeds(prompts, config.seed), strict=True):
                display.say("problem", prompt.problem.problem)
                for seed in range(first, first + params.samples):
                    live = LiveResponse(sampler.decode, prompt.think_open)
                    drawn = sampler.stream([prompt], replace(params, samples=1), [seed], live)
                    (group,) = sampler.judge([prompt], drawn)
                    print()
                    show_verdict(group.rollouts[0])
            return
        lines = rollout_lines(evaluate(sampler, prompts, params, config.seed))
        if out is None:
            sys.stdout.writelines(lines)
            return
        with writing(f"--out {out}"), out.open("x", encoding="utf-8") as file:
            file.writelines(lines)
