"""Judge responses made elsewhere (`rlvr eval --responses`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from itertools import chain, islice

from rlvr_cli.config import Config
from rlvr_cli.config.built_in import canonical
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Label, Problem, Response, by_key
from rlvr_cli.data.packaged import packaged_golds
from rlvr_cli.data.problems import ProblemSet, check_problems, load_problems, warn_of_bad_golds
from rlvr_cli.data.sources import UnavailableSetError
from rlvr_cli.evaluation.figures import field_value
from rlvr_cli.evaluation.fingerprint import data_hash, fingerprint, judging_by
from rlvr_cli.evaluation.imported import (
    ResponseFile,
    fields_of_files,
    judged,
    open_responses,
    origin_of,
    read_responses,
    response_sources,
    row_format,
)
from rlvr_cli.evaluation.publish import ReportOptions
from rlvr_cli.evaluation.report import check_fields
from rlvr_cli.evaluation.result_dir import ResultDirectory
from rlvr_cli.evaluation.task import Deliver, Task
from rlvr_cli.program.eval import measure
from verifiers import OURS, ChatMarks, Format, Verdict, Verifier, open_judge

_BATCH = 128
"""Problems that are judged between two ticks of the progress bar."""


def score(
    config: Config,
    sources: Sequence[str],
    golds: Sequence[str],
    options: ReportOptions,
    display: Display,
    rows: Iterable[object] | None = None,
) -> JsonObject:
    """Judge the rows of files or stdin, without a model, and return the report.

    `golds` may name the problem set that has their gold answers. `rows` take the place of stdin.
    Raises UserError for rows that cannot be judged.
    """
    files = [open_responses(source, rows) for source in response_sources(sources)]
    data = config.data
    readings: list[str] = []
    gold_set = _gold_set(canonical(golds[0]), data, readings.append) if golds else None
    rows_read = _read(files, data, gold_set, readings.append)
    responses = [response for response in rows_read if not response.has_failed]
    if not responses:
        raise UserError(f"no response to judge: {_in_words(rows_read)}")
    failures = _failures(rows_read, {label_of(response) for response in responses})
    _check(responses, options.by)
    tasks = [
        _task(
            label,
            same_label,
            failures.get(label, ()),
            data.answer_format,
            options.judge,
            display,
        )
        for label, same_label in by_key(responses, label_of).items()
    ]
    directory = None if options.out is None else ResultDirectory(options.out)

    def say_before() -> None:
        for reading in readings:
            display.say("read", reading)
        for label, of_label in failures.items():
            display.warn(f"{label.model}: {_in_words(of_label)}, which no figure counts")
        if gold_set is not None and data.limit is None:
            _warn_of_missing(tasks, len(gold_set.problems), display)
        has_row_formats = any(origin_of(response).answer_format for response in responses)
        if options.judge == OURS and data.answer_format is None and has_row_formats:
            names = ", ".join(dict.fromkeys(task.answer_format for task in tasks))
            display.say("judged as", f"{names}, as the rows say")

    with open_judge(options.judge) as equality:
        _warn_of_golds(responses, equality, display)
        problems = {response.problem.id: response.problem for response in responses}
        warn_of_bad_golds(list(problems.values()), equality, display)
    return measure(
        tasks,
        {task.label: task.problems for task in tasks},
        options,
        directory,
        display,
        say_before,
    )


def label_of(response: Response) -> Label:
    """Return the model and the problem set of a response."""
    return origin_of(response).label


def _task(
    label: Label,
    responses: Sequence[Response],
    failures: Sequence[Response],
    answer_format: Format | None,
    judge: str,
    display: Display,
) -> Task:
    """Return the task of judging the responses of one label, by the format that is configured, else
    by that of their rows. Another judge than ours takes any. Failures are counted alone."""
    by_id = by_key(responses, lambda response: response.problem.id)
    problems = [same_problem[0].problem for same_problem in by_id.values()]
    task_format = "any" if judge != OURS else answer_format or row_format(responses)
    return Task(
        label=label,
        problems=problems,
        respond=partial(_respond, label, list(by_id.values()), display),
        answer_format=task_format,
        fingerprint=fingerprint(judging_by(task_format, judge), data=data_hash(problems)),
        workers=usable_cores(),
        failed=_by_reason(failures),
    )


def _failures(responses: Sequence[Response], answered: Set[Label]) -> dict[Label, list[Response]]:
    """Group the failures by label. A row that failed may name no model: if all others are of one
    label, it is of that too."""
    failed = [response for response in responses if response.has_failed]
    if len(answered) == 1 and failed:
        return dict.fromkeys(answered, failed)
    return by_key(failed, label_of)


def _by_reason(failures: Iterable[Response]) -> dict[str, int]:
    """Count failures by the word for their end."""
    return dict(Counter(str(failure.finish_reason) for failure in failures).most_common())


def _in_words(failures: Sequence[Response]) -> str:
    """Say how many rows failed, why, and where the first one is."""
    reasons = ", ".join(
        f"{count} {shortened(reason)}" for reason, count in _by_reason(failures).items()
    )
    responses = plural(len(failures), "response")
    return f"{responses} failed ({reasons}; the first at {origin_of(failures[0]).place})"


def _respond(
    label: Label,
    same_problem: Sequence[Sequence[Response]],
    display: Display,
    finished: Set[str],
    verifier: Verifier,
    deliver: Deliver,
) -> dict[str, str]:
    """Judge the responses (`Task.respond`), and warn if they hold chat marks. None is missing."""
    chat_marks = ChatMarks()
    chat_marks.add(response.text for response in chain.from_iterable(same_problem))
    for line in chat_marks.lines():
        display.warn(f"{label.model}: {line}")
    groups = iter(same_problem)
    while batch := list(islice(groups, _BATCH)):
        responses = judged(list(chain.from_iterable(batch)), verifier)
        deliver(by_key(responses, lambda response: response.problem.id), 0.0)
    return {}


def _gold_set(source: str, data: DataConfig, say: Callable[[str], None]) -> ProblemSet:
    """Load the problem set that has the gold answers. If the hub does not give it, those that come
    with the package are taken. Raises UserError without any."""
    try:
        return load_problems(source, data.split or "test", root=data.root, skip_bad=data.skip_bad)
    except UnavailableSetError:
        gold_set = packaged_golds(source)
        if gold_set is None:
            raise
    say(
        f"{source}: the hub does not give it; ids and gold answers are those of the package, and "
        "rows are joined by id or exact text (HF_HUB_OFFLINE=1 does not wait for the hub)"
    )
    return gold_set


def _read(
    files: Sequence[ResponseFile],
    data: DataConfig,
    gold_set: ProblemSet | None,
    say: Callable[[str], None],
) -> list[Response]:
    """Read the responses of all files, and say how each was read."""
    responses: list[Response] = []
    for file, fields in zip(files, fields_of_files(files, data.fields), strict=True):
        responses += read_responses(
            file,
            limit=data.limit,
            skip_bad=data.skip_bad,
            fields=fields,
            golds=gold_set,
            say=say,
        )
    return responses


def _check(responses: Sequence[Response], by: Sequence[str]) -> None:
    """Raise UserError if problems contradict one another, if a set lacks a field of `by`, or if its
    value differs between the rows of a problem."""
    places = [(origin_of(response).place, response.problem) for response in responses]
    sets = [label_of(response).data for response in responses]
    check_problems(places, repeated=True, sets=sets)
    for data, part in by_key(responses, lambda response: label_of(response).data).items():
        check_fields(by, [response.problem.extra for response in part], data)
    first: dict[tuple[Label, str], Problem] = {}
    for response in responses:
        problem = response.problem
        first_problem = first.setdefault((label_of(response), problem.id), problem)
        for field in by:
            value = field_value(problem.extra, field)
            first_value = field_value(first_problem.extra, field)
            if value != first_value:
                raise UserError(
                    f"{origin_of(response).place}: --by {field}: rows of problem "
                    f"{shortened(problem.id)} have {shortened(str(value))} and "
                    f"{shortened(str(first_value))}; it must be of the problem, not of a response"
                )


def _warn_of_golds(responses: Sequence[Response], verifier: Verifier, display: Display) -> None:
    """Warn of rows whose gold answer is not equal to that of the named set."""
    examples = []
    for response in responses:
        origin = origin_of(response)
        gold = response.problem.answer or ""
        if origin.gold is None or origin.gold == gold:
            continue
        if verifier.equal(gold, origin.gold) == Verdict.CORRECT:
            continue
        examples.append(f"({origin.place}: {shortened(origin.gold)}, {shortened(gold)})")
    if examples:
        display.warn(
            f"{plural(len(examples), 'row')} with another gold answer than the set's, which counts "
            f"{examples[0]}: are they of this set?"
        )


def _warn_of_missing(tasks: Sequence[Task], total: int, display: Display) -> None:
    """Warn of tasks without responses to some of the `total` problems of the named set."""
    for task in tasks:
        missing = total - len(task.problems)
        if missing > 0:
            display.warn(
                f"{task.label.model}: no response to {missing} of the {plural(total, 'problem')} "
                f"of {task.label.data}; the figures leave them out"
            )
