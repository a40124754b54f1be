"""Read and judge responses made elsewhere, without a model."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, get_args

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import MANIFEST, integrity_error
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, FieldName, Problem, by_key
from rlvr_cli.data.fields import BadRowError, FieldReader
from rlvr_cli.data.problems import ProblemSet, read_rows
from rlvr_cli.data.rows import RESPONSE_KEYS, ROW_KEYS, attempt_of, row_of
from rlvr_cli.data.sources import file_rows, json_rows
from verifiers import Format, Verifier

LABELS = ("model", PROBLEM_SET)
"""Keys by which rows of several results in one file say to which result they belong."""
_BATCH = 512
_SHORT, _DIGITS, _SHOWN = 40, 12, 5
CUT_OFF = {"length", "max_tokens", "max_length", "model_length", "max_new_tokens", "incomplete"}
CUT_OFF |= {"max_output_tokens", "max_completion_tokens", "model_context_window_exceeded"}
"""Finish reasons, in other programs' words, of a response that was cut off."""
FINISH_REASONS = {"length", "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete"}
FINISH_REASONS |= {"completed", "finished", "content_filter", "safety", "refusal", "tool_calls"}
FINISH_REASONS |= {"tool_use", "function_call", "abort", "unknown"}
"""Finish reasons of which it is known whether they mean cut off (`length`) or not."""
_LONGEST_NUMBER, _MOST_TOKENS = 12, 1 << 31


@dataclass(frozen=True)
class ImportedResponse:
    """A response read from a row of a file; a row may have several to one problem."""

    where: str
    label: tuple[str, str]
    problem: Problem
    response: str
    finish_reason: str | None
    n_tokens: int | None
    prompt: str | None
    answer_format: Format | None
    """The form by which the row's own verdict was given, if it names one."""
    own_gold: str | None = None
    """The row's gold answer, where a named set's counts and is written otherwise."""


def read_responses(
    source: str,
    limit: int | None,
    skip_bad: bool,
    fields: Mapping[FieldName, str] | None = None,
    golds: ProblemSet | None = None,
    model: str | None = None,
) -> list[ImportedResponse]:
    """Read the rows of a file or stdin (`-`): `answer` and `response`, a text or a list of texts.
    `model` names the model of rows that name none; by default the file's name does.

    Rows with the same `id`, or without one with the same `problem`, are of one problem; those of
    the first `limit` problems of each result are kept. With `golds` each row is of a problem of
    that set, by its id or its text. Raises UserError if the source cannot be read or is empty.
    """
    name, path = "stdin" if source == "-" else source, Path(source)
    reader, model = FieldReader(user_paths=fields), model or source_names([source])[0]
    by_id = {problem.id: problem for problem in golds.problems} if golds else {}
    by_text = {problem.problem.strip(): problem for problem in by_id.values()}

    def read(where: str, number: int, row: Any) -> list[ImportedResponse]:
        own, responses = reader.judged(row, golds is None)
        text, own_gold, file = own.problem.strip(), None, where.rpartition(":")[0]
        if golds is None:
            # A row without an id is of the problem with its text, else of one of its own.
            digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            identity = own.id or (digest if own.problem else f"{Path(file).name}-{number}")
            extra = {k: v for k, v in own.extra.items() if k not in {*ROW_KEYS, *LABELS}}
            problem = replace(own, id=identity, extra=extra)
        else:
            match = by_id.get(own.id) or by_text.get(text)
            if match is None:
                key = f"id {shortened(own.id)}" if own.id else "text"
                raise BadRowError(f"no problem of {golds.name} has its {key}")
            if text not in ("", match.problem.strip()):
                raise BadRowError(f"problem {shortened(match.id)} of {golds.name} is another one")
            problem, own_gold = match, own.answer if own.answer != match.answer else None
        of_set = row.get(PROBLEM_SET) or (golds.name if golds else file)
        label, prompt = (str(row.get("model") or model), str(of_set)), row.get("prompt")
        prompt = prompt if isinstance(prompt, str) else None
        form = row["verifier"] if row.get("verifier") in get_args(Format) else None
        ends, counts = finish_reasons(row, len(responses)), lengths(row, len(responses))
        return [
            ImportedResponse(where, label, problem, *values, prompt, form, own_gold)
            for values in zip(responses, ends, counts, strict=True)
        ]

    rows = json_rows(name, sys.stdin.buffer) if source == "-" else file_rows(path)
    given = [response for row in read_rows(rows, read, None, skip_bad) for response in row]
    has_checksum = source != "-" and (path.parent / MANIFEST).exists()
    if has_checksum and (changed := integrity_error(path.parent, path.name.__eq__, ())):
        LOG.warning("%s: not as the run wrote it: %s", path.parent, changed)
    if not given:
        raise UserError(f"{name}: no responses in it; one JSON object a line is expected")
    if strange := {row.finish_reason for row in given if row.finish_reason} - FINISH_REASONS:
        words = ", ".join(map(shortened, sorted(strange)[:_SHOWN]))
        LOG.warning("%s: finish_reason %s: not known, taken as not cut off", name, words)
    first: dict[tuple[str, str], set[str]] = {}
    for row in given:
        ids = first.setdefault(row.label, set())
        if limit is None or len(ids) < limit:
            ids.add(row.problem.id)
    return [row for row in given if row.problem.id in first[row.label]]


def finish_reasons(row: Mapping[str, Any], count: int) -> tuple[str | None, ...]:
    """Return how each response of a row ended: `length` if it was cut off, else the row's word in
    lower case, None where it has none. Raises BadRowError."""
    key = "finish_reason" if row.get("finish_reason") is not None else "stop_reason"
    values = _each(row, key, count)
    words = (value.strip().lower() if isinstance(value, str) else None for value in values)
    return tuple("length" if word in CUT_OFF else word or None for word in words)


def lengths(row: Mapping[str, Any], count: int) -> tuple[int | None, ...]:
    """Return the number of tokens of each response of a row, None where it names none; cells of a
    table may have 12.0 or "12". Raises BadRowError."""
    if count > 1 and isinstance(row.get("n_tokens"), int | float | str):
        raise BadRowError(f"n_tokens is one number for {count} responses; a list has one for each")
    numbers: list[int | None] = []
    for text in (str(value).removesuffix(".0") for value in _each(row, "n_tokens", count)):
        is_number = len(text) <= _LONGEST_NUMBER and text.isdecimal() and int(text) < _MOST_TOKENS
        numbers.append(int(text) if is_number else None)
    return tuple(numbers)


def _each(row: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """Return one value for each response of a row: the elements of a list, else the value."""
    value = row.get(key)
    values = value if isinstance(value, list) else [value] * count
    if len(values) != count:
        raise BadRowError(f"{key} has {len(values)} values for {plural(count, 'response')}")
    return values


def refuse_twice(sources: Sequence[str], option: str = "") -> None:
    """Raise UserError if a file is named twice, also by a link or another path."""
    files = [source if source == "-" else os.path.realpath(source) for source in sources]
    for number, source in enumerate(sources):
        if files[number] in files[:number]:
            raise UserError(f"{option}{source}: given twice; its rows would count twice")


def source_names(sources: Sequence[str]) -> list[str]:
    """Name each file without its ending, with as many of its folders as make the names differ."""
    paths = [Path("responses" if source == "-" else source) for source in sources]
    for depth in range(max(len(path.parts) for path in paths)):
        names = ["/".join([*path.parts[-1 - depth : -1], path.stem]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(sources)


def check_problems(
    problems: Iterable[tuple[str, Problem]], repeated: bool, sets: Iterable[str] = repeat("")
) -> None:
    """Raise UserError if two problems of one set share an id, or one problem has two gold answers.

    `problems` are (`file:line`, problem); with `repeated` the same problem may come again. A set
    that has only its file's name shares its texts with the others of that kind.
    """
    by_id: dict[tuple[str, str], tuple[str, Problem]] = {}
    by_text: dict[tuple[str, str], tuple[str, Problem]] = {}
    for (where, problem), name in zip(problems, sets, strict=False):
        before, first = by_id.setdefault((name, problem.id), (where, problem))
        is_same = first.problem.strip() == problem.problem.strip()
        if first is not problem and not (repeated and is_same):
            raise UserError(
                f"{where}: the id {problem.id} is that of another problem ({before}); "
                "every problem needs an id of its own"
            )
        twins = [(before, first)]
        if problem.problem:
            scope = "" if name == where.rpartition(":")[0] else name
            twins.append(by_text.setdefault((scope, problem.problem), (where, problem)))
        for before, twin in twins:
            if twin.answer != problem.answer:
                golds = f"{(problem.answer or '')[:_SHORT]!r}, {(twin.answer or '')[:_SHORT]!r}"
                raise UserError(
                    f"{where}: problem {problem.id} has two different gold answers, {golds} in "
                    f"{before}"
                )


def format_of_rows(given: Sequence[ImportedResponse]) -> Format:
    """Return the form by which the rows of one result were judged; `any` if they name none. Raises
    UserError if they disagree."""
    by_form = by_key(given, lambda row: row.answer_format)
    if len(by_form) > 1:
        texts = "; ".join(f"{rows[0].where}: verifier {form}" for form, rows in by_form.items())
        raise UserError(f"rows were judged in different ways ({texts}); --set data.answer_format=…")
    return given[0].answer_format or "any"


def judged_rows(
    given: Sequence[ImportedResponse], verifier: Verifier, on_batch: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Judge each response as a row; the rows of a problem are adjacent, in order of appearance."""
    by_problem = by_key(given, lambda response: response.problem.id).values()
    numbered = [pair for responses in by_problem for pair in enumerate(responses)]
    rows = []
    for start in range(0, len(numbered), _BATCH):
        batch = numbered[start : start + _BATCH]
        attempts = [attempt_of(vars(made) | {"answer": made.problem.answer}) for _, made in batch]
        verifications = verifier.verify_many(attempts)
        for (sample, response), verification in zip(batch, verifications, strict=True):
            values = {key: getattr(response, key) for key in RESPONSE_KEYS}
            paid = reward(verification)
            rows.append(row_of(response.problem, sample, values, verification, paid))
        on_batch(len(batch))
    return rows
