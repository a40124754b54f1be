"""Read responses made elsewhere, and judge them without a model."""

import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.config.parsing import read_field_paths
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import (
    MANIFEST,
    MANIFEST_LINES,
    integrity_error,
    read_growing_manifest,
)
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import is_too_deep, plural, shortened
from rlvr_cli.core.types import (
    FAILURE,
    PROBLEM_SET,
    FieldName,
    Label,
    Origin,
    Problem,
    Response,
    by_key,
)
from rlvr_cli.data.fields import FieldReader
from rlvr_cli.data.paths import BadRowError, value_at
from rlvr_cli.data.problems import ProblemSet, read_rows
from rlvr_cli.data.rows import ROW_KEYS, ROW_VERSION
from rlvr_cli.data.shapes import (
    INSPECT_LOG,
    PLAIN,
    Shape,
    field_paths,
    inspect_log,
    rows_inside,
    shape_of,
)
from rlvr_cli.data.signs import TOLERANCES
from rlvr_cli.data.sources import SourceRow, file_rows, json_rows, numbered
from rlvr_cli.evaluation.join import ORDER, ProblemIndex, ordered_by
from verifiers import Format, Verifier

ANSWER_FORMATS: tuple[Format, ...] = get_args(Format)
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
    "complete",
    "completed",
    "end_turn",
    "eos",
    "eos_token",
    "finished",
    "function_call",
    "refusal",
    "stop",
    "stop_sequence",
    "tool_calls",
    "tool_use",
    "unknown",
}
"""Finish reasons that are known not to mean cut off or failed."""
NO_ERROR = {"", "false", "n/a", "nan", "no", "none", "null", "ok"}
"""What programs write into the field of an error for a response without error."""
STDIN = "-"
_FIRST_ROWS = 50
"""Rows that tell of which shape a file is, and which fields it has."""
_BATCH = 512
"""Responses that are judged between two ticks of the progress bar."""
_SHOWN_REASONS = 5
_ID_DIGITS = 12
_NUMBER_DIGITS = 12
_MOST_TOKENS = 1 << 31


@dataclass(frozen=True)
class ResponseSource:
    """A file of responses that a command names."""

    path: str
    """`-` is stdin."""
    file_name: str
    """The file's name, as that of the model if neither the user nor a row names one."""
    model: str | None = None
    """The name of the model of all its rows, if the user gave one."""
    fields: Mapping[FieldName, str] = field(default_factory=dict)
    """Paths of fields that are this file's alone."""


@dataclass(frozen=True)
class ResponseFile:
    """A file of responses that is open."""

    source: ResponseSource
    name: str
    """The file as messages name it."""
    shape: Shape
    first_rows: Sequence[object]
    rows: Iterator[SourceRow]
    """All rows, with the first ones."""

    def has(self, path: str) -> bool:
        """Return whether one of the first rows has something at a path."""
        return any(value_at(row, path) is not None for row in self.first_rows)


def response_sources(texts: Sequence[str]) -> list[ResponseSource]:
    """Read files that are written as `FILE` or `NAME=FILE`. `::FIELD=path` after it names a field
    of this file alone.

    A file whose name has an equals sign or colons is that file. Raises UserError if a file is named
    twice, also by a link or another path.
    """
    divided = [_file_and_fields(text) for text in texts]
    parts = [_name_and_path(text) for text, _ in divided]
    paths = [path for _, path in parts]
    refuse_repeated(paths)
    file_names = source_names(paths)
    return [
        ResponseSource(path=path, file_name=file_name, model=model, fields=fields)
        for (model, path), file_name, (_, fields) in zip(parts, file_names, divided, strict=True)
    ]


def _file_and_fields(text: str) -> tuple[str, Mapping[FieldName, str]]:
    """Split `FILE::FIELD=path::FIELD=path`."""
    file, *fields = text.split("::")
    _, _, behind_name = text.partition("=")
    if not fields or Path(text).exists() or (behind_name and Path(behind_name).exists()):
        return text, {}
    return file, read_field_paths(fields)


def _name_and_path(text: str) -> tuple[str | None, str]:
    """Split `NAME=FILE` at the first equals sign that a file stands behind."""
    if "=" not in text or Path(text).exists():
        return None, text
    for sign in re.finditer("=", text):
        name = text[: sign.start()].strip()
        path = text[sign.end() :]
        if path == STDIN or Path(path).exists():
            if not name:
                raise UserError(f"--responses {shortened(text)}: write NAME=FILE, or FILE alone")
            return name, path
    _, _, path = text.partition("=")
    raise UserError(f"--responses {shortened(text)}: no such file as {shortened(path)}")


def open_responses(source: ResponseSource, rows: Iterable[object] | None = None) -> ResponseFile:
    """Open a file of responses, or stdin, whose place `rows` take. Raises UserError if it cannot be
    read."""
    if source.path == STDIN and rows is not None:
        name = "rows"
        source_rows = numbered(name, rows)
    elif source.path == STDIN:
        name = "stdin"
        source_rows = json_rows(name, sys.stdin.buffer)
    elif source.path.endswith(INSPECT_LOG):
        name = source.path
        source_rows = numbered(name, [inspect_log(Path(name))])
    else:
        name = source.path
        source_rows = file_rows(Path(name))
    first = list(islice(source_rows, _FIRST_ROWS))
    values = [value for _, _, value in first if isinstance(value, dict)]
    inside = rows_inside(values[0]) if values and len(first) == 1 else None
    if inside is not None:
        shape, rows_of_object = inside
        source_rows = numbered(name, rows_of_object)
        first = list(islice(source_rows, _FIRST_ROWS))
        values = [value for _, _, value in first if isinstance(value, dict)]
    else:
        shape = shape_of(values[0]) if values else PLAIN
    return ResponseFile(
        source=source,
        name=name,
        shape=shape,
        first_rows=[value for value in values if not is_too_deep(value)],
        rows=chain(first, source_rows),
    )


def fields_of_files(
    files: Sequence[ResponseFile], fields: Mapping[FieldName, str]
) -> list[dict[FieldName, str]]:
    """Return the user's paths of the fields for each file: its own, those that it has, and a path
    that no file has for all of them."""
    by_file = []
    for file in files:
        paths = {}
        for name, path in fields.items():
            order_path = ordered_by(path) if name == "id" else None
            is_order = order_path == ""
            row_path = order_path or path
            if is_order or file.has(row_path) or not any(other.has(row_path) for other in files):
                paths[name] = path
        by_file.append({**paths, **file.source.fields})
    return by_file


def read_responses(
    source: str | ResponseFile,
    limit: int | None,
    skip_bad: bool,
    fields: Mapping[FieldName, str] | None = None,
    golds: ProblemSet | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Response]:
    """Read the rows of a file, or of stdin if `source` is `-`.

    A row has an `answer` and a `response`, which is a text or a list of texts. Rows with the same
    `id`, or without one with the same `problem`, are of one problem. With `golds` each row is of a
    problem of that set, found by its id or its text. Rows that name no model are of the file's
    name. The first `limit` problems of each label are read. `say`
    gets a line on what was read, and how. A failure is a response that `has_failed`, without a
    text. Raises UserError if the source cannot be read or is empty, or if rows of several models
    are to have one name.
    """
    file = source
    if not isinstance(file, ResponseFile):
        (requested,) = response_sources([file])
        file = open_responses(requested)
    name = file.name
    reader = ResponseReader(
        file.source.file_name, fields, golds, file.shape, named=file.source.model
    )
    parts = read_rows(file.rows, reader.read, limit=None, skip_bad=skip_bad)
    responses = [response for part in parts for response in part]
    if file.source.path != STDIN:
        _warn_if_changed(Path(file.source.path))
    if len(reader.renamed) > 1:
        models = ", ".join(shortened(model) for model in sorted(reader.renamed)[:_SHOWN_REASONS])
        raise UserError(
            f"{name}: its rows are of several models ({models}), which cannot all be "
            f"{file.source.model}: leave {file.source.model}= out"
        )
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


class _About(BaseModel):
    """The prompt and the verdict that a row may have. What other programs write into these fields
    is not read."""

    prompt: object = None
    verifier: object = None
    row_version: object = None

    @property
    def is_newer(self) -> bool:
        """Return whether the row is ours, of a version that this rlvr does not know."""
        return type(self.row_version) is int and self.row_version > ROW_VERSION

    @property
    def prompt_text(self) -> str | None:
        """Return the prompt, if it is a text. Another tool's may be a chat, which is not
        rendered."""
        return self.prompt if isinstance(self.prompt, str) else None

    @property
    def answer_format(self) -> Format | None:
        """Return the format by which the row's verdict was given, if it names one of ours."""
        for answer_format in ANSWER_FORMATS:
            if self.verifier == answer_format:
                return answer_format
        return None


class ResponseReader:
    """Reads rows as responses: to the problems of a named set, or each to its row's own problem.

    `model` names the model of rows that name none, and `named` that of all rows. `fields` are the
    user's paths of the fields, `golds` is the named set, and `shape` is that of the file.
    """

    def __init__(
        self,
        model: str,
        fields: Mapping[FieldName, str] | None = None,
        golds: ProblemSet | None = None,
        shape: Shape = PLAIN,
        named: str | None = None,
    ) -> None:
        self.model = model
        self.named = named
        self.renamed: set[str] = set()
        """The names of models in the rows, if `named` is in their place."""
        self.golds = golds
        self.shape = shape
        paths = dict(fields or {})
        order_path = ordered_by(paths.get("id", ""))
        is_ordered = order_path is not None
        if is_ordered:
            del paths["id"]
            if order_path:
                paths["id"] = order_path
            if golds is None:
                raise UserError(f"--field id={ORDER}: name the problem set that has this order")
        self.fields = FieldReader(shape.paths, user_paths=paths, has_shape=bool(shape.name))
        self.index = None
        if golds is not None:
            text_first = bool(shape.name) and "id" not in paths
            self.index = ProblemIndex(golds, is_ordered, text_first, paths.get("id"))
        self.rows = 0
        self.repeated = 0
        """How many rows held the responses of an earlier one."""
        self.filters: Counter[str] = Counter()
        """How many rows there are of each filter of the other program."""
        self._seen: dict[bytes, object] = {}
        """The filter of the first row with these responses."""

    def read(self, place: str, number: int, row: object) -> list[Response] | None:
        """Return the responses of a row, which is the one of this number in its file, at `place`.
        Return None for a row whose responses came before. Raises BadRowError."""
        self.rows += 1
        if self.shape.repeats and isinstance(row, dict) and self._is_repeated(row):
            self.repeated += 1
            return None
        if isinstance(row, dict) and self._names_an_error(row):
            row_problem, texts = self._failed(row)
        else:
            row_problem, texts = self.fields.judged(row, self.golds is None)
        assert isinstance(row, dict)  # else the line above has raised
        file = place.rpartition(":")[0]
        if self.index is None:
            problem = _identified(replace(row_problem, place=place), file, number)
        else:
            problem = self.index.problem_of(row_problem, number)
        label = self._label(row, file)
        about = _About.model_validate(row)
        if about.is_newer:
            raise BadRowError(
                f"row_version {about.row_version}: a newer rlvr wrote it; this one reads versions "
                f"up to {ROW_VERSION}"
            )
        reasons = self._ends(row, texts)
        token_counts = lengths(row, len(texts), self.shape)
        origin = Origin(
            place=place,
            label=label,
            answer_format=about.answer_format,
            gold=row_problem.answer,
        )
        return [
            Response(
                problem=problem,
                text=text,
                prompt_text=about.prompt_text,
                finish_reason=reason,
                n_tokens=count,
                origin=origin,
            )
            for text, reason, count in zip(texts, reasons, token_counts, strict=True)
        ]

    def summary(self, responses: Sequence[Response]) -> str:
        """Describe what was read and how it was joined."""
        text = plural(self.rows, "row")
        if self.shape.name:
            text += f" as {self.shape.name}"
        if self.filters:
            kind = next(iter(self.filters))
            text += f", filter {shortened(kind)} of {len(self.filters)}"
        if self.repeated:
            text += f", {self.repeated} of them with the responses of another left out"
        problems = {(origin_of(response).label.data, response.problem.id) for response in responses}
        text += f"; {self.fields.describe_sources()}; {plural(len(responses), 'response')} to "
        text += plural(len(problems), "problem")
        if self.index is not None:
            ways = (f"by {way} ({count})" for way, count in self.index.joined.items())
            text += f", joined with {self.index.name} {', '.join(ways)}"
        return text

    def _names_an_error(self, row: JsonObject) -> bool:
        """Return whether a row of another program says that there was an error. In our own rows a
        field of that name is the problem's."""
        paths = field_paths(self.shape, "error")
        is_ours = "row_version" in row
        return not is_ours and any(names_an_error(value_at(row, path)) for path in paths)

    def _failed(self, row: JsonObject) -> tuple[Problem, tuple[str, ...]]:
        """Read a row that names an error, and may lack its response or its gold answer."""
        with suppress(BadRowError):
            return self.fields.judged(row, need_answer=False)
        with suppress(BadRowError):
            return self.fields.judged({**row, "response": ""}, need_answer=False)
        return Problem("", "", None), ("",)

    def _ends(self, row: JsonObject, texts: Sequence[str]) -> list[str | None]:
        """Return how each response ended: as its row says, `refusal` where the model has written
        one in place of a text, or `error` where row, response or body names one."""
        count = len(texts)
        ends = list(finish_reasons(row, count, self.shape))
        refusals = _values_at(row, field_paths(self.shape, "refusal"), count)
        for number, text in enumerate(texts):
            refusal = refusals[number]
            if isinstance(refusal, str) and refusal.strip() and not text.strip():
                ends[number] = "refusal"
            if is_error_body(text):
                ends[number] = "error"
        if "row_version" in row:
            return ends
        for path in field_paths(self.shape, "error"):
            for number, value in enumerate(_values_at(row, [path], count)):
                if names_an_error(value):
                    ends[number] = "error"
        return ends

    def _is_repeated(self, row: JsonObject) -> bool:
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

    def _label(self, row: JsonObject, file: str) -> Label:
        """Return the label of a row, with the set's or the file's name if it names no set."""
        default = file if self.golds is None else self.golds.name
        _, model = _first_value(row, field_paths(self.shape, "model"))
        if self.named is not None and model:
            self.renamed.add(str(model))
        return Label(
            model=str(self.named or model or self.model),
            data=str(row.get(PROBLEM_SET) or default),
        )


def _identified(row_problem: Problem, file: str, number: int) -> Problem:
    """Return a row's problem with an id. A row without one gets a digest of its text, or its number
    if it has no text either."""
    identity = row_problem.id
    if not identity and row_problem.problem:
        text = row_problem.problem.strip()
        identity = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    elif not identity:
        identity = f"{Path(file).name}-{number}"
    names = {*ROW_KEYS, "model", PROBLEM_SET}
    extra = {key: value for key, value in row_problem.extra.items() if key not in names}
    return replace(row_problem, id=identity, extra=extra)


def finish_reasons(row: JsonObject, count: int, shape: Shape = PLAIN) -> tuple[str | None, ...]:
    """Return how each response of a row ended. Raises BadRowError."""
    path, value = _first_value(row, field_paths(shape, "finish_reason"))
    return tuple(finish_reason(word) for word in _values_of_responses(path, value, count))


def names_an_error(value: object) -> bool:
    """Return whether the value of a field for errors names one. A number may be anything, also as a
    text: OlympiadBench has the tolerance of an answer there."""
    if isinstance(value, Mapping):
        return any(value.values())
    if isinstance(value, list):
        return any(map(names_an_error, value))
    if isinstance(value, str):
        text = value.strip().lower()
        return text not in NO_ERROR and not TOLERANCES.fullmatch(text)
    return value is True


def is_error_body(text: str) -> bool:
    """Return whether the text of a response is the body of a failed request, as JSON."""
    return names_an_error(value_at({"body": text}, "body.error"))


def finish_reason(value: object) -> str | None:
    """Return how a response ended: `length` if it was cut off, else another program's word in lower
    case, or None if it is missing. SGLang writes an object with the word as its `type`."""
    if isinstance(value, Mapping):
        value = value.get("type")
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in CUT_OFF_REASONS:
        return "length"
    return word or None


def lengths(row: JsonObject, count: int, shape: Shape = PLAIN) -> tuple[int | None, ...]:
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


def _first_value(row: JsonObject, paths: Sequence[str]) -> tuple[str, object]:
    """Return the first path at which a row has a value, and the value. Return the last path and
    None for a row without a value."""
    for path in paths:
        value = value_at(row, path)
        if value is not None:
            return path, value
    return paths[-1], None


def _values_of_responses(path: str, value: object, count: int) -> list[object]:
    """Return one value for each response of a row: the elements of a list, else the value."""
    values = value if isinstance(value, list) else [value] * count
    if len(values) != count:
        raise BadRowError(f"{path} has {len(values)} values for {plural(count, 'response')}")
    return values


def _values_at(row: JsonObject, paths: Sequence[str], count: int) -> list[object]:
    """Return the value of each response of a row at the first path that has any: the elements of a
    list that is as long, else the value."""
    _, value = _first_value(row, paths)
    return value if isinstance(value, list) and len(value) == count else [value] * count


def _first_problems(responses: Sequence[Response], limit: int) -> list[Response]:
    """Return the responses to the first `limit` problems of each label."""
    ids_by_label: dict[Label, set[str]] = {}
    first = []
    for response in responses:
        ids = ids_by_label.setdefault(origin_of(response).label, set())
        if response.problem.id in ids or len(ids) < limit:
            ids.add(response.problem.id)
            first.append(response)
    return first


def _warn_if_changed(path: Path) -> None:
    """Warn if a run has the file in its manifest with another checksum."""
    if not any((path.parent / name).exists() for name in (MANIFEST, MANIFEST_LINES)):
        return
    error = integrity_error(
        path.parent, lambda name: name == path.name, (), read=read_growing_manifest
    )
    if error is not None:
        LOG.warning("%s: not as the run wrote it: %s", path.parent, error)


def _warn_of_unknown_reasons(name: str, responses: Sequence[Response]) -> None:
    """Warn of finish reasons of which it is not known whether they mean cut off."""
    reasons = {response.finish_reason for response in responses if response.finish_reason}
    known = OTHER_REASONS | {"length"}
    unknown = sorted(word for word in reasons - known if not FAILURE.search(word))
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


def row_format(responses: Sequence[Response]) -> Format:
    """Return the format by which the rows of one result were judged, or `any` without a name in
    them. Raises UserError if they disagree."""
    by_format = by_key(map(origin_of, responses), lambda origin: origin.answer_format)
    if len(by_format) > 1:
        texts = "; ".join(f"{rows[0].place}: verifier {name}" for name, rows in by_format.items())
        raise UserError(f"rows were judged in different ways ({texts}); --set data.answer_format=…")
    return origin_of(responses[0]).answer_format or "any"


def origin_of(response: Response) -> Origin:
    """Return where a response of a file stood."""
    assert response.origin is not None
    return response.origin


def judged(
    responses: Sequence[Response],
    verifier: Verifier,
    on_batch: Callable[[int], None] = lambda count: None,
) -> list[Response]:
    """Return the responses with their verdicts, and with their numbers among those to a problem.

    Those to a problem are adjacent, and the problems in the order in which they first come.
    `on_batch` gets the number of responses of each batch.
    """
    by_problem = by_key(responses, lambda response: response.problem.id).values()
    numbered = [pair for part in by_problem for pair in enumerate(part)]
    finished = []
    for start in range(0, len(numbered), _BATCH):
        batch = numbered[start : start + _BATCH]
        verifications = verifier.verify_many([response.attempt for _, response in batch])
        for (sample, response), verification in zip(batch, verifications, strict=True):
            finished.append(
                replace(
                    response,
                    sample=sample,
                    verification=verification,
                    reward=reward(verification),
                )
            )
        on_batch(len(batch))
    return finished
