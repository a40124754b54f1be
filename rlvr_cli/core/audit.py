"""What `rlvr audit` finds: its figures, the checks it made, and the rows of each."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Rating = Literal["fine", "look", "bad"]
"""The judgement of a check."""


class PlainRewards(NamedTuple):
    """What a plain right answer to a problem earns, and a plain wrong one."""

    right: float
    wrong: float


@dataclass(frozen=True)
class Example:
    """A response that a reward should not have rewarded so."""

    problem: str
    answer: str | None
    response: str
    reward: float | None
    reason: str
    """What went wrong, if the reward failed."""


@dataclass
class AuditRow:
    """What became of the trials of a row. `fault` is the word for what a reward should not do."""

    check: str
    row: str
    fault: str
    weight: float = 1.0
    """The share of real responses that are written so. A form that none has is not counted."""
    asked: int = 0
    faults: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True)
class Check:
    """The judgement of a check, what was found, and its rows."""

    name: str
    question: str
    judgement: Rating
    found: str
    rows: list[AuditRow]


@dataclass(frozen=True)
class AuditFigures:
    """What an audit found, by the names that `--format json` prints."""

    reward: list[str]
    answer_format: str
    data: str
    problems: int
    of: int
    """The number of problems of which `problems` were tried."""
    has_signal: bool
    """Whether a plain right answer earns more than a wrong one on half of the problems."""
    plain: list[PlainRewards]
    """What plain answers earn where a right one earns more."""
    way: str | None
    example: str | None
    seconds: float | None
    """The median time of a response that is asked alone."""
    slowest: float | None
    memory_mb: float
    checks: list[Check]
    note: str | None = None
    """Why fewer problems were tried than asked for."""
    is_interrupted: bool = False

    @property
    def is_fine(self) -> bool:
        """Return whether there is a signal and every check is fine."""
        return self.has_signal and all(check.judgement == "fine" for check in self.checks)
