"""Read and write JSON lines, bounded in length and depth, with valid numbers and unique keys."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any, AnyStr, TextIO

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import DEEPEST, is_too_deep, shortened

JsonObject = dict[str, Any]
"""An object as JSON."""
LONGEST_LINE = 64 << 20
"""Bytes (or characters) of one line of a file that others wrote."""
MOST_LINES = 20_000_000
LARGEST_JSON = 1 << 30
"""Bytes of a file of JSON over several lines, which is read whole."""
_VALUE = re.compile(r"[^\s,\[\]]")
"""The first character of a value, after brackets, commas and space."""


class DuplicateKeyError(ValueError):
    """A key occurs twice in one JSON object."""


def jsonl_line(row: Mapping[str, object]) -> str:
    """Return a JSON object as one line, with its end."""
    try:
        return json.dumps(row, default=str, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(row), default=str) + "\n"


def write_jsonl_line(file: TextIO, row: Mapping[str, object]) -> None:
    """Write a JSON object as one line and flush it."""
    file.write(jsonl_line(row))
    file.flush()


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text. Raises ValueError, in one line, if it is not UTF-8, not JSON, nested too
    deep, or has a duplicate key."""
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except DuplicateKeyError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object") from None
    if is_too_deep(value):
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    return value


def bounded_lines(name: str, file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of a file. Raises UserError beyond `LONGEST_LINE` or `MOST_LINES`."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UserError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MB")
        if number > MOST_LINES:
            raise UserError(f"{name}: more than {MOST_LINES} lines")
        yield line


def json_values(name: str, file: IO[bytes]) -> Iterator[object]:
    """Yield the values of a JSON array, or of JSON objects that follow one another over any number
    of lines. Raises UserError at an invalid value, and beyond `LARGEST_JSON`."""
    content = file.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise UserError(
            f"{name}: more than {LARGEST_JSON >> 20} MB of JSON; put each object on a line of its "
            "own"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{name}:1: not UTF-8 text") from None
    decoder = json.JSONDecoder(object_pairs_hook=_unique_keys)
    number = 1
    start = _VALUE.search(text)
    while start is not None:
        try:
            value, end = decoder.raw_decode(text, start.start())
        except DuplicateKeyError as error:
            raise UserError(f"{name}:{number}: {error}") from None
        except (ValueError, RecursionError):
            raise UserError(
                f"{name}:{number}: not valid JSON from here on, or the file ends too soon"
            ) from None
        yield value
        number += 1
        start = _VALUE.search(text, end)
    if text.lstrip().startswith("[") and not text.rstrip().endswith("]"):
        raise UserError(f"{name}:{number}: the array ends too soon")


def _unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    """Build the object of these pairs. Raises DuplicateKeyError for a key that occurs twice: its
    second value would silently replace the first."""
    row = dict(pairs)
    if len(row) < len(pairs):
        ((duplicate, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DuplicateKeyError(f"the key {shortened(duplicate)} stands twice")
    return row


def _finite(value: object) -> object:
    """Replace every number that JSON cannot express by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
