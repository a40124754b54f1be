"""Recognize the files of responses that other programs write.

A shape is a row of `SHAPES`: the program, what its rows have, and where. Everything else is read by
the names of `fields.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from rlvr_cli.core.cage import CageError, in_cage
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import PROBLEM_SET
from rlvr_cli.data.fields import PROBLEMS
from rlvr_cli.data.paths import BadRowError, value_at
from verifiers.names import RESPONSES

Paths = Mapping[str, tuple[str, ...]]
INSPECT_LOG = ".eval"
"""The ending of inspect-ai's packed logs, which its own package reads."""
_LOG_S = 120.0
_LOG_GIB = 4


@dataclass(frozen=True)
class Shape:
    """How a program writes responses."""

    name: str
    marks: tuple[str, ...] = ()
    """Paths at which each of its rows has a value."""
    paths: Paths = field(default_factory=dict)
    """Paths of the fields, which are tried before other names."""
    repeats: tuple[str, ...] = ()
    """Paths at which two rows are equal if they are one response that was written twice."""
    filter: str | None = None
    """The field that names the way in which the program looked for the answer of such a row."""
    rows: Callable[[JsonObject], Iterator[object] | None] | None = None
    """Returns the rows of a file that is one object, or None if the object is of another shape."""


_ENDS: Paths = {
    "finish_reason": ("finish_reason", "stop_reason"),
    "refusal": ("refusal",),
    "error": ("error", "error_message", "exception", "response.error", "response.body.error"),
    "n_tokens": ("n_tokens",),
    "model": ("model",),
}


def _inspect_rows(log: JsonObject) -> Iterator[object] | None:
    """Return the samples of a log of inspect-ai, each with its model and its task."""
    header = log.get("eval")
    samples = log.get("samples")
    if not isinstance(header, dict) or not isinstance(samples, list):
        return None
    label = {"model": header.get("model"), PROBLEM_SET: header.get("task")}
    return (_inspect_row(sample, label) for sample in samples)


def _inspect_row(sample: object, label: JsonObject) -> object:
    if not isinstance(sample, dict):
        return sample
    target = sample.get("target")
    if isinstance(target, list) and len(target) > 1:
        return BadRowError("target has several right answers, and a response is judged by one")
    if isinstance(target, list) and target:
        target = target[0]
    metadata = sample.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    names = ("id", "input", "output", "error")
    return {**fields, **{name: sample.get(name) for name in names}, "target": target, **label}


def _keyed_rows(entries: JsonObject) -> Iterator[JsonObject] | None:
    """Return the entries of an object that has one for each problem, by its text or its id."""
    for entry in entries.values():
        if not isinstance(entry, dict) or not any(name in entry for name in RESPONSES):
            return None
    return (_keyed_row(key, entry) for key, entry in entries.items())


def _keyed_row(key: str, entry: JsonObject) -> JsonObject:
    has_problem = any(value_at(entry, path) is not None for path in PROBLEMS)
    return {"id" if has_problem else "problem": key, **entry}


SHAPES = (
    Shape(
        "lm-eval samples",
        marks=("doc_id", "doc", "resps"),
        paths={
            "problem": tuple(f"doc.{name}" for name in PROBLEMS),
            "answer": ("target",),
            "response": ("resps[0]",),
            "id": ("doc_id",),
        },
        repeats=("doc_id", "doc", "resps"),
        filter="filter",
    ),
    Shape(
        "lighteval details",
        marks=("doc.query", "model_response.text"),
        paths={
            "problem": ("doc.query",),
            "answer": ("doc.choices[doc.gold_index]",),
            "response": ("model_response.text",),
            "id": ("doc.id",),
        },
    ),
    Shape(
        "samples of Qwen2.5-Math",
        marks=("gt", "code", "pred"),
        paths={"answer": ("gt",), "response": ("code",), "id": ("idx",)},
    ),
    Shape(
        "batch output of a server",
        marks=("custom_id", "response"),
        paths={
            "response": (
                "response.body.choices[*].message",
                "response.body.output[-1].content[0].text",
            ),
            "id": ("custom_id",),
            "finish_reason": (
                "response.body.choices[*].finish_reason",
                "response.body.incomplete_details.reason",
            ),
            "refusal": ("response.body.choices[*].message.refusal",),
            "error": ("response.body.choices[*].error",),
            "n_tokens": (
                "response.body.usage.completion_tokens",
                "response.body.usage.output_tokens",
            ),
            "model": ("response.body.model",),
        },
    ),
    Shape(
        "rollouts of NeMo Gym",
        marks=("responses_create_params.input", "response.output"),
        paths={
            "problem": ("responses_create_params.input",),
            "response": ("response.output[-1].content[0].text",),
            "finish_reason": ("response.incomplete_details.reason",),
            "n_tokens": ("response.usage.output_tokens",),
            "model": ("response.model",),
        },
    ),
    Shape(
        "predictions of evalscope",
        marks=("index", "model_output.choices"),
        paths={
            "response": ("model_output.choices[*].message",),
            "id": ("index",),
            "finish_reason": ("model_output.choices[*].stop_reason",),
            "n_tokens": ("model_output.usage.output_tokens",),
        },
    ),
    Shape(
        "rollouts of verl",
        marks=("input", "output", "gts"),
        paths={"problem": ("input",), "answer": ("gts",), "response": ("output",)},
    ),
    Shape("completions of TRL", marks=("prompt", "completion", "advantage")),
    Shape(
        "log of inspect-ai",
        rows=_inspect_rows,
        paths={
            "problem": ("input",),
            "answer": ("target",),
            "response": ("output.choices[0].message", "output.completion"),
            "finish_reason": ("output.choices[0].stop_reason",),
            "error": ("output.error",),
            "n_tokens": ("output.usage.output_tokens",),
        },
    ),
    Shape(
        "object keyed by problem",
        rows=_keyed_rows,
        paths={
            "response": ("responses[*][*].content", "responses[*].content"),
            "n_tokens": (
                "token_usages[*][*].completion_tokens",
                "token_usages[*].completion_tokens",
            ),
        },
    ),
)
PLAIN = Shape("")
"""The shape of all other rows."""


def shape_of(row: object) -> Shape:
    """Return the shape of which a row has all marks."""
    for shape in SHAPES:
        if shape.marks and all(value_at(row, path) is not None for path in shape.marks):
            return shape
    return PLAIN


def rows_inside(value: object) -> tuple[Shape, Iterator[object]] | None:
    """Return the shape and the rows of a file that is one object. Return None for an object that is
    a row itself."""
    if not isinstance(value, dict) or not value:
        return None
    for shape in SHAPES:
        rows = None if shape.rows is None else shape.rows(value)
        if rows is not None:
            return shape, rows
    return None


def field_paths(shape: Shape, name: str) -> tuple[str, ...]:
    """Return the paths of a field of a response, such as `finish_reason`, or of `model`."""
    return (*shape.paths.get(name, ()), *_ENDS[name])


def inspect_log(path: Path) -> JsonObject:
    """Return a packed log of inspect-ai as its JSON form, read in a cage."""
    try:
        log_module = import_module("inspect_ai.log")
    except ImportError:
        raise UserError(
            f"{path}: a log of inspect-ai: pip install inspect-ai, or give what "
            "`inspect log convert --to json` makes of it"
        ) from None
    try:
        log: JsonObject = in_cage(
            lambda: log_module.read_eval_log(str(path)).model_dump(mode="json"),
            _LOG_S,
            _LOG_GIB * GIB,
        )
    except CageError as error:
        raise UserError(f"{path}: inspect-ai cannot read it ({error})") from None
    return log
