"""Run `rlvr eval`: the same steps, whether a model here, a server or a file has the responses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Protocol

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Label, Problem, Response
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.evaluation.figures import Cluster
from rlvr_cli.evaluation.publish import ReportOptions, publish, read_baselines
from rlvr_cli.evaluation.result_dir import PartialResult, ResultDirectory, file_names
from rlvr_cli.evaluation.task import Task, TaskOutcome, carry_out
from rlvr_cli.program.problems import Sets, problem_sets, say_fields, say_resumed
from verifiers import open_judge


class Responder(Protocol):
    """Who gives the responses: models here (`program.local`) or a server (`program.served`)."""

    def is_writer(self) -> bool:
        """Return whether this process writes the results, and is not one of several others."""

    def tasks(
        self,
        configs: Sequence[Config],
        sets: Sets,
        judge: str,
        began: datetime,
        display: Display,
    ) -> Iterable[Task]:
        """Return the task of each configuration. A model is loaded when its first one is due."""

    def sample(
        self, config: Config, problems: ProblemSet, display: Display, is_live: bool
    ) -> list[Response]:
        """Return the responses of `rlvr sample`, or none if they are shown live on a terminal."""


def responder_of(config: Config) -> Responder:
    """Return who gives the responses that a configuration asks for. Only models need torch."""
    if config.server.endpoint is not None:
        from rlvr_cli.program import served

        return served
    from rlvr_cli.program import local

    return local


def evaluate_models(
    configs: Sequence[Config],
    options: ReportOptions,
    display: Display,
    rows: Iterable[object] | None = None,
) -> JsonObject:
    """Run `rlvr eval`, and return the report, which only the process that writes has.

    There is one configuration for each model and problem set. `rows` take the place of stdin.
    Raises UserError for anything wrong with the input, before a model is loaded if it can be known
    then.
    """
    responder = responder_of(configs[0])
    is_writer = responder.is_writer()
    sets = problem_sets(configs, options, rows)
    directory = None
    if options.out is not None and is_writer:
        directory = ResultDirectory(options.out)
    # A chat template may write the date. A command that goes on uses the earlier command's.
    began = datetime.now() if directory is None else directory.began
    tasks = responder.tasks(configs, sets, options.judge, began, display)
    problems = {
        Label(config.model, sets[config.data.source].name): sets[config.data.source].problems
        for config in configs
    }

    def say_before() -> None:
        for problem_set in sets.values():
            say_fields(problem_set, display)

    return measure(
        tasks,
        problems,
        options,
        directory,
        display,
        say_before,
        is_writer=is_writer,
        skips_bad=all(config.data.skip_bad for config in configs),
    )


def measure(
    tasks: Iterable[Task],
    problems: Mapping[Label, Sequence[Problem]],
    options: ReportOptions,
    directory: ResultDirectory | None,
    display: Display,
    say_before: Callable[[], None],
    is_writer: bool = True,
    skips_bad: bool = False,
) -> JsonObject:
    """Get, judge and publish the responses of all tasks, and return the report.

    `problems` are those of each task by its label. Raises UserError for problems without a response
    in a directory, which keeps the others, unless it `skips_bad` ones.
    """
    names = dict(zip(problems, file_names(list(problems)), strict=True))
    outcomes = []
    with open_judge(options.judge) as equality:
        baselines = read_baselines(options, problems, equality)
        say_before()
        for task in tasks:
            stored = _stored(task, names[task.label], directory)
            say_resumed(stored, len(task.problems), display)
            outcomes.append(_outcome(task, options.judge, equality.cluster, stored, display))
        if not is_writer:
            return {}
        failed = [outcome for outcome in outcomes if outcome.failures]
        if failed and directory is not None and not skips_bad:
            count = sum(len(outcome.failures) for outcome in failed)
            raise UserError(
                f"--out {directory.directory}: no reply to {plural(count, 'problem')} "
                f"({failed[0].first_failure}); the others are kept, give the same command again "
                "to go on, and with --skip-bad to leave out what fails again"
            )
        results = [outcome.result for outcome in outcomes]
        return publish(results, options, directory, baselines, display)


def _stored(task: Task, name: str, directory: ResultDirectory | None) -> PartialResult:
    """Return what an earlier command has stored of a task, under this name in the directory."""
    if directory is not None:
        directory.hold()
        if task.samples is not None:
            return directory.unfinished(name, task.fingerprint, task.samples)
    return PartialResult(None, task.fingerprint, 0)


def _outcome(
    task: Task, judge: str, cluster: Cluster, stored: PartialResult, display: Display
) -> TaskOutcome:
    """Carry out a task with a progress bar, and say how fast it was and what failed."""
    total = len(task.problems)
    n_finished = len(stored.responses_to)
    with ExitStack() as stack:
        bar = stack.enter_context(display.progress(task.label.data, total, n_finished, lines=True))
        verifier = stack.enter_context(
            open_judge(judge, format=task.answer_format, workers=task.workers)
        )
        outcome = carry_out(task, verifier, cluster, stored, bar.tick)
    speed = outcome.result.speed
    if outcome.failures:
        display.warn(
            f"no reply to {plural(len(outcome.failures), 'problem')} of {total}, which the figures "
            f"leave out ({outcome.first_failure})"
        )
    if speed is not None:
        rate = speed.tokens / speed.seconds
        display.say("speed", f"{speed.tokens:,} tokens, {rate:,.0f} a second")
    return outcome
