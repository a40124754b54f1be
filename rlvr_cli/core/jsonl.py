"""JSON lines: one object, one line, no number that JSON does not have."""

import json
import math
from collections.abc import Mapping
from typing import Any, TextIO


def jsonl_line(row: Mapping[str, Any]) -> str:
    """One JSON object as one line, with its end."""
    try:
        return json.dumps(row, default=str, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(row), default=str) + "\n"


def write_jsonl_line(file: TextIO, row: Mapping[str, Any]) -> None:
    """One JSON object, one line, at once."""
    file.write(jsonl_line(row))
    file.flush()


def _finite(value: Any) -> Any:
    """The value with null for every number that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value
