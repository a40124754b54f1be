"""Find the value at a path of a row, and name the paths that a row has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import shortened

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")
_INDEX = re.compile(r"-?\d{1,9}")
_VALUES = re.compile(r"\(.*\)|'[^']*'|\d+", re.DOTALL)
_SHOWN = 12
"""Keys in a message at most."""


class BadRowError(Exception):
    """A row is not a problem, or not a response."""

    @property
    def kind(self) -> str:
        """Return what is equal in two rows that are bad for one reason: the message without the
        values, which are numbers, or stand in quotes or parentheses."""
        return _VALUES.sub("", super().__str__())


class Step(NamedTuple):
    """A step of a path: either a name or the text in brackets, and None for the other."""

    name: str | None
    inner: str | None


class Leaf(NamedTuple):
    """A field of a row, maybe inside objects, that is not an object itself."""

    path: str
    value: object


def value_at(row: object, path: str) -> object:
    """Return the value at a path such as `a.b[0].c`, in any case, or None.

    `a[*].b` is the list of all b. `a[b.c]` has the index that b.c holds. A text that holds JSON is
    parsed on the way. `a+b` joins two texts. Raises BadRowError if `a[*][*]` would mix the lists of
    several keys.
    """
    if isinstance(row, Mapping):
        key = key_of(row, path)
        if key is not None:
            return row[key]
    if "+" in path:
        parts = [value_at(row, part) for part in path.split("+")]
        texts = [part for part in parts if isinstance(part, str) and part.strip()]
        return "\n\n".join(texts) if len(texts) == len(parts) else None
    steps = _steps(path)
    is_name_alone = len(steps) == 1 and steps[0].name == path
    if not steps or (is_name_alone and isinstance(row, Mapping)):
        return None
    return _value_inside(row, steps, row)


@lru_cache(1024)  # the same paths are looked for in every row
def _steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Return none for a text that is not a path."""
    steps = list(_STEP.finditer(path))
    if "".join(step[0] for step in steps) != path:
        return ()
    return tuple(Step(name=step[1], inner=step[2]) for step in steps)


def _value_inside(value: object, steps: Sequence[Step], row: object) -> object:
    """Return the value after the steps. Return None if a step leads nowhere."""
    for position, (name, index) in enumerate(steps):
        if isinstance(value, str):
            value = parsed_json(value)
        if index == "*":
            return _all_inside(value, steps[position + 1 :], row)
        if isinstance(value, Mapping):
            key = key_of(value, name or index or "")
            value = None if key is None else value[key]
        elif index and isinstance(value, list | tuple):
            value = _element(value, index, row)
        else:
            return None
    return value


def _element(values: Sequence[object], index: str, row: object) -> object:
    """Return the element of a list at an index, or at the index that the row has at a path. Return
    None for a shorter list."""
    number = int(index) if _INDEX.fullmatch(index) else value_at(row, index)
    if isinstance(number, list) and len(number) > 1:
        raise BadRowError(f"{index} names several right answers, and a response is judged by one")
    if isinstance(number, list) and number:
        number = number[0]
    if type(number) is int and -len(values) <= number < len(values):
        return values[number]
    return None


def _all_inside(values: object, steps: Sequence[Step], row: object) -> object:
    """Return what every element of a list or an object has after the steps, as one list. Return
    None if no element has anything."""
    is_nested = any(step.inner == "*" for step in steps)
    if isinstance(values, Mapping):
        has_lists = any(isinstance(value, list) for value in values.values())
        if is_nested and has_lists and len(values) > 1:
            keys = ", ".join(shortened(str(key)) for key in list(values)[:_SHOWN])
            raise BadRowError(
                f"it has lists of {keys}, which are not to be mixed: name one, as in "
                f"--field response=PATH[{next(iter(values))}][*]…"
            )
        values = list(values.values())
    if not isinstance(values, list | tuple):
        return None
    parts = [_value_inside(value, steps, row) for value in values]
    if is_nested:
        parts = [part for inner in parts if isinstance(inner, list) for part in inner]
    return parts if any(part is not None for part in parts) else None


def first_step(path: str) -> str:
    """Return the field of a row in which a path begins."""
    step = _STEP.match(path)
    return path if step is None else step[1] or path


def without(row: Mapping[str, object], *paths: str) -> dict[str, object]:
    """Return the fields of a row except those at the paths."""
    used = {key_of(row, path) for path in paths}
    return {key: value for key, value in row.items() if key not in used}


def parsed_json(text: str) -> object:
    """Parse a text that holds a JSON object or list. Return None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def key_of(row: Mapping[str, object], name: str) -> str | None:
    """Return a key in the row's own spelling. Case, spaces and hyphens do not matter."""
    if name in row:
        return name
    return _spellings(tuple(row)).get(normal_key(name))


@lru_cache(256)  # the rows of a file have the same few keys
def _spellings(keys: tuple[str, ...]) -> dict[str, str]:
    """Return the keys by their common spelling, of two alike the first."""
    return {normal_key(str(key)): key for key in reversed(keys)}


@lru_cache(1024)
def normal_key(key: str) -> str:
    """Return the common spelling of a key."""
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def row_leaves(row: Mapping[str, object], prefix: str = "", depth: int = 2) -> Iterator[Leaf]:
    """Yield the fields of a row. An object is replaced by its own fields, up to `depth`."""
    for key, value in row.items():
        parsed = parsed_json(value) if isinstance(value, str) and depth else value
        if isinstance(parsed, dict) and parsed and depth:
            yield from row_leaves(parsed, f"{prefix}{key}.", depth - 1)
        else:
            yield Leaf(f"{prefix}{key}", value)
