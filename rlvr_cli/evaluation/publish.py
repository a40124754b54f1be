"""Publish the results of every `rlvr eval`: figures to the terminal, rows to a pipe, everything to
`--out`."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from rlvr_cli.console import results as console
from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import FORMATS, TABLE, print_report
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, jsonl_line
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.report import Comparison, Entry, Report
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import PROBLEM_SET, Label, Problem
from rlvr_cli.data.rows import as_row
from rlvr_cli.evaluation.fingerprint import judge_versions
from rlvr_cli.evaluation.report import (
    Result,
    check_comparable,
    chosen_ks,
    compare_all,
    compare_results,
    compare_with_first,
    count_any_form,
    report_entry,
)
from rlvr_cli.evaluation.result_dir import ResultDirectory, find_match, read_results
from verifiers import OURS, Verifier, open_judge

Pairs = Literal["first", "all"]
"""Which results of one command are compared: each with the first, or each with each."""


@dataclass(frozen=True)
class ReportOptions:
    """What to report of results, and how: `--k --by --pairs --against --out --judge --format`."""

    ks: tuple[int, ...] = ()
    by: tuple[str, ...] = ()
    pairs: Pairs = "first"
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
    pairs: str = "first",
) -> ReportOptions:
    """Check the options of a report. Raises UserError."""
    judge_versions(judge)
    known_pairs: tuple[Pairs, ...] = get_args(Pairs)
    requested = [name for name in known_pairs if name == pairs]
    if not requested:
        raise UserError(f"--pairs {shortened(pairs)}: one of {', '.join(known_pairs)}")
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
        pairs=requested[0],
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


def publish(
    results: Sequence[Result],
    options: ReportOptions,
    directory: ResultDirectory | None,
    baselines: Sequence[Result],
    display: Display,
) -> JsonObject:
    """Show, compare and write results. Return the report as JSON, with the rows in its results.

    Raises UserError if the options do not fit the results. If a comparison fails, it raises
    UserError once all else is written.
    """
    with open_judge(OURS, workers=usable_cores()) as verifier:
        results = [count_any_form(result, verifier) for result in results]
    entries = [
        report_entry(result, chosen_ks(options.ks, result), options.by) for result in results
    ]
    console.show_entries(entries, display)
    compare = compare_all if options.pairs == "all" else compare_with_first
    paired = compare(results, entries)
    if paired:
        console.show_paired(paired, display)
    elif len({result.model for result in results}) > 1:
        display.say("paired", "no two results have a problem in common, so there is no difference")
    report = Report(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(["rlvr", *sys.argv[1:]]) if options.is_command else None,
        entries=entries,
        speeds=[result.speed for result in results],
        paired=paired,
        ks=options.ks,
    )
    failure = None
    if options.against is not None:
        try:
            compared = _compare(results, entries, options.against, baselines, display)
            report = replace(report, against=options.against, compared=compared)
        except UserError as error:
            failure = error
    if directory is not None:
        directory.finish(report, results)
        display.say("report", f"{directory.directory}/report.json, rows in responses/ beside it")
    if options.format == TABLE:
        if options.is_command and directory is None and not sys.stdout.isatty():
            _pipe_rows(results)
    elif options.format is not None:
        print_report(report, options.format)
    if failure is not None:
        raise failure
    with_rows = [
        {**entry.row, "rows": [as_row(response) for response in result.responses]}
        for entry, result in zip(entries, results, strict=True)
    ]
    return {**report.row, "results": with_rows}


def _compare(
    results: Sequence[Result],
    entries: Sequence[Entry],
    against: Path,
    baselines: Sequence[Result],
    display: Display,
) -> list[Comparison]:
    """Compare each result with the baseline that matches it, at the k of its entry, and show how
    they differ."""
    comparisons = []
    for result, entry in zip(results, entries, strict=True):
        baseline = find_match(result.model, result.data, baselines, against)
        name = baseline.model
        if baseline.data:
            name += f" on {baseline.data}"
        if baseline.model != str(against):
            name += f" ({against})"
        comparison = replace(compare_results(result, baseline, entry.ks), baseline=name)
        comparisons.append(comparison)
        console.show_comparison(comparison, str(against), result.fingerprint.has_model, display)
    return comparisons


def _pipe_rows(results: Sequence[Result]) -> None:
    """Write the rows to stdout, with the label of their result if there is more than one."""
    for result in results:
        label = {}
        if len(results) > 1:
            label = {"model": result.model, PROBLEM_SET: result.data}
        sys.stdout.writelines(jsonl_line(as_row(response) | label) for response in result.responses)
    sys.stdout.flush()
