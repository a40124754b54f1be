"""Measure how often our rules and math-verify agree about the same responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_cli.core.types import by_key
from rlvr_cli.data.rows import ResponseRow
from rlvr_cli.evaluation.estimators import estimate
from rlvr_cli.evaluation.report import UNJUDGED, Result, as_json

PEER = "math-verify"
"""The judge that others publish with."""
BOTH = "both"
_NO_ANSWERS = UNJUDGED | {"bad_format", "truncated"}


@dataclass(frozen=True)
class Pair:
    """One response with the verdicts of two judges; `problem` tells problems apart."""

    problem: tuple[str, ...]
    ours: ResponseRow
    theirs: ResponseRow

    @property
    def is_judged(self) -> bool:
        """Return whether both verdicts are about the answer; what is said of the format, or of a
        response that was cut off, is ours alone."""
        return _NO_ANSWERS.isdisjoint((self.ours["verdict"], self.theirs["verdict"]))

    @property
    def rights(self) -> tuple[bool, bool]:
        """Return whether our judge and the peer find the response right."""
        return self.ours["verdict"] == "correct", self.theirs["verdict"] == "correct"

    @property
    def differs(self) -> bool:
        """Return whether one judge finds the response right and the other does not."""
        return self.is_judged and self.rights[0] != self.rights[1]


def paired(results: Sequence[Result]) -> list[Pair]:
    """Pair the rows of each of our results with those of the peer's, which follows it."""
    return [
        Pair((ours.model, ours.data, problem.id), row, other)
        for ours, theirs in zip(results[::2], results[1::2], strict=True)
        for problem, same in zip(ours.problems, theirs.problems, strict=True)
        for row, other in zip(problem.rows, same.rows, strict=True)
    ]


def agreement(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compute the mean over problems of the share of responses on which the judges agree, with its
    95 % interval (None where none was judged by both), and count the responses behind it."""
    judged = [pair for pair in pairs if pair.is_judged]
    by_problem = by_key(judged, lambda pair: pair.problem)
    shares = [sum(not pair.differs for pair in of) / len(of) for of in by_problem.values()]
    least = min(map(len, by_problem.values()), default=1)
    rights = [pair.rights for pair in judged]
    return {
        "share": as_json(estimate(shares, least)),
        "judged by both": len(judged),
        "both right": rights.count((True, True)),
        "only ours": rights.count((True, False)),
        f"only {PEER}": rights.count((False, True)),
        "neither": rights.count((False, False)),
        "not judged": len(pairs) - len(judged),
    }
