"""`rlvr eval`, once its settings are resolved."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rlvr_cli.cli.publish import ReportOptions, earlier_results, publish
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.data.problems import ProblemSet, load_all
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.rows import response_row
from rlvr_cli.data.sources import DEFAULT_PROMPT
from rlvr_cli.evaluation import fingerprint
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.measure import evaluate, pass_at_1
from rlvr_cli.evaluation.report import Result, check_fields, judged_problems
from rlvr_cli.evaluation.responses import check_problems
from rlvr_cli.evaluation.result_dir import PartialResult, ResultDirectory, file_names
from rlvr_cli.model.loading import has_own_settings, model_files
from rlvr_cli.ranks.group import broadcast_from_first, is_first
from rlvr_cli.rollout.plan import Plan, choose_format, plan_for
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.rollout.session import Session, open_session, prompts_for
from rlvr_cli.runs.narration import say_template, warn_of_bad_golds
from verifiers import OURS, Format, Verifier, open_judge


def eval_(configs: Sequence[Config], asked: ReportOptions, display: Display) -> None:
    """Run `rlvr eval` with models: one configuration for each model and problem set.

    Those of one model stand together. Raises UserError for anything wrong with the input, before
    a model is loaded where it can be known.
    """
    sets = _problem_sets(configs, asked)
    plans: dict[tuple[str, str], tuple[Plan, ProblemSet]] = {}
    for config in configs:
        problems = sets[config.data.source]
        is_ours = choose_format(problems, config.data) == DEFAULT_PROMPT
        if config.data.prompt is None and is_ours and not has_own_settings(config.model):
            display.say(
                "asked",
                f"{config.model} is no run, so {problems.name} asks it for a \\boxed{{}} answer; "
                f"--prompt {DEFAULT_PROMPT} asks for the format that runs are trained on",
            )
            boxed = config.data.model_copy(update={"prompt": "boxed"})
            config = config.model_copy(update={"data": boxed})
        plans[config.model, problems.name] = plan_for(config, problems), problems
    directory = None if asked.out is None or not is_first() else ResultDirectory(asked.out)
    names = dict(zip(plans, file_names(list(plans)), strict=True))
    results = []
    with open_judge(asked.judge) as equality:
        ours = {pair: problems.problems for pair, (_, problems) in plans.items()}
        theirs = earlier_results(asked, ours, equality)
        for found in sets.values():
            if found.taken:
                display.say("problems", f"{len(found.problems)} of {found.name}; {found.taken}")
            if any(name in found.problems[0].extra for name in ("response", "responses")):
                display.warn(
                    f"{found.name} holds responses, which the model's own take no notice of: "
                    f"rlvr eval --responses {found.name} judges them"
                )
        for model, of_model in groupby(plans, key=lambda pair: pair[0]):
            pairs = list(of_model)
            with open_session(plans[pairs[0]][0]) as session:
                display.say("policy", f"{model}: {session.description}")
                model_sha = fingerprint.model_hash(model_files(model))
                for pair in pairs:
                    plan, problems = plans[pair]
                    prompts, params = _prompts_and_params(plan, problems, session)
                    form: Format = plan.answer_format if asked.judge == OURS else "any"
                    template = template_text(plan.config.data.prompt or problems.prompt)
                    threads = session.plan.config.threads or 1
                    how: fingerprint.Fingerprint = {
                        "model": model_sha,
                        "data": fingerprint.data_hash(prompt.problem for prompt in prompts),
                        "prompts": fingerprint.prompts_hash(prompts),
                        **fingerprint.sampling(params, plan.config.seed, template),
                        **fingerprint.engine_versions(session.engine.name, session.device, threads),
                        **fingerprint.judging(form, asked.judge, plan.config.eval.votes),
                    }
                    say_template(prompts, session, display)
                    if directory is None:
                        done = PartialResult(None, how, params.samples)
                    else:
                        done = directory.unfinished(names[pair], how, params.samples)
                    with open_judge(asked.judge, format=form) as verifier:
                        speed = _sample(
                            prompts, params, problems.name, session, verifier, done, display
                        )
                    if is_first():
                        rows = done.rows(prompt.problem.id for prompt in prompts)
                        judged = judged_problems(rows, equality.cluster)
                        results.append(Result(*pair, how, judged, speed=speed))
        if is_first():
            publish(results, asked, directory, theirs, display)


def _sample(
    prompts: Sequence[Prompt],
    params: SamplingParams,
    name: str,
    session: Session,
    verifier: Verifier,
    kept: PartialResult,
    display: Display,
) -> dict[str, float] | None:
    """Sample and judge the problems of the set that an earlier command did not; return how fast, if
    any were left."""
    if kept.dropped:
        display.warn(
            f"{kept.path}: {plural(kept.dropped, 'line')} could not be read; what stood there is "
            "sampled again"
        )
    if kept.rows_of:
        display.say("going on", f"{len(kept.rows_of)} of {len(prompts)} problems are done already")
    done = set(broadcast_from_first(list(kept.rows_of)))
    sampler = Sampler(session.engine, session.policy.tokenizer, verifier)
    with display.progress(name, len(prompts), len(done), lines=True) as bar:
        warn_of_bad_golds(prompts, verifier, display)
        tokens, written, started = 0, 0.0, time.perf_counter()
        shares: list[float] = []

        def on_group(group: Group) -> None:
            nonlocal tokens, written
            before = time.perf_counter()
            tokens += sum(len(one.completion.token_ids) for one in group.rollouts)
            kept.add(group.prompt.problem.id, list(map(response_row, group.rollouts)))
            if (share := pass_at_1([group])) is not None:
                shares.append(share)
            bar.tick(f"pass@1 {measured(mean(shares))}")
            written += time.perf_counter() - before

        evaluate(sampler, prompts, params, session.plan.config.seed, on_group, done)
    if not tokens:
        return None
    seconds = time.perf_counter() - started
    share = 1 - (sampler.seconds + written) / seconds
    display.say(
        "speed",
        f"{tokens:,} tokens, {tokens / seconds:,.0f} a second; {share:.0%} of the time was the "
        "engine's own",
    )
    return {"tokens": tokens, "seconds": seconds, "engine_share": share}


def _problem_sets(
    configs: Sequence[Config], asked: ReportOptions
) -> dict[str | tuple[str, ...], ProblemSet]:
    """Return the problems of each source, read once and checked, whatever the limit."""
    sets: dict[str | tuple[str, ...], ProblemSet] = {}
    for config in configs:
        data = config.data
        if max(asked.ks, default=1) > config.eval.samples:
            raise UserError(
                f"--k {max(asked.ks)}: larger than the {config.eval.samples} samples a problem (-n)"
            )
        if data.source in sets:
            continue
        found = load_all(data.sources, data.split or "test", data, limit=None)
        check_problems(zip(found.places, found.problems, strict=True), repeated=False)
        texts = {(problem.problem, problem.turns) for problem in found.problems}
        if again := len(found.problems) - len(texts):
            LOG.warning(
                "%s: %s with the text of another: each counts as a problem of its own, and the "
                "intervals are too narrow",
                found.name,
                plural(again, "problem"),
            )
        fields = {key for problem in found.problems for key in problem.extra}
        check_fields(asked.by, fields, found.name)
        sets[data.source] = found
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
