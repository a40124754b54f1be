"""`rlvr eval` and `rlvr sample` with `--endpoint`: a server samples, and we judge."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.cli.eval import problem_sets, sample_problems, say_fields, write_rows
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem, SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import chat_of, template_text
from rlvr_cli.data.rows import attempt_of, row_of
from rlvr_cli.data.sources import DEFAULT_PROMPT
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.fingerprint import (
    Fingerprint,
    data_hash,
    judge_fingerprint,
    rows_hash,
)
from rlvr_cli.evaluation.imported import CUT_OFF_REASONS, Label
from rlvr_cli.evaluation.measure import problem_seeds
from rlvr_cli.evaluation.publish import ReportOptions, publish, read_baselines
from rlvr_cli.evaluation.report import Result, judged_problems
from rlvr_cli.evaluation.result_dir import PartialResult, ResultDirectory, file_names
from rlvr_cli.evaluation.served import NoReplyError, Reply, Request, Server
from rlvr_cli.setup.plan import choose_format
from verifiers import OURS, Format, Verification, Verifier, open_judge

BOXED = "boxed"
"""The format that a served model is asked for in place of ours, which nobody taught it."""
UNPINNED = "weights, chat template, precision, top_k and what else the server decides"


class Served:
    """A problem set as it is put to a served model."""

    def __init__(self, config: Config, problems: ProblemSet) -> None:
        self.config = config
        self.label = Label(config.model, problems.name)
        template = config.data.prompt or problems.prompt
        if template == DEFAULT_PROMPT and config.data.prompt is None:
            template = BOXED
        data = config.data.model_copy(update={"prompt": template})
        self.answer_format = choose_format(problems, data)
        self.template = template_text(template)
        self.problems = problems.problems[: config.data.limit]
        self.has_max_tokens = "max_tokens" in config.rollout.model_fields_set
        settings = config.eval
        self.params = SamplingParams(
            samples=settings.samples,
            max_tokens=config.rollout.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
        )

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """Return the chat that puts a problem to the model."""
        chat = chat_of(problem, self.template, self.config.data.system)
        return [{"role": role, "content": content} for role, content in chat]

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

    def fingerprint(self, judge: str) -> Fingerprint:
        """Return what the figures are measured with, and what a server leaves open."""
        answer_format: Format = self.answer_format if judge == OURS else "any"
        params = vars(self.params)
        if not self.has_max_tokens:
            params = {**params, "max_tokens": None}
        chats = [self.messages(problem) for problem in self.problems]
        return {
            "server": {
                "endpoint": self.config.server.endpoint,
                "model": self.config.model,
                "not pinned": UNPINNED,
            },
            "data": data_hash(self.problems),
            "prompts": rows_hash([chat] for chat in chats),
            "prompt": self.template,
            "sampling": {**params, "seed": self.config.seed},
            **judge_fingerprint(answer_format, judge),
        }


def eval_served(configs: Sequence[Config], options: ReportOptions, display: Display) -> None:
    """Run `rlvr eval` with the models of a server.

    There is one configuration for each model and problem set. Raises UserError for anything wrong
    with the input, and for a server that cannot be asked.
    """
    sets = problem_sets(configs, options)
    directory = None if options.out is None else ResultDirectory(options.out)
    tasks = [Served(config, sets[config.data.source]) for config in configs]
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
            conditions = task.fingerprint(options.judge)
            if directory is None:
                partial = PartialResult(None, conditions, task.params.samples)
            else:
                partial = directory.unfinished(name, conditions, task.params.samples)
            answer_format = task.answer_format if options.judge == OURS else "any"
            with open_judge(options.judge, format=answer_format) as verifier:
                speed, failures = _ask(task, verifier, partial, display)
            unanswered += failures
            ids = [problem.id for problem in task.problems if problem.id in partial.rows_of]
            if not ids:
                raise UserError(f"--endpoint {task.config.server.endpoint}: {failures[0]}")
            judged = judged_problems(partial.rows(ids), equality.cluster)
            results.append(Result(*task.label, conditions, judged, speed=speed))
        if unanswered and directory is not None:
            raise UserError(
                f"--out {directory.directory}: no reply to {plural(len(unanswered), 'problem')} "
                f"({unanswered[0]}); the others are kept, give the same command again to go on"
            )
        publish(results, options, directory, baselines, display)


def _ask(
    task: Served, verifier: Verifier, partial: PartialResult, display: Display
) -> tuple[dict[str, float] | None, list[str]]:
    """Ask for the responses that an earlier command did not get, and judge them as they come.

    Return the speed, and why each problem without a reply has none.
    """
    if partial.rows_of:
        count = f"{len(partial.rows_of)} of {len(task.problems)} problems"
        display.say("resumed", f"{count} are done already")
    seeds = problem_seeds(task.problems, task.config.seed)
    waiting = [
        (problem, seed)
        for problem, seed in zip(task.problems, seeds, strict=True)
        if problem.id not in partial.rows_of
    ]
    requests = [
        Request(task.messages(problem), task.params.samples, seed) for problem, seed in waiting
    ]
    failures: list[str] = []
    counts: Counter[str] = Counter()
    shares: list[float] = []
    started = time.perf_counter()
    done = len(task.problems) - len(waiting)
    with display.progress(task.label.data, len(task.problems), done, lines=True) as bar:

        def on_reply(number: int, replies: list[Reply] | NoReplyError) -> None:
            problem, _ = waiting[number]
            if isinstance(replies, NoReplyError):
                failures.append(f"{shortened(problem.id)}: {replies}")
            else:
                rows = _judged(problem, replies, verifier)
                partial.add(problem.id, rows)
                counts["tokens"] += sum(reply.n_tokens or 0 for reply in replies)
                shares.append(mean(row["verdict"] == "correct" for row in rows) or 0.0)
            seconds = time.perf_counter() - started
            rate = (
                f", {counts['tokens'] / seconds:,.0f} tokens a second" if counts["tokens"] else ""
            )
            bar.tick(f"pass@1 {measured(mean(shares))}{rate}")

        task.server().ask(requests, task.params, on_reply)
    if failures:
        display.warn(
            f"no reply to {plural(len(failures), 'problem')} of {len(task.problems)}, which the "
            f"figures leave out ({failures[0]})"
        )
    if not counts["tokens"]:
        return None, failures
    seconds = time.perf_counter() - started
    return {"tokens": counts["tokens"], "seconds": seconds}, failures


def _judged(problem: Problem, replies: Sequence[Reply], verifier: Verifier) -> list[dict[str, Any]]:
    """Judge the replies to a problem as rows."""
    values = [
        {
            "prompt": None,
            "response": reply.text,
            "finish_reason": _finish_reason(reply),
            "n_tokens": reply.n_tokens,
        }
        for reply in replies
    ]
    verifications: Sequence[Verification | None] = [None] * len(values)
    if problem.answer is not None:
        attempts = [attempt_of({**row, "answer": problem.answer}) for row in values]
        verifications = verifier.verify_many(attempts)
    return [
        row_of(problem, sample, row, verification, reward(verification) if verification else None)
        for sample, (row, verification) in enumerate(zip(values, verifications, strict=True))
    ]


def _finish_reason(reply: Reply) -> str | None:
    """Return `length` if the server cut the response off, else its own word."""
    return "length" if reply.finish_reason in CUT_OFF_REASONS else reply.finish_reason


def sample_served(
    config: Config, inputs: Sequence[str], out: Path | None, display: Display
) -> None:
    """Run `rlvr sample` with the model of a server: rows to a pipe or to the file `out`."""
    problems = sample_problems(config, inputs, out)
    task = Served(config, problems)
    server = task.server()
    server.models()
    requests = [
        Request(task.messages(problem), task.params.samples, seed)
        for problem, seed in zip(
            task.problems, problem_seeds(task.problems, config.seed), strict=True
        )
    ]
    rows: dict[int, list[dict[str, Any]]] = {}
    with open_judge(OURS, format=task.answer_format) as verifier:

        def on_reply(number: int, replies: list[Reply] | NoReplyError) -> None:
            problem = task.problems[number]
            if isinstance(replies, NoReplyError):
                display.warn(f"{shortened(problem.id)}: no reply: {replies}")
            else:
                rows[number] = _judged(problem, replies, verifier)

        server.ask(requests, task.params, on_reply)
    write_rows((jsonl_line(row) for number in sorted(rows) for row in rows[number]), out)
