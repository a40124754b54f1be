"""Define what is judged and what is said of it: attempts, verdicts, verifications."""

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

Format = Literal["think_answer", "boxed", "any"]


class Verdict(StrEnum):
    """Say what became of one response. Only `correct` and `wrong` are about the mathematics."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    BAD_FORMAT = "bad_format"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    UNPARSEABLE_GOLD = "unparseable_gold"


def as_text(value: Any, field: str) -> str:
    """Return a text, or a number as text. Raises TypeError or ValueError, which name the field."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise TypeError(
            f"{field} must be a text or a number, not {json.dumps(value, default=repr)[:40]}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"{field} is too large a number" if math.isinf(value) else f"{field} is NaN"
        )
    return str(value)


@dataclass(frozen=True)
class Verification:
    """Hold a verdict, the text of the answer that it is about, and the reason for it."""

    verdict: Verdict
    extracted: str | None
    format_ok: bool
    reason: str
    format: str = "any"
    """The `Format` whose rules judged it, or the name of another judge."""
    score: float | None = None
    """From 0 to 1, if a problem's own rules score its answers. Only 1 is correct."""


@dataclass(frozen=True)
class Attempt:
    """Hold a response to judge and its gold answer.

    `think_open`: the prompt already ends with `<think>`, as some chat templates write it.
    `truncated`: generation stopped at the limit of tokens.
    `place`: that of a problem whose own rules score its answers (`verifiers.gym`).
    `problem`: its text, of which a formula that is only repeated is no answer.
    """

    response: str
    gold: str
    think_open: bool = False
    truncated: bool = False
    place: str | None = None
    problem: str | None = None

    def __post_init__(self) -> None:
        """Write numbers as texts. Raises TypeError or ValueError for what is neither."""
        for field in ("response", "gold"):
            value = getattr(self, field)
            if type(value) is not str:
                object.__setattr__(self, field, as_text(value, field))


@dataclass(frozen=True)
class Judgement:
    """Say whether two answers are equal (None: no limit of time or memory was kept), and why."""

    equal: bool | None
    reason: str
    extracted: str | None = None
    """The text of the answer, from a judge that looks for it itself."""
    score: float | None = None
    """From 0 to 1, if a problem's own rules score its answers."""
