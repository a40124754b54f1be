"""The words this package speaks: verdicts, attempts and verifications."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Format = Literal["think_answer", "boxed", "any"]


class Verdict(StrEnum):
    """What became of one response. Only `correct` and `wrong` are about the mathematics."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    BAD_FORMAT = "bad_format"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    UNPARSEABLE_GOLD = "unparseable_gold"


@dataclass(frozen=True)
class Verification:
    """A verdict, the answer it is about, and how it was reached."""

    verdict: Verdict
    extracted: str | None
    format_ok: bool
    reason: str
    format: str = "any"
    """How it was judged: a `Format`, or the name of another judge."""


@dataclass(frozen=True)
class Attempt:
    """A response to judge.

    `think_open`: the chat template already wrote `<think>`.
    `truncated`: generation stopped at the length cap.
    """

    response: str
    gold: str
    think_open: bool = False
    truncated: bool = False


@dataclass(frozen=True)
class Judgement:
    """Whether two answers are equal (None: not decided here), and how that was found."""

    equal: bool | None
    reason: str
    extracted: str | None = None
    """The answer, where the judge found it itself."""
