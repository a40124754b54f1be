"""What a measurement is: estimates with their intervals, and all figures of some problems."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rlvr_cli.core.jsonl import JsonObject
from verifiers import Verdict


@dataclass(frozen=True)
class Estimate:
    """A mean over problems, with its 95 % interval."""

    value: float
    interval: tuple[float, float]
    problems: int
    """The number of problems that it is over."""
    error: float = 0.0
    """The standard error of sampled subsets. 0 if all were taken."""

    @property
    def row(self) -> JsonObject:
        """Return the estimate as JSON. An error of 0 is left out."""
        row: JsonObject = {
            "value": self.value,
            "interval": self.interval,
            "problems": self.problems,
        }
        return row | {"error": self.error} if self.error else row


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference on the same problems, with its 95 % interval."""

    value: float
    interval: tuple[float, float]
    p: float
    better: int
    """The number of problems with a difference above 0."""
    worse: int
    problems: int
    p_holm: float | None = None
    """p corrected for the pairs of models that are compared, or None if not all pairs are."""

    @property
    def row(self) -> JsonObject:
        """Return the difference as JSON. A p that was not corrected is left out."""
        row = vars(self)
        return {key: value for key, value in row.items() if key != "p_holm" or value is not None}


Bias = Literal["up", "down", "cannot tell"]
"""In which direction a figure errs."""


@dataclass(frozen=True)
class LeftOut:
    """The problems that pass@k and cons@k leave out since they lack k judged responses."""

    problems: int
    pass_at_1: float | None
    """Their share, or None without a judged response."""
    others: float
    """pass@1 of the problems that the figure is over."""
    bias: Bias
    """That of the figure, as pass@1 of both tells."""

    @property
    def row(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "problems": self.problems,
            "pass@1": self.pass_at_1,
            "others": self.others,
            "bias": self.bias,
        }


@dataclass(frozen=True)
class Figures:
    """What the responses to some problems measure.

    pass@k and cons@k leave out responses that were not judged (timeouts, unreadable golds) and
    problems with fewer than k judged ones. Shares and the mean length are over all responses for
    which they are known.
    """

    problems: int
    responses: int
    pass_at: Mapping[int, Estimate | None]
    """pass@k by k. None if no problem has k judged responses."""
    cons_at: Mapping[int, Estimate | None]
    format_share: float | None
    """None if the judge demands no format."""
    cut_off_share: float | None
    response_length: float | None
    """Tokens."""
    verdicts: Mapping[Verdict, int]
    """How often each verdict was given, sorted by its name."""
    without_answer: Mapping[str, int] = field(default_factory=dict)
    """How many of the responses hold no answer for a reason that can be seen: `refusal`,
    `tool call` or `empty text`. They count as wrong."""
    left_out: Mapping[int, LeftOut] = field(default_factory=dict)
    """The problems that the figures at a k leave out, by k, if there are any."""

    @property
    def timeouts(self) -> int:
        """Return the number of responses on which the verifier ran out of time."""
        return self.verdicts.get(Verdict.TIMEOUT, 0)

    @property
    def unparseable_golds(self) -> int:
        """Return the number of responses whose gold answer cannot be read."""
        return self.verdicts.get(Verdict.UNPARSEABLE_GOLD, 0)

    @property
    def row(self) -> JsonObject:
        """Return the figures as `report.json` has them."""
        left_out = {str(k): problems.row for k, problems in self.left_out.items()}
        return {
            "problems": self.problems,
            "responses": self.responses,
            "pass@k": _by_k(self.pass_at),
            "cons@k": _by_k(self.cons_at),
            "format_share": self.format_share,
            "cut_off_share": self.cut_off_share,
            "timeouts": self.timeouts,
            "unparseable_golds": self.unparseable_golds,
            "response_length": self.response_length,
            "verdicts": {verdict.value: count for verdict, count in self.verdicts.items()},
            **({"without_answer": self.without_answer} if self.without_answer else {}),
            **({"left_out": left_out} if left_out else {}),
        }


def _by_k(estimates: Mapping[int, Estimate | None]) -> JsonObject:
    return {str(k): estimate and estimate.row for k, estimate in estimates.items()}
