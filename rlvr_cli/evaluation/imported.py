"""Read responses made elsewhere, and judge them without a model."""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, get_args

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import MANIFEST, integrity_error
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, FieldName, Problem, by_key
from rlvr_cli.data.fields import BadRowError, FieldReader, value_at
from rlvr_cli.data.problems import ProblemSet, read_rows
from rlvr_cli.data.rows import RESPONSE_KEYS, ROW_KEYS, attempt_of, row_of
from rlvr_cli.data.shapes import (
    INSPECT_LOG,
    PLAIN,
    Shape,
    field_paths,
    inspect_log,
    rows_inside,
    shape_of,
)
from rlvr_cli.data.sources import SourceRow, file_rows, json_rows, numbered
from rlvr_cli.evaluation.join import ORDER, ProblemIndex
from verifiers import Format, Verifier

CUT_OFF_REASONS = {
    "incomplete",
    "length",
    "max_completion_tokens",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_tokens",
    "model_context_window_exceeded",
    "model_length",
}
"""Finish reasons, in other programs' words, of a response that was cut off."""
OTHER_REASONS = {
    "abort",
    "complete",
    "completed",
    "content_filter",
    "end_turn",
    "eos",
    "eos_token",
    "finished",
    "function_call",
    "refusal",
    "safety",
    "stop",
    "stop_sequence",
    "tool_calls",
    "tool_use",
    "unknown",
}
"""Finish reasons that are known not to mean cut off."""
_BATCH = 512
"""Responses that are judged between two ticks of the progress bar."""
_SHOWN_REASONS = 5
_SHOWN_GOLD = 40
"""Characters of a gold answer in a message."""
_ID_DIGITS = 12
_NUMBER_DIGITS = 12
_MOST_TOKENS = 1 << 31


class Label(NamedTuple):
    """The model and the problem set of a response. All responses of a label are one result."""

    model: str
    data: str


@dataclass(frozen=True)
class ImportedResponse:
    """A response read from a row of a file. A row may have more than one to its problem."""

    place: str
    """The place of the row, as messages name it (`file:line`)."""
    label: Label
    problem: Problem
    response: str
    finish_reason: str | None
    n_tokens: int | None
    prompt: str | None
    answer_format: Format | None
    """The format by which the row's own verdict was given, if it names one."""
    row_gold: str | None = None
    """The gold answer of the row itself. That of the problem counts, which may be a named set's."""

    @property
    def values(self) -> dict[str, Any]:
        """Return what a row has of the response and its prompt."""
        return {key: getattr(self, key) for key in RESPONSE_KEYS}


def read_responses(
    source: str,
    limit: int | None,
    skip_bad: bool,
    fields: Mapping[FieldName, str] | None = None,
    golds: ProblemSet | None = None,
    model: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[ImportedResponse]:
    """Read the rows of a file, or of stdin if `source` is `-`.

    A row has an `answer` and a `response`, which is a text or a list of texts. Rows with the same
    `id`, or without one with the same `problem`, are of one problem. With `golds` each row is of a
    problem of that set, found by its id or its text. Rows that name no model are of `model`, which
    is the file's name by default. The first `limit` problems of each label are read. `say`
    gets a line on what was read, and how. Raises UserError if the source cannot be read or is
    empty.
    """
    if source == "-":
        name = "stdin"
        rows = json_rows(name, sys.stdin.buffer)
    elif source.endswith(INSPECT_LOG):
        name = source
        rows = numbered(name, [inspect_log(Path(source))])
    else:
        name = source
        rows = file_rows(Path(source))
    shape, rows = _recognized(name, rows)
    reader = ResponseReader(model or source_names([source])[0], fields, golds, shape)
    parts = read_rows(rows, reader.read, limit=None, skip_bad=skip_bad)
    responses = [response for part in parts for response in part]
    if source != "-":
        _warn_if_changed(Path(source))
    if not responses:
        raise UserError(f"{name}: no responses in it; one JSON object a line is expected")
    if reader.index is not None:
        reader.index.check_order(name, reader.rows)
    elif reader.fields.other_golds:
        ((paths, count),) = reader.fields.other_golds.most_common(1)
        LOG.warning(
            "%s: %s hold different gold answers in %s; the first one counts, and --field answer=… "
            "names another",
            name,
            paths,
            plural(count, "row"),
        )
    say(f"{name}: {reader.summary(responses)}")
    _warn_of_unknown_reasons(name, responses)
    return responses if limit is None else _first_problems(responses, limit)


def _recognized(name: str, rows: Iterator[SourceRow]) -> tuple[Shape, Iterator[SourceRow]]:
    """Return the shape of a file, and its rows, which may be inside a single object."""
    first_rows = list(islice(rows, 2))
    values = [value for _, _, value in first_rows if isinstance(value, dict)]
    if not values:
        return PLAIN, chain(first_rows, rows)
    inside = rows_inside(values[0]) if len(first_rows) == 1 else None
    if inside is None:
        return shape_of(values[0]), chain(first_rows, rows)
    shape, rows_of_object = inside
    return shape, numbered(name, rows_of_object)


class ResponseReader:
    """Reads rows as responses: to the problems of a named set, or each to its row's own problem.

    `model` names the model of rows that name none, `fields` are the user's paths of the fields,
    `golds` is the named set, and `shape` is that of the file.
    """

    def __init__(
        self,
        model: str,
        fields: Mapping[FieldName, str] | None = None,
        golds: ProblemSet | None = None,
        shape: Shape = PLAIN,
    ) -> None:
        self.model = model
        self.golds = golds
        self.shape = shape
        paths = dict(fields or {})
        is_ordered = paths.get("id") == ORDER
        if is_ordered:
            del paths["id"]
            if golds is None:
                raise UserError(f"--field id={ORDER}: name the problem set that has this order")
        self.fields = FieldReader(shape.paths, user_paths=paths)
        self.index = None
        if golds is not None:
            text_first = bool(shape.name) and "id" not in paths
            self.index = ProblemIndex(golds, is_ordered, text_first)
        self.rows = 0
        self.repeated = 0
        """How many rows held the responses of an earlier one."""
        self.filters: Counter[str] = Counter()
        """How many rows there are of each filter of the other program."""
        self._seen: dict[bytes, Any] = {}
        """The filter of the first row with these responses."""

    def read(self, place: str, number: int, row: Any) -> list[ImportedResponse] | None:
        """Return the responses of a row, which is the one of this number in its file, at `place`.
        Return None for a row whose responses came before. Raises BadRowError."""
        self.rows += 1
        if self.shape.repeats and isinstance(row, dict) and self._is_repeated(row):
            self.repeated += 1
            return None
        row_problem, texts = self.fields.judged(row, self.golds is None)
        file = place.rpartition(":")[0]
        if self.index is None:
            problem = _identified(row_problem, file, number)
        else:
            problem = self.index.problem_of(row_problem, number)
        label = self._label(row, file)
        reasons = finish_reasons(row, len(texts), self.shape)
        token_counts = lengths(row, len(texts), self.shape)
        prompt = row.get("prompt")
        if not isinstance(prompt, str):  # another tool's may be a chat, which is not rendered
            prompt = None
        answer_format = row.get("verifier")
        if answer_format not in get_args(Format):
            answer_format = None
        return [
            ImportedResponse(
                place=place,
                label=label,
                problem=problem,
                response=text,
                finish_reason=reason,
                n_tokens=count,
                prompt=prompt,
                answer_format=answer_format,
                row_gold=row_problem.answer,
            )
            for text, reason, count in zip(texts, reasons, token_counts, strict=True)
        ]

    def summary(self, responses: Sequence[ImportedResponse]) -> str:
        """Describe what was read and how it was joined."""
        text = plural(self.rows, "row")
        if self.shape.name:
            text += f" as {self.shape.name}"
        if self.filters:
            kind = next(iter(self.filters))
            text += f", filter {shortened(kind)} of {len(self.filters)}"
        if self.repeated:
            text += f", {self.repeated} of them with the responses of another left out"
        problems = {(response.label.data, response.problem.id) for response in responses}
        text += f"; {self.fields.describe_sources()}; {plural(len(responses), 'response')} to "
        text += plural(len(problems), "problem")
        if self.index is not None:
            ways = (f"by {way} ({count})" for way, count in self.index.joined.items())
            text += f", joined with {self.index.name} {', '.join(ways)}"
        return text

    def _is_repeated(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row holds the responses of an earlier row once more, for another
        filter or in a log without filters."""
        kind = row.get(self.shape.filter or "")
        if kind is None:
            kind = self.rows
        else:
            self.filters[str(kind)] += 1
        values = [value_at(row, path) for path in self.shape.repeats]
        digest = hashlib.sha256(json.dumps(values, default=str).encode()).digest()
        return bool(self._seen.setdefault(digest, kind) != kind)

    def _label(self, row: Mapping[str, Any], file: str) -> Label:
        """Return the label of a row, with the set's or the file's name if it names no set."""
        default = file if self.golds is None else self.golds.name
        model = _first_value(row, field_paths(self.shape, "model"))[1] or self.model
        return Label(str(model), str(row.get(PROBLEM_SET) or default))


def _identified(row_problem: Problem, file: str, number: int) -> Problem:
    """Return a row's problem with an id. A row without one gets a digest of its text, or its number
    if it has no text either."""
    identity = row_problem.id
    if not identity and row_problem.problem:
        text = row_problem.problem.strip()
        identity = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    elif not identity:
        identity = f"{Path(file).name}-{number}"
    keys_of_response = {*ROW_KEYS, "model", PROBLEM_SET}
    extra = {k: value for k, value in row_problem.extra.items() if k not in keys_of_response}
    return replace(row_problem, id=identity, extra=extra)


def finish_reasons(
    row: Mapping[str, Any], count: int, shape: Shape = PLAIN
) -> tuple[str | None, ...]:
    """Return how each response of a row ended. Raises BadRowError."""
    path, value = _first_value(row, field_paths(shape, "finish_reason"))
    return tuple(finish_reason(word) for word in _values_of_responses(path, value, count))


def finish_reason(value: object) -> str | None:
    """Return how a response ended: `length` if it was cut off, else another program's word in lower
    case, or None if it is missing."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in CUT_OFF_REASONS:
        return "length"
    return word or None


def lengths(row: Mapping[str, Any], count: int, shape: Shape = PLAIN) -> tuple[int | None, ...]:
    """Return the number of tokens of each response of a row, or None if it is missing. A table may
    have 12.0 or "12". Raises BadRowError."""
    path, lengths_value = _first_value(row, field_paths(shape, "n_tokens"))
    if count > 1 and isinstance(lengths_value, int | float | str):
        if path == "n_tokens":
            raise BadRowError(
                f"{path} is one number for {count} responses; a list has one for each"
            )
        lengths_value = None  # a server counts the tokens of a request
    numbers: list[int | None] = []
    for value in _values_of_responses(path, lengths_value, count):
        digits = str(value).removesuffix(".0")
        is_short = len(digits) <= _NUMBER_DIGITS
        is_number = is_short and digits.isdecimal() and int(digits) < _MOST_TOKENS
        numbers.append(int(digits) if is_number else None)
    return tuple(numbers)


def _first_value(row: Mapping[str, Any], paths: Sequence[str]) -> tuple[str, Any]:
    """Return the first path at which a row has a value, and the value, or the last path and
    None."""
    for path in paths:
        value = value_at(row, path)
        if value is not None:
            return path, value
    return paths[-1], None


def _values_of_responses(path: str, value: Any, count: int) -> list[Any]:
    """Return one value for each response of a row: the elements of a list, else the value."""
    values = value if isinstance(value, list) else [value] * count
    if len(values) != count:
        raise BadRowError(f"{path} has {len(values)} values for {plural(count, 'response')}")
    return values


def _first_problems(responses: Sequence[ImportedResponse], limit: int) -> list[ImportedResponse]:
    """Return the responses to the first `limit` problems of each label."""
    ids_by_label: dict[Label, set[str]] = {}
    first = []
    for response in responses:
        ids = ids_by_label.setdefault(response.label, set())
        if response.problem.id in ids or len(ids) < limit:
            ids.add(response.problem.id)
            first.append(response)
    return first


def _warn_if_changed(path: Path) -> None:
    """Warn if a run has the file in its manifest with another checksum."""
    if not (path.parent / MANIFEST).exists():
        return
    error = integrity_error(path.parent, lambda name: name == path.name, ())
    if error is not None:
        LOG.warning("%s: not as the run wrote it: %s", path.parent, error)


def _warn_of_unknown_reasons(name: str, responses: Sequence[ImportedResponse]) -> None:
    """Warn of finish reasons of which it is not known whether they mean cut off."""
    reasons = {response.finish_reason for response in responses if response.finish_reason}
    unknown = sorted(reasons - OTHER_REASONS - {"length"})
    if unknown:
        words = ", ".join(map(shortened, unknown[:_SHOWN_REASONS]))
        LOG.warning("%s: finish_reason %s: not known, taken as not cut off", name, words)


def refuse_repeated(sources: Sequence[str]) -> None:
    """Raise UserError if a file is named twice, also by a link or another path."""
    files: set[str] = set()
    for source in sources:
        file = source if source == "-" else os.path.realpath(source)
        if file in files:
            raise UserError(f"--responses {source}: given twice; its rows would count twice")
        files.add(file)


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

    `problems` are pairs of a place (`file:line`) and a problem. With `repeated` a problem may occur
    again. `sets` names the set of each. Sets that are called as their files share their texts.
    """
    by_id: dict[tuple[str, str], tuple[str, Problem]] = {}
    by_text: dict[tuple[str, str], tuple[str, Problem]] = {}
    for (place, problem), name in zip(problems, sets, strict=False):
        first_place, first = by_id.setdefault((name, problem.id), (place, problem))
        is_same = first.problem.strip() == problem.problem.strip()
        if first is not problem and not (repeated and is_same):
            raise UserError(
                f"{place}: the id {problem.id} is that of another problem ({first_place}); "
                "every problem needs an id of its own"
            )
        twins = [(first_place, first)]
        if problem.problem:
            scope = "" if name == place.rpartition(":")[0] else name
            twins.append(by_text.setdefault((scope, problem.problem), (place, problem)))
        for twin_place, twin in twins:
            if twin.answer != problem.answer:
                gold = (problem.answer or "")[:_SHOWN_GOLD]
                twin_gold = (twin.answer or "")[:_SHOWN_GOLD]
                raise UserError(
                    f"{place}: problem {problem.id} has two different gold answers, {gold!r}, "
                    f"{twin_gold!r} in {twin_place}"
                )


def row_format(responses: Sequence[ImportedResponse]) -> Format:
    """Return the format by which the rows of one result were judged, or `any` without a name in
    them. Raises UserError if they disagree."""
    by_format = by_key(responses, lambda response: response.answer_format)
    if len(by_format) > 1:
        texts = "; ".join(f"{rows[0].place}: verifier {name}" for name, rows in by_format.items())
        raise UserError(f"rows were judged in different ways ({texts}); --set data.answer_format=…")
    return responses[0].answer_format or "any"


def judged_rows(
    responses: Sequence[ImportedResponse],
    verifier: Verifier,
    on_batch: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Judge each response as a row. The rows of a problem are adjacent, and the problems in the
    order in which they first come. `on_batch` gets the number of responses of each batch."""
    by_problem = by_key(responses, lambda response: response.problem.id).values()
    numbered = [pair for part in by_problem for pair in enumerate(part)]
    rows = []
    for start in range(0, len(numbered), _BATCH):
        batch = numbered[start : start + _BATCH]
        attempts = [attempt_of({**item.problem.row, **item.values}) for _, item in batch]
        verifications = verifier.verify_many(attempts)
        for (sample, response), verification in zip(batch, verifications, strict=True):
            rows.append(
                row_of(
                    response.problem,
                    sample,
                    response.values,
                    verification,
                    reward(verification),
                )
            )
        on_batch(len(batch))
    return rows
