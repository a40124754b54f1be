"""`rlvr eval`, once its settings are resolved."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rlvr_cli.cli.publish import ReportOptions, earlier_results, publish
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.logs import LOG
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.data.problems import ProblemSet, load_all
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.rows import response_row
from rlvr_cli.data.sources import DEFAULT_PROMPT
from rlvr_cli.evaluation import fingerprint
from rlvr_cli.evaluation.measure import evaluate
from rlvr_cli.evaluation.metrics import mean, pass_at_1
from rlvr_cli.evaluation.report import Result, check_fields, judged_problems
from rlvr_cli.evaluation.responses import check_problems
from rlvr_cli.evaluation.result_dir import PartialResult, ResultDirectory, file_names
from rlvr_cli.model.loading import has_own_settings, model_files, published_sampling
from rlvr_cli.ranks.group import decided, is_first
from rlvr_cli.rollout.plan import Plan, choose_format, plan_for
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.rollout.session import Session, open_session, prompts_for
from rlvr_cli.runs.narration import say_template, warn_of_bad_golds
from verifiers import OURS, Format, open_judge

_Sets = dict[str | tuple[str, ...], ProblemSet]


def eval_(configs: Sequence[Config], asked: ReportOptions, display: Display) -> None:
    """Run `rlvr eval` with models: one configuration for each model and problem set.

    Those of one model stand together. Raises UserError for anything wrong with the input, before
    a model is loaded where it can be known.
    """
    sets = _problem_sets(configs, asked)
    configs = [_in_its_own_way(config, sets[config.data.source], display) for config in configs]
    plans = [plan_for(config, sets[config.data.source]) for config in configs]
    directory = None if asked.out is None or not is_first() else ResultDirectory(asked.out)
    ours = {
        (config.model, sets[config.data.source].name): sets[config.data.source].problems
        for config in configs
    }
    names = dict(zip(ours, file_names(list(ours)), strict=True))
    results = []
    with open_judge(asked.judge) as equality:
        theirs = earlier_results(asked, ours, equality)
        for found in sets.values():
            if found.taken:
                display.say("problems", f"{len(found.problems)} of {found.name}; {found.taken}")
            if any(name in found.problems[0].extra for name in ("response", "responses")):
                display.warn(
                    f"{found.name} holds responses, which the model's own take no notice of: "
                    f"rlvr eval --responses {found.name} judges them"
                )
        for model, of_model in groupby(plans, key=lambda plan: plan.config.model):
            listed = list(of_model)
            with open_session(listed[0]) as session:
                display.say("policy", f"{model}: {session.description}")
                if published := published_sampling(session.policy.model):
                    display.say("published", f"its generation_config asks for {published}")
                model_sha = fingerprint.model_hash(model_files(model))
                for plan in listed:
                    problems = sets[plan.config.data.source]
                    name = names[model, problems.name]
                    run = _Measurement(plan, problems, session, model_sha, asked.judge)
                    say_template(run.prompts, session, display)
                    unfinished = run.unfinished(directory, name, display)
                    speed = run.sample(unfinished, display)
                    if not is_first():
                        continue
                    rows = unfinished.rows(prompt.problem.id for prompt in run.prompts)
                    judged = judged_problems(rows, equality.cluster)
                    results.append(
                        Result(model, problems.name, run.fingerprint, judged, speed=speed)
                    )
        if is_first():
            publish(results, asked, directory, theirs, display)


class _Measurement:
    """Evaluate one model on one problem set."""

    def __init__(
        self, plan: Plan, problems: ProblemSet, session: Session, model_sha: str, judge: str
    ) -> None:
        self.problems, self.session, self.judge = problems, session, judge
        self.config = config = plan.config
        self.answer_format: Format = plan.answer_format if judge == OURS else "any"
        self.prompts, self.params = _prompts_and_params(plan, problems, session)
        template = template_text(config.data.prompt or problems.prompt)
        self.fingerprint: fingerprint.Fingerprint = {
            "model": model_sha,
            "data": fingerprint.data_hash(prompt.problem for prompt in self.prompts),
            "prompts": fingerprint.prompts_hash(self.prompts),
            **fingerprint.sampling(self.params, config.seed, template),
            **fingerprint.engine_versions(session.engine, session.device, session.plan.threads),
            **fingerprint.judging(self.answer_format, judge, config.eval.votes),
        }

    def unfinished(
        self, directory: ResultDirectory | None, name: str, display: Display
    ) -> PartialResult:
        """Return what an earlier command left of it, if anything."""
        samples = self.params.samples
        if directory is None:
            return PartialResult(None, self.fingerprint, samples)
        found = directory.unfinished(name, self.fingerprint, samples)
        if found.dropped:
            display.warn(
                f"{found.path}: {plural(found.dropped, 'line')} could not be read; "
                "what stood there is sampled again"
            )
        if found.rows_of:
            display.say(
                "going on", f"{len(found.rows_of)} of {len(self.prompts)} problems are done already"
            )
        return found

    def sample(self, unfinished: PartialResult, display: Display) -> dict[str, float] | None:
        """Sample and judge the problems that are not done; return how fast, if any were left. An
        interrupt says how many are done."""
        done = set(decided(list(unfinished.rows_of)))
        with (
            open_judge(self.judge, format=self.answer_format) as verifier,
            display.progress(self.problems.name, len(self.prompts), len(done), lines=True) as bar,
        ):
            warn_of_bad_golds(self.prompts, verifier, display)
            tokens, written, started = 0, 0.0, time.perf_counter()
            shares: list[float] = []

            def on_group(group: Group) -> None:
                nonlocal tokens, written
                before = time.perf_counter()
                tokens += sum(len(one.completion.token_ids) for one in group.rollouts)
                rows = [response_row(rollout) for rollout in group.rollouts]
                unfinished.add(group.prompt.problem.id, rows)
                if (share := pass_at_1([group])) is not None:
                    shares.append(share)
                bar.tick(f"pass@1 {measured(mean(shares))}")
                written += time.perf_counter() - before

            sampler = Sampler(self.session.engine, self.session.policy.tokenizer, verifier)
            try:
                evaluate(sampler, self.prompts, self.params, self.config.seed, on_group, done)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._kept(unfinished)) from None
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

    def _kept(self, unfinished: PartialResult) -> str:
        """Say what an interrupt leaves."""
        if unfinished.path is None:
            return ""
        done = f"{len(unfinished.rows_of)} of {len(self.prompts)} problems of {self.problems.name}"
        return f"kept {done} with {self.config.model}; give the same command again to go on"


def _in_its_own_way(config: Config, problems: ProblemSet, display: Display) -> Config:
    """Ask a model that is no run for a box, as published, unless another format is asked for."""
    is_ours = choose_format(problems, config.data) == DEFAULT_PROMPT
    if config.data.prompt is not None or not is_ours or has_own_settings(config.model):
        return config
    display.say(
        "asked",
        f"{config.model} is no run, so {problems.name} asks it for a \\boxed{{}} answer; --prompt "
        f"{DEFAULT_PROMPT} asks for the format that runs are trained on",
    )
    data = config.data.model_copy(update={"prompt": "boxed"})
    return config.model_copy(update={"data": data})


def _problem_sets(configs: Sequence[Config], asked: ReportOptions) -> _Sets:
    """Return the problems of each source, read once and checked, whatever the limit."""
    sets: _Sets = {}
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
