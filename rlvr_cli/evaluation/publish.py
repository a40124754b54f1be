"""Judge responses made elsewhere (`rlvr eval --responses`), and publish the figures of every `rlvr
eval`: to the terminal, rows to a pipe, everything to `--out`."""

import math
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlvr_cli.config import Config
from rlvr_cli.console import tables
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem, by_key
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.sources import canonical
from rlvr_cli.evaluation import imported as made
from rlvr_cli.evaluation.fingerprint import data_hash, judge_versions, judging
from rlvr_cli.evaluation.report import (
    BOTH,
    PEER,
    Pair,
    Result,
    agreement,
    both_right,
    check_comparable,
    check_fields,
    chosen_ks,
    compare,
    count_any_form,
    drawn_in_words,
    judged_problems,
    pair_judges,
    report_entry,
)
from rlvr_cli.evaluation.result_dir import ResultDirectory, file_names, find_match, read_results
from verifiers import OURS, ChatMarks, Format, Verdict, Verifier, open_judge

_FEW_POINTS = 0.05
"""Difference in pass@1 that a comparison should be able to show."""
_ROWS_ON_A_TERMINAL = 20
"""Rows on which the judges differ that a terminal gets."""


@dataclass(frozen=True)
class ReportOptions:
    """What to report of results, and how: `--k --by --against --out --judge --format`."""

    ks: tuple[int, ...] = ()
    by: tuple[str, ...] = ()
    against: Path | None = None
    out: Path | None = None
    judge: str = OURS
    format: str = tables.TABLE


def report_options(
    k: Iterable[str],
    by: Iterable[str],
    against: Path | None,
    out: Path | None,
    judge: str,
    form: str,
    assignments: Sequence[str],
    has_responses: bool,
) -> ReportOptions:
    """Check the options of a report. Raises UserError."""
    if judge == BOTH and not has_responses:
        raise UserError("--judge both compares verdicts on responses that are made: --responses")
    judge_versions(PEER if judge == BOTH else judge)
    keys = [text.partition("=")[0].strip() for text in assignments]
    if judge == PEER and "data.answer_format" in keys:
        raise UserError(f"--judge {judge} takes answers of any form; leave data.answer_format out")
    ks, fields = (
        tuple(dict.fromkeys(part.strip() for text in given for part in text.split(",")))
        for given in (k, by)
    )
    for part in ks:
        if not (part.isascii() and part.isdecimal() and len(part) < 10 and int(part)):
            raise UserError(f"--k {shortened(part)}: give numbers from 1 on, as --k 1,4,16")
    return ReportOptions(tuple(map(int, ks)), fields, against, out, judge, form)


def earlier_results(
    asked: ReportOptions, ours: Mapping[tuple[str, str], Sequence[Problem]], verifier: Verifier
) -> list[Result]:
    """Return the results that `--against` names; none if it was not given. Raises UserError if the
    problems of one of our (model, problem set) pairs cannot be compared with them."""
    if asked.against is None:
        return []
    theirs = read_results(asked.against, verifier.cluster)
    for (model, data), problems in ours.items():
        texts = {problem.id: problem.problem or None for problem in problems}
        check_comparable(data, texts, find_match(model, data, theirs, asked.against))
    return theirs


def score(
    config: Config,
    sources: Sequence[str],
    golds: Sequence[str],
    asked: ReportOptions,
    display: Display,
) -> None:
    """Judge the rows of files or stdin, without a model, and publish the figures; `golds` may name
    the problem set that has their gold answers, if they have none of their own. Raises UserError
    for rows that cannot be judged."""
    made.refuse_twice(sources, "--responses ")
    data = config.data
    split, root = data.split or "test", data.root
    answers = load_problems(canonical(golds[0]), split, root=root) if golds else None
    given = [
        row
        for source, name in zip(sources, made.source_names(sources), strict=True)
        for row in made.read_responses(
            source, data.limit, data.skip_bad, data.fields, answers, name
        )
    ]
    places = [(row.where, row.problem) for row in given]
    made.check_problems(places, repeated=True, sets=[row.label[1] for row in given])
    for name, of_set in by_key(given, lambda row: row.label[1]).items():
        check_fields(asked.by, {key for row in of_set for key in row.problem.extra}, name)
    ours: dict[tuple[str, str], dict[str, Problem]] = {}
    for row in given:
        before = ours.setdefault(row.label, {}).setdefault(row.problem.id, row.problem).extra
        for field in asked.by:
            if (own := row.problem.extra.get(field)) != before.get(field):
                values = f"{shortened(str(own))} and {shortened(str(before.get(field)))}"
                raise UserError(
                    f"{row.where}: --by {field}: rows of problem {shortened(row.problem.id)} have "
                    f"{values}; it must be of the problem, not of a response"
                )
    problems = {label: tuple(by_id.values()) for label, by_id in ours.items()}
    parts = by_key(given, lambda row: row.label)
    directory = None if asked.out is None else ResultDirectory(asked.out)
    judges = [OURS, PEER] if asked.judge == BOTH else [asked.judge]
    form = data.answer_format if OURS in judges else "any"
    formats: dict[tuple[str, str], Format] = {
        label: form or made.format_of_rows(part) for label, part in parts.items()
    }
    with open_judge(judges[0]) as equality:
        other = [
            f"({row.where}: {shortened(row.own_gold)}, {shortened(row.problem.answer or '')})"
            for row in given
            if row.own_gold is not None
            and equality.equal(row.problem.answer or "", row.own_gold) != Verdict.CORRECT
        ]
        theirs = earlier_results(asked, problems, equality)
    if other:
        display.warn(
            f"{plural(len(other), 'row')} with another gold answer than the set's, which counts "
            f"{other[0]}: are they of this set?"
        )
    whole = len(answers.problems) if answers and data.limit is None else 0
    for (model, name), of_label in problems.items():
        if (missing := whole - len(of_label)) > 0:
            display.warn(
                f"{model}: no response to {missing} of the {plural(whole, 'problem')} of {name}; "
                "the figures leave them out"
            )
    if directory is not None:
        directory.hold()
    results = []
    with display.progress("judging", len(judges) * len(given), lines=True) as bar:
        for (model, name), part in parts.items():
            chat_marks = ChatMarks()
            chat_marks.add(row.response for row in part)
            for line in chat_marks.lines():
                display.warn(f"{model}: {line}")
            for judge in judges:
                form = formats[model, name] if judge == OURS else "any"
                with open_judge(judge, format=form, workers=usable_cores()) as verifier:
                    rows = made.judged_rows(part, verifier, lambda count: bar.tick(advance=count))
                    judged = judged_problems(rows, verifier.cluster)
                fingerprint = {"data": data_hash(problems[model, name])}
                fingerprint |= judging(form, judge)
                by_whom = f"{model} ({judge})" if judge != judges[0] else model
                results.append(Result(by_whom, name, fingerprint, judged))
    if data.answer_format is None and any(row.answer_format for row in given) and OURS in judges:
        display.say("judged as", f"{', '.join(dict.fromkeys(formats.values()))}, as the rows say")
    publish(results, asked, directory, theirs, display)


def publish(
    results: Sequence[Result],
    asked: ReportOptions,
    directory: ResultDirectory | None,
    theirs: Sequence[Result],
    display: Display,
) -> None:
    """Report, compare and write. Raises UserError where `asked` does not fit the results; for a
    comparison that fails, once all else is written."""
    with open_judge(OURS, workers=usable_cores()) as verifier:
        results = [count_any_form(result, verifier) for result in results]
    entries = [report_entry(result, chosen_ks(asked.ks, result), asked.by) for result in results]
    several = len(results) > 1
    for entry in entries:
        _show(entry, several, display)
    who = ("model", "data") if several else ()
    display.table(tables.by_k(entries, (*who, "k", "problems", "pass@k [95 %]", "cons@k [95 %]")))
    report: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["rlvr", *sys.argv[1:]]),
        "results": entries,
    }
    if any(result.speed for result in results):
        report["speed"] = [result.speed for result in results]
    if asked.judge == BOTH:
        peer, pairs = f"{PEER} {judge_versions(PEER)[PEER]}", pair_judges(results)
        differing = [pair for pair in pairs if both_right(pair) in ((True, False), (False, True))]
        report["agreement"] = _show_agreement(pairs, differing, peer, display)
    failure = None
    if asked.against is not None:
        try:
            report["against"] = _comparisons(results, entries, asked.against, theirs, display)
        except UserError as error:
            failure = error
    rows = [[row for problem in result.problems for row in problem.rows] for result in results]
    if directory is not None:
        names = file_names([(result.model, result.data) for result in results])
        directory.finish(report, dict(zip(names, rows, strict=True)))
        display.say("report", f"{directory.directory}/report.json, rows in responses/ beside it")
    if asked.format != tables.TABLE:
        tables.print_report(report, asked.format)
    elif directory is None and not sys.stdout.isatty():
        if asked.judge == BOTH:
            for _, row, other in differing:
                judge = {"name": peer, "verdict": other["verdict"], "extracted": other["extracted"]}
                sys.stdout.write(jsonl_line(row | {"judge": judge}))
        else:
            for result, of_result in zip(results, rows, strict=True):
                label = dict(zip(made.LABELS, (result.model, result.data), strict=True))
                label = label if several else {}
                sys.stdout.writelines(jsonl_line(row | label) for row in of_result)
        sys.stdout.flush()
    if failure is not None:
        raise failure


def _show(entry: dict[str, Any], name_model: bool, display: Display) -> None:
    """Show the figures of a result, and warn of what they leave out."""
    form, first = entry["fingerprint"]["verifier"], entry["pass@k"]["1"]
    if drawn := entry["fingerprint"].get("sampling"):
        how = [drawn_in_words(entry["problems"], drawn), f"seed {drawn['seed']}"]
    else:
        how = [plural(entry["problems"], "problem"), plural(entry["responses"], "response")]
    if judge := form.get("judge"):
        how.append(f"answers judged by {judge} {form['versions'][judge]}")
    else:
        how.append(f"answers judged as {form['format']}")
    value = "not measured" if first is None else f"{first['value']:.4f}"
    model = f"with {entry['model']} " if name_model else ""
    display.result("pass@1", f"{value} {model}on {entry['data']} ({', '.join(how)})")

    parts = [f"{count} {verdict}" for verdict, count in entry["verdicts"].items()]
    if entry["format_share"] is not None:
        parts.append(f"format right {tables.percent(entry['format_share'])}")
    parts.append(f"cut off {tables.percent(entry['cut_off_share'])}")
    if entry["response_length"] is not None:
        parts.append(f"{entry['response_length']:.1f} tokens on average")
    display.say("responses", ", ".join(parts))
    if (flexible := entry.get("any_form")) is not None:
        words = "where a right answer counts in any form"
        display.say("any form", f"pass@1 {tables.in_words(flexible)} {words}")
        missed = 1 - first["value"] / flexible["value"] if first and flexible["value"] else 0.0
        if missed > 0.01:  # below 1 % the two figures tell the same
            display.warn(
                f"{missed:.0%} of the right answers are in another form than asked "
                f"({form['format']}): compare figures of one kind, or judge with --set "
                "data.answer_format=any"
            )
    for field in entry.get("by", {}):
        display.table(tables.by_field(entry, field), asked=True)
    if unjudged := entry["timeouts"] + entry["unparseable_golds"]:
        display.warn(
            f"{plural(unjudged, 'response')} could not be judged "
            f"({plural(entry['timeouts'], 'timeout')}, {entry['unparseable_golds']} with an "
            "unreadable gold answer); the figures leave them out"
        )


def _show_agreement(
    pairs: Sequence[Pair], differing: Sequence[Pair], peer: str, display: Display
) -> dict[str, Any]:
    """Show how often the judges agree, and list where they differ."""
    whole = agreement(pairs)
    counts = ", ".join(f"{count} {name}" for name, count in whole.items() if name != "share")
    display.result("agreement", f"{tables.in_words(whole['share'])} with {peer}: {counts}")
    lines = [["differ", "sample", "gold", "ours", "verdict", PEER, "verdict"]]
    for _, ours, other in differing[:_ROWS_ON_A_TERMINAL]:
        cells = [ours[key] for key in ("id", "sample", "answer", "extracted", "verdict")]
        lines.append([*map(tables.cell, (*cells, other["extracted"], other["verdict"]))])
    if differing:
        display.table(lines)
    if len(differing) > _ROWS_ON_A_TERMINAL:
        more = len(differing) - _ROWS_ON_A_TERMINAL
        display.say("", f"and {more} more; a pipe gets all of them")
    if unjudged := whole["not judged"]:
        display.warn(
            f"{plural(unjudged, 'response')} not judged by one or both (a timeout, an unreadable "
            "gold answer, a wrong format, or cut off); the agreement leaves them out"
        )
    return whole


def _comparisons(
    results: Sequence[Result],
    entries: Sequence[dict[str, Any]],
    against: Path,
    theirs: Sequence[Result],
    display: Display,
) -> dict[str, Any]:
    """Compare each result with the earlier one that matches it, and show how they differ."""
    comparisons = []
    for result, entry in zip(results, entries, strict=True):
        other = find_match(result.model, result.data, theirs, against)
        comparison = compare(result, other, [int(k) for k in entry["pass@k"]])
        comparisons.append(comparison)
        there = [comparison["against"]]
        there += [f"on {comparison['against_data']}"] if comparison["against_data"] else []
        there += [f"({against})"] if str(against) not in there else []
        count = plural(comparison["problems"], "problem")
        display.result("against", f"{' '.join(there)}, {count}")
        display.table(tables.differences(comparison), asked=True)
        if first := comparison["pass@k"].get("1"):
            # The interval shrinks with the root of the number of problems.
            reach = min(1, max(abs(end - first["value"]) for end in first["interval"]))
            if reach > _FEW_POINTS:
                enough = math.ceil(first["problems"] * (reach / _FEW_POINTS) ** 2)
                display.warn(
                    f"{plural(first['problems'], 'problem')} with so many samples cannot show a "
                    f"difference in pass@1 below {100 * reach:.0f} points; for "
                    f"{100 * _FEW_POINTS:.0f} take about {enough:,} problems, or more samples"
                )
        same = "nothing but chance: same fingerprint"
        if "model" not in result.fingerprint:
            same = "nothing of problems and judging; what made the responses is not known"
        for difference in comparison["differs"] or [same]:
            display.say("differs in", difference)
        left_out = {
            f"not in {against}": comparison["missing"],
            f"only in {against}": comparison["only_there"],
            "without a judged response on one side or on both": comparison["unjudged"],
        }
        for where, count in left_out.items():
            if count:
                display.warn(f"the differences leave out {plural(count, 'problem')} {where}")
        if golds := comparison["other_golds"]:
            many = f"{plural(len(golds), 'problem')} (such as {shortened(golds[0])})"
            display.warn(f"{many} with another gold answer there: judged by another answer")
    return {"path": str(against), "results": comparisons}
