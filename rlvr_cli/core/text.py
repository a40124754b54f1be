"""Prepare text for people: terminal-safe strings, and numbers in sentences."""

import re
import reprlib
from typing import Any

from pydantic import ValidationError

GIB = 1 << 30
"""Bytes of a gibibyte."""
LONGEST_ANSWER = 10_000
"""Characters of a gold answer; a longer one is a mistake, and every response would carry it."""
DEEPEST = 100
"""Levels of nesting in a problem's own fields."""
SHORT = 100
"""Characters of untrusted text in a message."""
_IN_OUR_WORDS = (
    (r"Input should be greater than or equal to (.+)", r"must be \1 or more"),
    (r"Input should be less than or equal to (.+)", r"must be \1 or less"),
    (r"Input should be greater than (.+)", r"must be more than \1"),
    (r"Input should be a valid integer", "must be a whole number"),
    (r"Input should be a valid boolean", "must be true or false"),
    (r"Input should be a valid string", "must be a text"),
    (r"Input should be a valid (?:tuple|list)", "must be a list"),
    (r"Input should be (?:a valid |an? )dict", "must be a mapping"),
    (r"Input should be a valid (\w+)", r"must be a \1"),
    (r"Input should be (.+)", r"must be \1"),
    (r"Field required", "is missing"),
    (r"Extra inputs are not permitted", "is not known"),
)
"""What pydantic says, and the same of a field that is named before."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 but for tab and newline
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction of text round
)


def printable(text: str) -> str:
    """Replace every character that a terminal would obey."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "replace").decode())


def shortened(text: str) -> str:
    """Put the text on one line, cut if it is long."""
    return " ".join((text if len(text) <= SHORT else f"{text[:SHORT]}…").splitlines())


def shown(value: Any) -> str:
    """Format any value for a message, cut if it is long or deep."""
    try:
        return shortened(repr(value) if isinstance(value, str) else reprlib.repr(value))
    except ValueError:  # an int of thousands of digits
        return "so large a number"


def first_mistake(error: ValueError) -> str:
    """Return the first mistake that a validation found, or another error's text, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(shortened(str(part)) for part in first["loc"])
    wrong = what_is_wrong(first["msg"])
    return f"{where}{wrong}" if where else wrong.lstrip(": ")


def what_is_wrong(message: str) -> str:
    """Return pydantic's message in our words, to follow the name of the field it is about."""
    for pattern, words in _IN_OUR_WORDS:
        if found := re.match(pattern, message):
            return f" {found.expand(words)}"
    return f": {message.removeprefix('Value error, ')}"


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested more than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
        if not level:
            return False
    return True


def plural(count: int, noun: str) -> str:
    """Format as `1 problem`, `2 problems`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def opens_thought(prompt: str | None) -> bool:
    """Say whether a rendered prompt, where one is known, opens <think> by itself."""
    return (prompt or "").rstrip().endswith("<think>")


def numbers_first(value: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by size, before other texts."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
