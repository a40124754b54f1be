"""`rlvr eval` and `rlvr sample` with `--endpoint`: a server samples, and we judge."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlvr_cli.cli.problems import problem_sets, say_fields, say_resumed
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, measured
from rlvr_cli.console.tables import Figures
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.seeds import problem_seeds
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem, SamplingParams, by_key
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import chat_of, template_text
from rlvr_cli.data.rows import ResponseRow, row_of
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.fingerprint import (
    Fingerprint,
    data_hash,
    judge_fingerprint,
    rows_hash,
)
from rlvr_cli.evaluation.imported import ImportedResponse, Label, finish_reason, judged_rows
from rlvr_cli.evaluation.publish import ReportOptions, publish, read_baselines
from rlvr_cli.evaluation.report import UNJUDGED, Result, judged_problems
from rlvr_cli.evaluation.result_dir import (
    PartialResult,
    ResultDirectory,
    file_names,
    partial_result,
)
from rlvr_cli.evaluation.served import NoReplyError, Outcome, Reply, Request, Server
from rlvr_cli.setup.plan import choose_format, with_boxed_prompt
from verifiers import OURS, Format, Verifier, open_judge

UNPINNED = "weights, chat template, precision, top_k and what else the server decides"


class Served:
    """A problem set as it is put to a served model."""

    def __init__(self, config: Config, problems: ProblemSet, judge: str = OURS) -> None:
        self.config = with_boxed_prompt(config, problems)
        self.label = Label(config.model, problems.name)
        self.judge = judge
        self.answer_format: Format = "any"
        if judge == OURS:
            self.answer_format = choose_format(problems, self.config.data)
        self.template = template_text(self.config.data.prompt or problems.prompt)
        self.problems = problems.problems[: config.data.limit]
        self.requests = self._requests()
        self.has_max_tokens = "max_tokens" in config.rollout.model_fields_set
        settings = config.eval
        self.params = SamplingParams(
            samples=settings.samples,
            max_tokens=config.rollout.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
        )

    def _requests(self) -> list[Request]:
        """Return the request for the responses to each problem."""
        requests = []
        seeds = problem_seeds(self.problems, self.config.seed)
        for problem, seed in zip(self.problems, seeds, strict=True):
            chat = chat_of(problem, self.template, self.config.data.system)
            messages = [{"role": role, "content": content} for role, content in chat]
            requests.append(Request(messages, self.config.eval.samples, seed))
        return requests

    def server(self) -> Server:
        """Return the server, as the configuration names it."""
        settings = self.config.server
        return Server(
            endpoint=settings.endpoint or "",
            model=self.config.model,
            key_variable=settings.key_env,
            in_flight=settings.in_flight,
            timeout=settings.timeout,
            tries=settings.tries,
            template_arguments=self.config.data.chat,
            has_max_tokens=self.has_max_tokens,
        )

    def fingerprint(self) -> Fingerprint:
        """Return what the figures are measured with, and what a server leaves open."""
        params = vars(self.params)
        if not self.has_max_tokens:
            params = {**params, "max_tokens": None}
        return {
            "server": {
                "endpoint": self.config.server.endpoint,
                "model": self.config.model,
                "not pinned": UNPINNED,
            },
            "data": data_hash(self.problems),
            "prompts": rows_hash([request.messages] for request in self.requests),
            "prompt": self.template,
            "sampling": {**params, "seed": self.config.seed},
            **judge_fingerprint(self.answer_format, self.judge),
        }


def eval_served(
    configs: Sequence[Config],
    options: ReportOptions,
    display: Display,
    rows: Iterable[Any] | None = None,
) -> Figures:
    """Run `rlvr eval` with the models of a server, and return the report.

    There is one configuration for each model and problem set. `rows` take the place of stdin.
    Raises UserError for anything wrong with the input, and for a server that cannot be asked.
    """
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise UserError("--endpoint is asked by one process; leave --processes out")
    sets = problem_sets(configs, options, rows)
    directory = None if options.out is None else ResultDirectory(options.out)
    tasks = [Served(config, sets[config.data.source], options.judge) for config in configs]
    names = file_names([task.label for task in tasks])
    results = []
    unanswered: list[str] = []
    with open_judge(options.judge) as equality:
        problems = {task.label: task.problems for task in tasks}
        baselines = read_baselines(options, problems, equality)
        for problem_set in sets.values():
            say_fields(problem_set, display)
        for server in {task.config.model: task.server() for task in tasks}.values():
            server.models()
        for task, name in zip(tasks, names, strict=True):
            conditions = task.fingerprint()
            partial = partial_result(directory, name, conditions, task.params.samples)
            with open_judge(options.judge, format=task.answer_format) as verifier:
                speed, failures = _ask(task, verifier, partial, display)
            unanswered += failures
            ids = [problem.id for problem in task.problems if problem.id in partial.rows_of]
            if not ids:
                raise task.server().failure(f"no request was answered ({failures[0]})")
            judged = judged_problems(partial.rows(ids), equality.cluster)
            results.append(Result(*task.label, conditions, judged, speed=speed))
        skips = all(config.data.skip_bad for config in configs)
        if unanswered and directory is not None and not skips:
            raise UserError(
                f"--out {directory.directory}: no reply to {plural(len(unanswered), 'problem')} "
                f"({unanswered[0]}); the others are kept, give the same command again to go "
                "on, and with --skip-bad to leave out what fails again"
            )
        return publish(results, options, directory, baselines, display)


def _ask(
    task: Served, verifier: Verifier, partial: PartialResult, display: Display
) -> tuple[dict[str, float] | None, list[str]]:
    """Ask for the responses that an earlier command did not get, and judge them as they come.

    Return the speed, and why each problem without a reply has none.
    """
    say_resumed(partial, len(task.problems), display)
    waiting = [
        (problem, request)
        for problem, request in zip(task.problems, task.requests, strict=True)
        if problem.id not in partial.rows_of
    ]
    failures: list[str] = []
    tokens = 0.0
    shares: list[float] = []
    started = time.perf_counter()
    done = len(task.problems) - len(waiting)
    with display.progress(task.label.data, len(task.problems), done, lines=True) as bar:

        def on_outcomes(outcomes: Mapping[int, Outcome]) -> None:
            nonlocal tokens
            responses = []
            for number, outcome in outcomes.items():
                problem, _ = waiting[number]
                if isinstance(outcome, NoReplyError):
                    failures.append(f"{shortened(problem.id)}: {outcome}")
                    continue
                tokens += sum(reply.mean_tokens for reply in outcome)
                responses += _responses(task.label, problem, outcome)
            rows_of = by_key(judged_rows(responses, verifier), lambda row: str(row["id"]))
            partial.add_all(rows_of)
            for rows in rows_of.values():
                share = mean(
                    row["verdict"] == "correct" for row in rows if row["verdict"] not in UNJUDGED
                )
                if share is not None:
                    shares.append(share)
            rate = f"{tokens / (time.perf_counter() - started):,.0f} tokens a second"
            bar.tick(f"pass@1 {measured(mean(shares))}, {rate}", len(outcomes))

        requests = [request for _, request in waiting]
        if requests:
            task.server().ask(requests, task.params, on_outcomes)
    if failures:
        display.warn(
            f"no reply to {plural(len(failures), 'problem')} of {len(task.problems)}, which the "
            f"figures leave out ({failures[0]})"
        )
    if not tokens:
        return None, failures
    return {"tokens": round(tokens), "seconds": time.perf_counter() - started}, failures


def _responses(label: Label, problem: Problem, replies: Sequence[Reply]) -> list[ImportedResponse]:
    """Return the replies to a problem as they are judged."""
    return [
        ImportedResponse(
            place="",
            label=label,
            problem=problem,
            response=reply.text,
            finish_reason=finish_reason(reply.finish_reason),
            n_tokens=reply.n_tokens,
            prompt=None,
            answer_format=None,
        )
        for reply in replies
    ]


def sample_served(config: Config, problems: ProblemSet, display: Display) -> list[ResponseRow]:
    """Run `rlvr sample` with the model of a server, and return the rows."""
    task = Served(config, problems)
    server = task.server()
    server.models()
    outcomes: dict[int, Outcome] = {}
    server.ask(task.requests, task.params, outcomes.update)
    rows: list[ResponseRow] = []
    with open_judge(OURS, format=task.answer_format) as verifier:
        for number, problem in enumerate(task.problems):
            outcome = outcomes[number]
            if isinstance(outcome, NoReplyError):
                display.warn(f"{shortened(problem.id)}: no reply: {outcome}")
                continue
            responses = _responses(task.label, problem, outcome)
            if problem.answer is not None:
                rows += judged_rows(responses, verifier)
                continue
            for sample, response in enumerate(responses):
                rows.append(
                    row_of(problem, sample, response.values, verification=None, reward=None)
                )
    if not rows:
        raise server.failure("no request was answered")
    return rows
