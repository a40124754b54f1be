"""Measure how often two judges agree about the same responses, and find where they differ."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import by_key
from rlvr_cli.evaluation.estimators import Estimate, estimate
from rlvr_cli.evaluation.report import UNJUDGED, ResponseRow
from rlvr_cli.evaluation.responses import ImportedResponse, format_of_rows, judged_rows
from verifiers import OURS, Verifier, open_judge

PEER = "math-verify"
_FOLDERS = ("rollouts", "responses")
_NO_ANSWERS = UNJUDGED | {"bad_format", "truncated"}

_KINDS = {
    "integer": re.compile(r"[-+]?\d[\d,]*"),
    "decimal": re.compile(r"[-+]?(?:\d[\d,]*)?\.\d*"),
    "fraction": re.compile(r"[-+]?(?:\d+/\d+|\\[dt]?frac(?:\{\d+\}|\d)(?:\{\d+\}|\d))"),
    "choice": re.compile(r"\(?(?:\\text\{)?\(?[A-Z]\)?\}?\)?"),
    "words": re.compile(r"(?:\\text\{)?[A-Za-z][A-Za-z' -]+\}?"),
    "relation": re.compile(r".*(?:[=<>]|\\(?:leq?|geq?|neq?|in)\b).*", re.S),
    "tuple or interval": re.compile(r"(?:\\left)?[(\[][^,]*,.*[)\]]", re.S),
    "list or set": re.compile(r".*,.*", re.S),
}
"""Kinds of gold answers by their spelling; the first that fits."""


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


@dataclass(frozen=True)
class Agreement:
    """The agreement of two judges: the mean over problems of the share of responses, with its 95 %
    interval, and the counts of responses behind it."""

    share: Estimate | None
    """None where no response was judged by both."""
    both: int
    only_ours: int
    only_theirs: int
    neither: int
    unjudged: int

    @property
    def responses(self) -> int:
        """Return the number of responses judged by both."""
        return self.both + self.only_ours + self.only_theirs + self.neither


def judged_twice(
    given: Sequence[ImportedResponse], peer: Verifier, workers: int, on_batch: Callable[[int], None]
) -> list[Pair]:
    """Judge the responses of one file by our rules, in the form that its rows say, and by a peer.
    Raises UserError if the rows disagree about the form."""
    with open_judge(OURS, format=format_of_rows(given), workers=workers) as verifier:
        ours = judged_rows(given, verifier, lambda size: None)
    theirs = judged_rows(given, peer, on_batch)
    both = zip(ours, theirs, strict=True)
    return [Pair((row["id"], row["problem"] or ""), row, other) for row, other in both]


def response_files(source: str) -> list[str]:
    """List the response files of a run or a result directory; any other source is itself the file.
    Raises UserError for a directory without any."""
    directory = Path(source)
    if not directory.is_dir():
        return [source]
    found = [str(path) for name in _FOLDERS for path in sorted(directory.glob(f"{name}/*.jsonl"))]
    if not found:
        folders = " or ".join(f"{name}/*.jsonl" for name in _FOLDERS)
        raise UserError(f"{source}: neither a run nor a finished result: no {folders} in it")
    return found


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """Count and average over problems, without responses whose answer one judge did not judge."""
    judged = [pair for pair in pairs if pair.is_judged]
    by_problem = by_key(judged, lambda pair: pair.problem)
    shares = [sum(not pair.differs for pair in of) / len(of) for of in by_problem.values()]
    least = min(map(len, by_problem.values()), default=1)
    rights = [pair.rights for pair in judged]
    counts = [rights.count(pair) for pair in ((True, True), (True, False), (False, True))]
    counts += [len(judged) - sum(counts), len(pairs) - len(judged)]
    return Agreement(estimate(shares, least), *counts)


def parts(pairs: Iterable[Pair], of: Callable[[Pair], Any]) -> Mapping[str, list[Pair]]:
    """Group the pairs by a value of theirs, most frequent first."""
    found = by_key(pairs, lambda pair: str(of(pair)))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def answer_kind(gold: str) -> str:
    """Classify a gold answer by its spelling: `integer`, `fraction`, …, else `expression`."""
    bare = gold.strip().strip("$").strip()
    return next((kind for kind, form in _KINDS.items() if form.fullmatch(bare)), "expression")
