"""Prepare text for people: terminal-safe strings, and numbers in sentences."""

import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

GIB = 1 << 30
"""Bytes of a gibibyte."""
LONGEST_ANSWER = 10_000
"""Characters of a gold answer at most. A longer one is a mistake, which every row would repeat."""
DEEPEST = 100
"""Levels of nesting in a problem's own fields at most."""
SHORT = 100
"""Characters of untrusted text in a message at most."""
_WRONG = {
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "greater_than": "must be more than {gt}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have {min_length} or more",
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "string": "must be a text",
    "tuple": "must be a list",
    "list": "must be a list",
    "dict": "must be a mapping",
    "model": "must be a mapping",
}
"""The words for a wrong value, by pydantic's type of the error or by the first word of that type,
such as int of int_parsing."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 but for tab and newline
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction of text round
)

_END_OF_PATH = re.compile("[?#]")


def printable(text: str) -> str:
    """Replace every character that a terminal would execute."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "replace").decode())


def shortened(text: str) -> str:
    """Put the text on one line, and cut it if it is long."""
    if len(text) > SHORT:
        text = f"{text[:SHORT]}…"
    return " ".join(text.splitlines())


def one_line(error: object, longest: int | None = 300) -> str:
    """Return the text of an error on one line, cut to the longest length."""
    return " ".join(str(error).split())[:longest]


def without_key(url: str) -> str:
    """Return a URL without a user, a password, a query and a fragment, any of which may be a key.

    One that cannot be told apart from the rest of the URL takes the rest along.
    """
    scheme, mark, rest = url.rpartition("://")
    if "@" in rest and _END_OF_PATH.search(rest.rpartition("@")[0]):
        rest = "…"
    return scheme + mark + _END_OF_PATH.split(rest.rpartition("@")[2])[0]


def first_line(error: object) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().split("\n")[0]


def format_value(value: object) -> str:
    """Format any value for a message, and cut it if it is long or deep."""
    try:
        return shortened(repr(value) if isinstance(value, str) else reprlib.repr(value))
    except ValueError:  # an int of thousands of digits
        return "so large a number"


def first_mistake(error: ValueError) -> str:
    """Return the first mistake that a validation found, or another error's text, in one line."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    name = ".".join(shortened(str(part)) for part in first["loc"])
    wrong = what_is_wrong(first)
    return f"{name}{wrong}" if name else wrong.lstrip(": ")


def what_is_wrong(error: "ErrorDetails") -> str:
    """Describe an error of pydantic in words that follow the name of its field."""
    words = _WRONG.get(error["type"]) or _WRONG.get(error["type"].partition("_")[0])
    if words is None:
        return f": {error['msg'].removeprefix('Value error, ')}"
    bounds = dict(error.get("ctx", {}))
    for name, bound in bounds.items():
        if isinstance(bound, float):
            bounds[name] = f"{bound:g}"
    return f" {words.format(**bounds)}"


def is_too_deep(value: object, levels: int = DEEPEST) -> bool:
    """Return whether lists and objects are nested more than `levels` deep."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_too_deep(part, levels - 1) for part in parts)


def plural(count: int, noun: str) -> str:
    """Format as `1 problem`, `2 problems`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def counts_in_words(numbers: Mapping[str, int]) -> str:
    """Format as `3 correct, 1 wrong`."""
    return ", ".join(f"{count} {name}" for name, count in numbers.items())


def opens_thought(prompt: str | None) -> bool:
    """Return whether a rendered prompt opens <think> by itself. Return False without a prompt."""
    return (prompt or "").rstrip().endswith("<think>")


def numbers_first(value: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by size, before other texts."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
