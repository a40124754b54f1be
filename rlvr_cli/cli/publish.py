"""The end of `rlvr eval`: figures to the terminal, rows to a pipe, everything to `--out`."""

import math
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlvr_cli.console import tables
from rlvr_cli.console.display import Display
from rlvr_cli.core.cores import usable_cores
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.text import numbers_first, plural, shortened
from rlvr_cli.core.types import Problem, by_key
from rlvr_cli.evaluation.agreement import BOTH, PEER, Pair, agreement, paired
from rlvr_cli.evaluation.fingerprint import Fingerprint, judge_versions
from rlvr_cli.evaluation.report import (
    Result,
    check_comparable,
    chosen_ks,
    compared,
    counted_in_any_form,
    report_entry,
    with_all_votes,
)
from rlvr_cli.evaluation.responses import LABELS
from rlvr_cli.evaluation.result_dir import ResultDirectory, file_names, matching, read_results
from verifiers import OURS, Verifier, open_judge

_OFTEN_MISSED, _FEW_POINTS, _SHOWN = 0.01, 0.05, 20


@dataclass(frozen=True)
class ReportOptions:
    """What to say of results, how, by whom: `--k --by --against --out --judge --format`."""

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
    """Check what is to be said of an evaluation. Raises UserError."""
    if form not in (forms := [tables.TABLE, *tables.FORMATS]):
        raise UserError(f"--format {shortened(form)}: choose from {', '.join(forms)}")
    fields = dict.fromkeys(field.strip() for text in by for field in text.split(","))
    if judge == BOTH and not has_responses:
        raise UserError("--judge both compares verdicts on responses that are made: --responses")
    judge_versions(PEER if judge == BOTH else judge)
    keys = [text.partition("=")[0].strip() for text in assignments]
    if judge == PEER and "data.answer_format" in keys:
        raise UserError(f"--judge {judge} takes answers of any form; leave data.answer_format out")
    return ReportOptions(numbers(k), tuple(fields), against, out, judge, form)


def numbers(given: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers of `--k 1,4 --k 16`. Raises UserError for another text."""
    parts = [part.strip() for text in given for part in text.split(",")]
    for part in parts:
        if not (part.isascii() and part.isdecimal() and len(part) < 10 and int(part)):
            raise UserError(f"--k {shortened(part)}: give numbers from 1 on, as --k 1,4,16")
    return tuple(dict.fromkeys(map(int, parts)))


def earlier_results(
    asked: ReportOptions, ours: Mapping[tuple[str, str], Sequence[Problem]], verifier: Verifier
) -> list[Result]:
    """Return what `--against` is to be compared with; none if it was not given. Raises UserError if
    the problems of one of our (model, problem set) pairs cannot be compared."""
    if asked.against is None:
        return []
    theirs = read_results(asked.against, verifier.cluster)
    for (model, data), problems in ours.items():
        texts = {problem.id: problem.problem or None for problem in problems}
        check_comparable(data, texts, matching(model, data, theirs, asked.against))
    return theirs


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
        results = [counted_in_any_form(result, verifier) for result in results]
    entries = [report_entry(result, chosen_ks(asked.ks, result), asked.by) for result in results]
    for entry in entries:
        _show(entry, len(entries) > 1, display)
    if len(entries) > 1:
        display.table(tables.overview(entries))
    report: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["rlvr", *sys.argv[1:]]),
        "results": entries,
    }
    if any(result.speed for result in results):
        report["speed"] = [result.speed for result in results]
    if asked.judge == BOTH:
        peer, pairs = f"{PEER} {judge_versions(PEER)[PEER]}", paired(results)
        differing = [pair for pair in pairs if pair.differs]
        report["agreement"] = _show_agreement(pairs, differing, peer, asked.by, display)
    failed = None
    if asked.against is not None:
        try:
            report["against"] = _comparisons(results, entries, asked.against, theirs, display)
        except UserError as error:
            failed = error
    if directory is not None:
        names = file_names([(result.model, result.data) for result in results])
        rows = [[row for p in result.problems for row in p.rows] for result in results]
        directory.finish(report, dict(zip(names, rows, strict=True)))
        display.say("report", f"{directory.directory}/report.json, rows in responses/ beside it")
    if asked.format != tables.TABLE:
        print(tables.FORMATS[asked.format](report))
    elif directory is None and not sys.stdout.isatty():
        if asked.judge == BOTH:
            sys.stdout.writelines(jsonl_line(_with_both(pair, peer)) for pair in differing)
            sys.stdout.flush()
        else:
            _pipe(results)
    if failed is not None:
        raise failed


def _show(entry: dict[str, Any], name_model: bool, display: Display) -> None:
    what = f"with {entry['model']} on {entry['data']}" if name_model else f"on {entry['data']}"
    first = entry["pass@k"]["1"]
    value = "not measured" if first is None else f"{first['value']:.4f}"
    display.result("pass@1", f"{value} {what} ({_settings(entry)})")
    format_share, length = entry["format_share"], entry["response_length"]
    display.say(
        "responses",
        ("" if format_share is None else f"format right {tables.percent(format_share)}, ")
        + f"cut off {tables.percent(entry['cut_off_share'])}"
        + ("" if length is None else f", {length:.1f} tokens on average"),
    )
    if (flexible := entry.get("any_form")) is not None:
        words = "where a right answer counts in any form"
        display.say("any form", f"pass@1 {tables.shown(flexible)} {words}")
        missed = 1 - first["value"] / flexible["value"] if first and flexible["value"] else 0.0
        if missed > _OFTEN_MISSED:
            form = entry["fingerprint"]["verifier"]["format"]
            display.warn(
                f"{missed:.0%} of the right answers are in another form than asked ({form}): "
                "compare figures of one kind, or judge with --set data.answer_format=any"
            )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in entry["verdicts"].items())
    display.say("verdicts", counts)
    display.table(tables.by_k(entry))
    for field in entry.get("by", {}):
        display.table(tables.by_field(entry, field), asked=True)
    unjudged = entry["timeouts"] + entry["unparseable_golds"]
    if unjudged:
        display.warn(
            f"{plural(unjudged, 'response')} could not be judged "
            f"({plural(entry['timeouts'], 'timeout')}, "
            f"{entry['unparseable_golds']} with an unreadable gold answer); the figures leave "
            "them out"
        )
    last, found = list(entry["pass@k"].items())[-1]
    if tables.counted(found) < entry["problems"]:
        display.warn(
            f"k = {last}: {tables.counted(found)} of {plural(entry['problems'], 'problem')} with "
            "that many judged responses; the figures leave the others out"
        )


def _settings(entry: dict[str, Any]) -> str:
    """Say what the figures were measured on."""
    fingerprint: Fingerprint = entry["fingerprint"]
    verifier = fingerprint["verifier"]
    judge = verifier.get("judge", OURS)
    votes = ", every extracted answer votes" if verifier.get("votes") == "all" else ""
    answers = f"answers judged as {verifier['format']}{votes}"
    if judge != OURS:
        answers = f"answers judged by {judge} {verifier['versions'][judge]}"
    problems = plural(entry["problems"], "problem")
    if "sampling" not in fingerprint:
        unjudged = entry["timeouts"] + entry["unparseable_golds"]
        left_out = f" ({unjudged} not judged)" if unjudged else ""
        return f"{problems}, {plural(entry['responses'], 'response')}{left_out}, {answers}"
    drawn = fingerprint["sampling"]
    return (
        f"{problems} x {plural(drawn['samples'], 'sample')}, temperature "
        f"{drawn['temperature']:g}, top-p {drawn['top_p']:g}, at most {drawn['max_tokens']} "
        f"tokens, seed {drawn['seed']}, {answers}"
    )


def _show_agreement(
    pairs: Sequence[Pair],
    differing: Sequence[Pair],
    peer: str,
    by: Sequence[str],
    display: Display,
) -> dict[str, Any]:
    """Say how often the judges agree, by our verdict and by fields, and list where they differ."""
    whole = agreement(pairs)
    display.result("agreement", f"{tables.shown(whole['share'])} with {peer}")
    for field in ("verdict", *by):
        parts = _parts(pairs, field)
        listed = {value: agreement(parts[value]) for value in sorted(parts, key=numbers_first)}
        name = "our verdict" if field == "verdict" else field
        display.table(tables.agreements(name, listed), asked=field != "verdict")
    lines = [
        [
            tables.cell(pair.ours["id"]),
            *(str(pair.ours["sample"]), tables.cell(pair.ours["answer"])),
            *(tables.cell(pair.ours["extracted"]), pair.ours["verdict"]),
            *(tables.cell(pair.theirs["extracted"]), pair.theirs["verdict"]),
        ]
        for pair in differing
    ]
    if lines:
        header = ["differ", "sample", "gold", "ours", "verdict", PEER, "verdict"]
        display.table([header, *lines[:_SHOWN]])
    if len(lines) > _SHOWN:
        display.say("", f"and {len(lines) - _SHOWN} more; a pipe gets all of them")
    if unjudged := whole["not judged"]:
        display.warn(
            f"{plural(unjudged, 'response')} not judged by one or both (a timeout, an unreadable "
            "gold answer, a wrong format, or cut off); the agreement leaves them out"
        )
    return whole


def _parts(pairs: Sequence[Pair], field: str) -> dict[str, list[Pair]]:
    return by_key(pairs, lambda pair: str(pair.ours.get(field)))


def _with_both(pair: Pair, peer: str) -> dict[str, Any]:
    """Return our row with what the other judge says."""
    said = {key: pair.theirs[key] for key in ("verdict", "extracted")}
    return pair.ours | {"judge": {"name": peer} | said}


def _comparisons(
    results: Sequence[Result],
    entries: Sequence[dict[str, Any]],
    against: Path,
    theirs: Sequence[Result],
    display: Display,
) -> dict[str, Any]:
    found = []
    for result, entry in zip(results, entries, strict=True):
        other = matching(result.model, result.data, theirs, against)
        if result.problems[0].all_votes:
            with open_judge(OURS, workers=usable_cores()) as verifier:
                other = with_all_votes(other, verifier)
        comparison = compared(result, other, [int(k) for k in entry["pass@k"]])
        found.append(comparison)
        _show_comparison(comparison, "model" in result.fingerprint, against, display)
    return {"path": str(against), "results": found}


def _show_comparison(
    comparison: dict[str, Any], knows_model: bool, against: Path, display: Display
) -> None:
    count, data = plural(comparison["problems"], "problem"), comparison["data"]
    there = [comparison["against"]]
    there += [f"on {comparison['against_data']}"] if comparison["against_data"] else []
    there += [f"({against})"] if str(against) not in there else []
    display.result("against", f"{' '.join(there)}, {count}")
    display.table(tables.differences(comparison), asked=True)
    _warn_if_too_small(comparison["pass@k"].get("1"), display)
    same = "nothing but chance: same fingerprint"
    if not knows_model:
        same = "nothing of problems and judging; what made the responses is not known"
    for difference in comparison["differs"] or [same]:
        display.say("differs in", difference)
    if comparison["missing"]:
        display.warn(f"not in {against}: {plural(comparison['missing'], 'problem')} of {data}")
    if comparison["only_there"]:
        only = plural(comparison["only_there"], "problem")
        display.warn(f"only in {against}: {only}, which the differences leave out")
    if golds := comparison["other_golds"]:
        other = f"{plural(len(golds), 'problem')} (such as {shortened(golds[0])})"
        display.warn(f"{other} with another gold answer there: the two are judged by other answers")
    if comparison["unjudged"]:
        display.warn(
            f"{plural(comparison['unjudged'], 'problem')} without a judged response on one "
            "side or on both: the differences leave them out"
        )


def _warn_if_too_small(found: dict[str, Any] | None, display: Display) -> None:
    """Warn of a comparison that could not show a difference of a few points."""
    if found is None:
        return
    reach = min(1, max(abs(end - found["value"]) for end in found["interval"]))
    if reach > _FEW_POINTS:
        enough = math.ceil(found["problems"] * (reach / _FEW_POINTS) ** 2)
        display.warn(
            f"{plural(found['problems'], 'problem')} with so many samples cannot show a difference "
            f"in pass@1 below {100 * reach:.0f} points; for {100 * _FEW_POINTS:.0f} take about "
            f"{enough:,} problems, or more samples"
        )


def _pipe(results: Sequence[Result]) -> None:
    """Write all rows; where there are several results, each row says which it belongs to."""
    for result in results:
        label = dict(zip(LABELS, (result.model, result.data), strict=True))
        rows = (row for problem in result.problems for row in problem.rows)
        sys.stdout.writelines(jsonl_line(row | label if len(results) > 1 else row) for row in rows)
    sys.stdout.flush()
