"""Read and judge responses made elsewhere, without a model."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import MANIFEST, integrity_error
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import opens_thought, plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, FieldName, Problem, by_key
from rlvr_cli.data.fields import BadRowError, FieldReader
from rlvr_cli.data.problems import ProblemSet, read_rows
from rlvr_cli.data.rows import ROW_KEYS, SAID, row_of
from rlvr_cli.data.sources import file_rows, json_rows
from verifiers import Attempt, Format, Verifier

LABELS = ("model", PROBLEM_SET)
"""Rows of several results in one stream say by these keys which result they belong to."""
_BATCH = 512
_SHORT, _DIGITS, _SHOWN = 40, 12, 5
CUT_OFF = {
    *("length", "max_tokens", "max_length", "model_length", "max_new_tokens", "max_output_tokens"),
    *("max_completion_tokens", "model_context_window_exceeded", "incomplete"),
}
"""Their words for the end of a response that was cut off."""
KNOWN = {
    *("length", "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"),
    *("finished", "content_filter", "safety", "refusal", "tool_calls", "tool_use"),
    *("function_call", "abort", "unknown"),
}
"""What is known to be cut off, as `length`, or not."""
_LONGEST_NUMBER, _MOST_TOKENS = 12, 1 << 31


@dataclass(frozen=True)
class ImportedResponse:
    """A response as read from a row of a file, which may have several to one problem."""

    where: str
    label: tuple[str, str]
    problem: Problem
    response: str
    finish_reason: str | None
    n_tokens: int | None
    prompt: str | None
    answer_format: Format | None
    """How the row says that its own verdict came about, if it does."""
    own_gold: str | None = None
    """The gold answer of a row that was found in a named set, where it is written otherwise."""


def read_responses(
    source: str,
    limit: int | None,
    skip_bad: bool,
    fields: Mapping[FieldName, str] | None = None,
    golds: ProblemSet | None = None,
    model: str | None = None,
) -> list[ImportedResponse]:
    """Read the rows of a file or stdin (`-`): `answer` and `response`, a text or a list of texts.
    `model` is the name of rows that say none, else the file's.

    Rows with the same `id`, or without one with the same `problem`, are of one problem; those of
    the first `limit` problems of each result are kept. With `golds` each is a problem of that set,
    by its id or its text.
    Raises UserError if the source cannot be read or holds nothing.
    """
    name, path = "stdin" if source == "-" else source, Path(source)
    reader, model = FieldReader(None, fields), model or source_names([source])[0]
    by_id = {problem.id: problem for problem in golds.problems} if golds else {}
    by_text = {problem.problem.strip(): problem for problem in by_id.values()}

    def read(where: str, number: int, row: Any) -> list[ImportedResponse]:
        own, responses = reader.judged(row, golds is None)
        text, own_gold, file = own.problem.strip(), None, where.rpartition(":")[0]
        if golds is None:
            # without an id a row is of the problem with its text, else of one of its own
            digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            identity = own.id or (digest if own.problem else f"{Path(file).name}-{number}")
            extra = {k: v for k, v in own.extra.items() if k not in {*ROW_KEYS, *LABELS}}
            problem = replace(own, id=identity, extra=extra)
        else:
            found = by_id.get(own.id) or by_text.get(text)
            if found is None:
                named = f"id {shortened(own.id)}" if own.id else "text"
                raise BadRowError(f"no problem of {golds.name} has its {named}")
            if text not in ("", found.problem.strip()):
                raise BadRowError(f"problem {shortened(found.id)} of {golds.name} is another one")
            problem, own_gold = found, own.answer if own.answer != found.answer else None
        of_set = row.get(PROBLEM_SET) or (golds.name if golds else file)
        label, prompt = (str(row.get("model") or model), str(of_set)), row.get("prompt")
        prompt = prompt if isinstance(prompt, str) else None
        form = row["verifier"] if row.get("verifier") in get_args(Format) else None
        ends, counts = finish_reasons(row, len(responses)), lengths(row, len(responses))
        return [
            ImportedResponse(where, label, problem, *said, prompt, form, own_gold)
            for said in zip(responses, ends, counts, strict=True)
        ]

    rows = json_rows(name, sys.stdin.buffer) if source == "-" else file_rows(path)
    given = [one for of_row in read_rows(rows, read, None, skip_bad) for one in of_row]
    is_listed = source != "-" and (path.parent / MANIFEST).exists()
    if is_listed and (changed := integrity_error(path.parent, path.name.__eq__, ())):
        LOG.warning("%s: not as the run wrote it: %s", path.parent, changed)
    if not given:
        raise UserError(f"{name}: no responses in it; one JSON object a line is expected")
    if strange := sorted({one.finish_reason for one in given if one.finish_reason} - KNOWN):
        said = ", ".join(map(shortened, strange[:_SHOWN]))
        LOG.warning("%s: finish_reason %s: not known, taken as not cut off", name, said)
    kept: dict[tuple[str, str], set[str]] = {}
    for row in given:
        of_label = kept.setdefault(row.label, set())
        if limit is None or len(of_label) < limit:
            of_label.add(row.problem.id)
    return [row for row in given if row.problem.id in kept[row.label]]


def finish_reasons(row: Mapping[str, Any], count: int) -> tuple[str | None, ...]:
    """Return how each response of a row ended: `length` if it was cut off, else as the row says
    it; None where it says nothing. Raises BadRowError."""
    key = "finish_reason" if row.get("finish_reason") is not None else "stop_reason"
    said = (one.strip().lower() if isinstance(one, str) else None for one in _each(row, key, count))
    return tuple("length" if one in CUT_OFF else one or None for one in said)


def lengths(row: Mapping[str, Any], count: int) -> tuple[int | None, ...]:
    """Return the number of tokens of each response of a row, None where it says none; cells of a
    table may have 12.0 or "12". Raises BadRowError."""
    if count > 1 and isinstance(row.get("n_tokens"), int | float | str):
        raise BadRowError(f"n_tokens is one number for {count} responses; a list has one for each")
    said = [str(one).removesuffix(".0") for one in _each(row, "n_tokens", count)]
    known = [len(one) <= _LONGEST_NUMBER and one.isdecimal() for one in said]
    numbers = [int(one) if is_known else None for one, is_known in zip(said, known, strict=True)]
    return tuple(n if n is not None and n < _MOST_TOKENS else None for n in numbers)


def _each(row: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """Return a value for each of the responses of a row: those of a list, else the one of all."""
    value = row.get(key)
    listed = value if isinstance(value, list) else [value] * count
    if len(listed) != count:
        raise BadRowError(f"{key} has {len(listed)} values for {plural(count, 'response')}")
    return listed


def refuse_twice(sources: Sequence[str], option: str = "") -> None:
    """Raise UserError where a file is named twice, also by another way to it."""
    files = [source if source == "-" else os.path.realpath(source) for source in sources]
    for number, (source, file) in enumerate(zip(sources, files, strict=True)):
        if file in files[:number]:
            raise UserError(f"{option}{source}: given twice; its rows would count twice")


def source_names(sources: Sequence[str]) -> list[str]:
    """Name each file as it is called, without its ending, and by as many of its folders as tell
    all of them apart."""
    paths = [Path("responses" if source == "-" else source) for source in sources]
    for depth in range(max(len(path.parts) for path in paths)):
        names = ["/".join([*path.parts[-1 - depth : -1], path.stem]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(sources)


def check_responses(given: Iterable[ImportedResponse]) -> None:
    """Raise UserError where the rows of one problem set contradict each other, or files without a
    named set give one problem different gold answers."""
    first: dict[str, tuple[str, Problem]] = {}
    for name, rows in by_key(given, lambda row: row.label[1]).items():
        check_problems([(row.where, row.problem) for row in rows], True)
        for where, problem in ((row.where, row.problem) for row in rows):
            if problem.problem and where.rpartition(":")[0] == name:
                _check_golds(where, problem, *first.setdefault(problem.problem, (where, problem)))


def check_problems(problems: Iterable[tuple[str, Problem]], repeated: bool) -> None:
    """Raise UserError if two problems share an id, or one problem has two gold answers.

    `problems` come with where they stand; with `repeated` the same problem may come again.
    """
    by_id: dict[str, tuple[str, Problem]] = {}
    by_text: dict[str, tuple[str, Problem]] = {}
    for where, problem in problems:
        before, first = by_id.setdefault(problem.id, (where, problem))
        same = first.problem.strip() == problem.problem.strip()
        if first is not problem and not (repeated and same):
            raise UserError(
                f"{where}: the id {problem.id} is that of another problem ({before}); "
                "every problem needs an id of its own"
            )
        _check_golds(where, problem, before, first)
        if problem.problem:
            _check_golds(where, problem, *by_text.setdefault(problem.problem, (where, problem)))


def _check_golds(where: str, problem: Problem, before: str, twin: Problem) -> None:
    if twin.answer != problem.answer:
        golds = f"{(problem.answer or '')[:_SHORT]!r}, {(twin.answer or '')[:_SHORT]!r}"
        raise UserError(
            f"{where}: problem {problem.id} has two different gold answers, {golds} in {before}"
        )


def format_of_rows(given: Sequence[ImportedResponse]) -> Format:
    """Return the form by which the rows of one result were judged; any form if none says it. Raises
    UserError if they disagree."""
    first: dict[Format | None, ImportedResponse] = {}
    for row in given:
        first.setdefault(row.answer_format, row)
    if len(first) > 1:
        said = "; ".join(f"{row.where}: verifier {form}" for form, row in first.items())
        raise UserError(f"rows were judged in different ways ({said}); --set data.answer_format=…")
    return given[0].answer_format or "any"


def judged_rows(
    given: Sequence[ImportedResponse], verifier: Verifier, on_batch: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Judge each response as a row, those of a problem adjacent, in order of appearance."""
    by_problem = by_key(given, lambda one: one.problem.id).values()
    listed = [(one, sample) for part in by_problem for sample, one in enumerate(part)]
    rows = []
    for start in range(0, len(listed), _BATCH):
        batch = listed[start : start + _BATCH]
        attempts = [
            Attempt(
                one.response,
                one.problem.answer or "",
                opens_thought(one.prompt),
                one.finish_reason == "length",
            )
            for one, _ in batch
        ]
        for (one, sample), found in zip(batch, verifier.verify_many(attempts), strict=True):
            said = {key: getattr(one, key) for key in SAID}
            rows.append(row_of(one.problem, sample, said, found, reward(found)))
        on_batch(len(batch))
    return rows
