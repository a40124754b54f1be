"""One evaluation, many who respond: a model here, a server, a file, or the policy of a run."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from rlvr_cli.console.display import measured
from rlvr_cli.core.report import Fingerprint, Speed
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Label, Problem, Response
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.figures import Cluster, judged_problems, tally_of
from rlvr_cli.evaluation.report import Result
from rlvr_cli.evaluation.result_dir import PartialResult
from verifiers import Format, Verifier

Deliver = Callable[[Mapping[str, Sequence[Response]], float], None]
"""Takes the judged responses to problems by their ids, and how many tokens they have."""
NO_REPLY = "no reply"
"""Why responses are missing that a server did not give."""
Tick = Callable[[str, int], None]
"""Hears of pass@1 and of the speed so far, in words, and how many problems are done since."""


@dataclass(frozen=True)
class Task:
    """The responses of one model to one problem set, whoever gives them."""

    label: Label
    problems: Sequence[Problem]
    respond: Callable[[Set[str], Verifier, Deliver], Mapping[str, str]]
    """Gets and judges the responses to all problems but those with these ids, and delivers them as
    they come. Returns why problems have no response, by id."""
    answer_format: Format = "any"
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    """What the responses are measured with."""
    samples: int | None = None
    """Responses to each problem, or None for those of a file, which a stop cannot lose."""
    workers: int = 1
    """Processes that judge. One is enough while a model samples."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """How many responses failed where they were made, by the reason."""


@dataclass(frozen=True)
class TaskOutcome:
    """What came of a task."""

    result: Result
    failures: Mapping[str, str]
    """Why problems have no response, by id."""

    @property
    def first_failure(self) -> str:
        """Name the first problem without a response, and say why."""
        problem, reason = next(iter(self.failures.items()))
        return f"{shortened(problem)}: {reason}"


def carry_out(
    task: Task,
    verifier: Verifier,
    cluster: Cluster,
    stored: PartialResult,
    tick: Tick = lambda note, problems: None,
) -> TaskOutcome:
    """Get the responses of a task that are not stored yet, judge and store them, and tally all.

    `cluster` gives equal answers the same number, for cons@k.
    """
    tokens = 0.0
    shares: list[float] = []
    started = time.perf_counter()

    def deliver(responses_to: Mapping[str, Sequence[Response]], new_tokens: float) -> None:
        nonlocal tokens
        tokens += new_tokens
        stored.add(responses_to)
        tallies = map(tally_of, responses_to.values())
        shares.extend(tally.correct / tally.n for tally in tallies if tally.n)
        note = f"pass@1 {measured(mean(shares))}"
        if tokens:
            note += f", {tokens / (time.perf_counter() - started):,.0f} tokens a second"
        tick(note, len(responses_to))

    failures = task.respond(stored.responses_to.keys(), verifier, deliver)
    seconds = time.perf_counter() - started
    no_reply = {NO_REPLY: len(failures) * (task.samples or 1)} if failures else {}
    present = [problem.id for problem in task.problems if problem.id in stored.responses_to]
    result = Result(
        model=task.label.model,
        data=task.label.data,
        fingerprint=task.fingerprint,
        problems=judged_problems(stored.responses(present), cluster),
        speed=Speed(round(tokens), seconds) if tokens else None,
        failed={**task.failed, **no_reply},
    )
    return TaskOutcome(result, failures)
