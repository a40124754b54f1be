"""Judge responses made elsewhere (`rlvr eval --responses`), and publish the results of every `rlvr
eval`: figures to the terminal, rows to a pipe, everything to `--out`."""

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rlvr_cli.config import Config
from rlvr_cli.config.problem_sets import canonical
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.console import results as console
from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import FORMATS, TABLE, Figures, print_report
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, Problem, by_key
from rlvr_cli.data.problems import ProblemSet, load_problems
from rlvr_cli.evaluation.fingerprint import data_hash, judge_fingerprint, judge_versions
from rlvr_cli.evaluation.imported import (
    ImportedResponse,
    Label,
    check_problems,
    judged_rows,
    read_responses,
    refuse_repeated,
    row_format,
    source_names,
)
from rlvr_cli.evaluation.report import (
    Result,
    check_comparable,
    check_fields,
    chosen_ks,
    compare,
    compare_with_first,
    count_any_form,
    field_value,
    judged_problems,
    report_entry,
)
from rlvr_cli.evaluation.result_dir import ResultDirectory, file_names, find_match, read_results
from verifiers import OURS, ChatMarks, Format, Verdict, Verifier, open_judge


@dataclass(frozen=True)
class ReportOptions:
    """What to report of results, and how: `--k --by --against --out --judge --format`."""

    ks: tuple[int, ...] = ()
    by: tuple[str, ...] = ()
    against: Path | None = None
    out: Path | None = None
    judge: str = OURS
    format: str | None = TABLE
    """None is for a call from Python, which prints no figures and no rows on stdout."""
    is_command: bool = True
    """Whether the process is the command that makes the report."""


def report_options(
    k: Iterable[str],
    by: Iterable[str],
    against: Path | None,
    out: Path | None,
    judge: str,
    format: str | None,
    assignments: Iterable[str],
    is_command: bool = True,
) -> ReportOptions:
    """Check the options of a report. Raises UserError."""
    judge_versions(judge)
    if format is not None and format not in (TABLE, *FORMATS):
        raise UserError(f"--format {shortened(format)}: one of {', '.join((TABLE, *FORMATS))}")
    names = [text.partition("=")[0].strip() for text in assignments]
    if judge != OURS and "data.answer_format" in names:
        raise UserError(f"--judge {judge} takes answers of any form; leave data.answer_format out")
    ks = _split(k)
    for part in ks:
        if not (part.isascii() and part.isdecimal() and len(part) < 10 and int(part)):
            raise UserError(f"--k {shortened(part)}: give numbers from 1 on, as --k 1,4,16")
    return ReportOptions(
        ks=tuple(map(int, ks)),
        by=_split(by),
        against=against,
        out=out,
        judge=judge,
        format=format,
        is_command=is_command,
    )


def _split(texts: Iterable[str]) -> tuple[str, ...]:
    """Split texts at their commas, and return each part once."""
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))


def read_baselines(
    options: ReportOptions,
    problems_by_label: Mapping[Label, Sequence[Problem]],
    verifier: Verifier,
) -> list[Result]:
    """Return the results that `--against` names, or none if it was not given. Raises UserError if
    the problems of a label cannot be compared with them."""
    if options.against is None:
        return []
    baselines = read_results(options.against, verifier.cluster)
    for label, problems in problems_by_label.items():
        baseline = find_match(label.model, label.data, baselines, options.against)
        texts = {problem.id: problem.problem or None for problem in problems}
        check_comparable(label.data, texts, baseline)
    return baselines


class _Part(NamedTuple):
    """The responses of one label, which become one result."""

    label: Label
    responses: Sequence[ImportedResponse]
    problems: tuple[Problem, ...]
    """Each problem once, as the first of its rows has it."""
    answer_format: Format
    """The format by which they are judged."""


def score(
    config: Config,
    sources: Sequence[str],
    golds: Sequence[str],
    options: ReportOptions,
    display: Display,
) -> None:
    """Judge the rows of files or stdin, without a model, and publish the figures.

    `golds` may name the problem set that has their gold answers. Raises UserError for rows that
    cannot be judged.
    """
    refuse_repeated(sources)
    data = config.data
    gold_set = None
    if golds:
        gold_set = load_problems(
            canonical(golds[0]), data.split or "test", root=data.root, skip_bad=data.skip_bad
        )
    readings: list[str] = []
    responses = _read(sources, data, gold_set, readings.append)
    _check(responses, options.by)
    parts = _parts(responses, data.answer_format, options.judge)
    directory = None if options.out is None else ResultDirectory(options.out)
    with open_judge(options.judge) as equality:
        _warn_of_golds(responses, equality, display)
        problems = {part.label: part.problems for part in parts}
        baselines = read_baselines(options, problems, equality)
    for reading in readings:
        display.say("read", reading)
    if gold_set is not None and data.limit is None:
        _warn_of_missing(parts, len(gold_set.problems), display)
    if directory is not None:
        directory.hold()
    results = _judge(parts, options.judge, display)
    has_row_formats = any(response.answer_format for response in responses)
    if options.judge == OURS and data.answer_format is None and has_row_formats:
        names = ", ".join(dict.fromkeys(part.answer_format for part in parts))
        display.say("judged as", f"{names}, as the rows say")
    publish(results, options, directory, baselines, display)


def _read(
    sources: Sequence[str],
    data: DataConfig,
    gold_set: ProblemSet | None,
    say: Callable[[str], None],
) -> list[ImportedResponse]:
    """Read the responses of all files, and say how each was read."""
    responses = []
    for source, name in zip(sources, source_names(sources), strict=True):
        responses += read_responses(
            source,
            limit=data.limit,
            skip_bad=data.skip_bad,
            fields=data.fields,
            golds=gold_set,
            model=name,
            say=say,
        )
    return responses


def _check(responses: Sequence[ImportedResponse], by: Sequence[str]) -> None:
    """Raise UserError if problems contradict one another, if a set lacks a field of `by`, or if its
    value differs between the rows of a problem."""
    places = [(response.place, response.problem) for response in responses]
    sets = [response.label.data for response in responses]
    check_problems(places, repeated=True, sets=sets)
    for data, part in by_key(responses, lambda response: response.label.data).items():
        check_fields(by, [response.problem.extra for response in part], data)
    first: dict[tuple[Label, str], Problem] = {}
    for response in responses:
        problem = response.problem
        first_problem = first.setdefault((response.label, problem.id), problem)
        for field in by:
            value = field_value(problem.extra, field)
            first_value = field_value(first_problem.extra, field)
            if value != first_value:
                raise UserError(
                    f"{response.place}: --by {field}: rows of problem {shortened(problem.id)} have "
                    f"{shortened(str(value))} and {shortened(str(first_value))}; it must be of the "
                    "problem, not of a response"
                )


def _parts(
    responses: Sequence[ImportedResponse], answer_format: Format | None, judge: str
) -> list[_Part]:
    """Split the responses by their label. They are judged by the format that is configured, else by
    that of their rows. Another judge than ours takes any."""
    parts = []
    for label, same_label in by_key(responses, lambda response: response.label).items():
        by_id = by_key(same_label, lambda response: response.problem.id)
        problems = tuple(same_problem[0].problem for same_problem in by_id.values())
        part_format = "any" if judge != OURS else answer_format or row_format(same_label)
        parts.append(_Part(label, same_label, problems, part_format))
    return parts


def _warn_of_golds(
    responses: Sequence[ImportedResponse], verifier: Verifier, display: Display
) -> None:
    """Warn of rows whose gold answer is not equal to that of the named set."""
    examples = []
    for response in responses:
        row_gold = response.row_gold
        gold = response.problem.answer or ""
        if row_gold in (None, gold) or verifier.equal(gold, row_gold) == Verdict.CORRECT:
            continue
        examples.append(f"({response.place}: {shortened(row_gold)}, {shortened(gold)})")
    if examples:
        display.warn(
            f"{plural(len(examples), 'row')} with another gold answer than the set's, which counts "
            f"{examples[0]}: are they of this set?"
        )


def _warn_of_missing(parts: Sequence[_Part], total: int, display: Display) -> None:
    """Warn of parts without responses to some of the `total` problems of the named set."""
    for part in parts:
        missing = total - len(part.problems)
        if missing > 0:
            display.warn(
                f"{part.label.model}: no response to {missing} of the {plural(total, 'problem')} "
                f"of {part.label.data}; the figures leave them out"
            )


def _judge(parts: Sequence[_Part], judge: str, display: Display) -> list[Result]:
    """Judge the responses of each part, and warn of those that hold chat marks."""
    results = []
    total = sum(len(part.responses) for part in parts)
    with display.progress("judging", total, lines=True) as bar:
        for part in parts:
            chat_marks = ChatMarks()
            chat_marks.add(response.response for response in part.responses)
            for line in chat_marks.lines():
                display.warn(f"{part.label.model}: {line}")
            with open_judge(judge, format=part.answer_format, workers=usable_cores()) as verifier:
                rows = judged_rows(part.responses, verifier, lambda count: bar.tick(advance=count))
                problems = judged_problems(rows, verifier.cluster)
            fingerprint = {
                "data": data_hash(part.problems),
                **judge_fingerprint(part.answer_format, judge),
            }
            results.append(Result(part.label.model, part.label.data, fingerprint, problems))
    return results


def publish(
    results: Sequence[Result],
    options: ReportOptions,
    directory: ResultDirectory | None,
    baselines: Sequence[Result],
    display: Display,
) -> Figures:
    """Show, compare and write results. Return the report, with the rows in its results.

    Raises UserError if the options do not fit the results. If a comparison fails, it raises
    UserError once all else is written.
    """
    with open_judge(OURS, workers=usable_cores()) as verifier:
        results = [count_any_form(result, verifier) for result in results]
    entries = [
        report_entry(result, chosen_ks(options.ks, result), options.by) for result in results
    ]
    console.show_results(entries, display)
    comparisons = compare_with_first(results, entries)
    if comparisons:
        console.show_paired(comparisons, display)
    elif len({result.model for result in results}) > 1:
        display.say("paired", "no two results have a problem in common, so there is no difference")
    report: Figures = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["rlvr", *sys.argv[1:]]) if options.is_command else None,
        "results": entries,
    }
    if any(result.speed for result in results):
        report["speed"] = [result.speed for result in results]
    if comparisons:
        report["paired"] = comparisons
    failure = None
    if options.against is not None:
        try:
            report["against"] = {
                "path": str(options.against),
                "results": _compare(results, entries, options.against, baselines, display),
            }
        except UserError as error:
            failure = error
    if directory is not None:
        names = file_names([(result.model, result.data) for result in results])
        rows = [result.rows for result in results]
        directory.finish(report, dict(zip(names, rows, strict=True)))
        display.say("report", f"{directory.directory}/report.json, rows in responses/ beside it")
    if options.format == TABLE:
        if options.is_command and directory is None and not sys.stdout.isatty():
            _pipe_rows(results)
    elif options.format is not None:
        print_report(report, options.format)
    if failure is not None:
        raise failure
    with_rows = [
        {**entry, "rows": result.rows} for entry, result in zip(entries, results, strict=True)
    ]
    return {**report, "results": with_rows}


def _compare(
    results: Sequence[Result],
    entries: Sequence[Figures],
    against: Path,
    baselines: Sequence[Result],
    display: Display,
) -> list[Figures]:
    """Compare each result with the baseline that matches it, at the k of its entry, and show how
    they differ."""
    comparisons = []
    for result, entry in zip(results, entries, strict=True):
        baseline = find_match(result.model, result.data, baselines, against)
        comparison = compare(result, baseline, ks=[int(k) for k in entry["pass@k"]])
        name = baseline.model
        if baseline.data:
            name += f" on {baseline.data}"
        if baseline.model != str(against):
            name += f" ({against})"
        comparison["baseline"] = name
        comparisons.append(comparison)
        console.show_comparison(comparison, str(against), "model" in result.fingerprint, display)
    return comparisons


def _pipe_rows(results: Sequence[Result]) -> None:
    """Write the rows to stdout, with the label of their result if there is more than one."""
    for result in results:
        label = {}
        if len(results) > 1:
            label = {"model": result.model, PROBLEM_SET: result.data}
        sys.stdout.writelines(jsonl_line(row | label) for row in result.rows)
    sys.stdout.flush()
