"""What `rlvr eval` reports: the figures of each result, what they were measured with, and how they
differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_cli.core.figures import Estimate, Figures, PairedDifference
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.types import SamplingParams
from verifiers import OURS, Format

REPORT_VERSION = 1
"""The version of `report.json`. It rises with a change that earlier versions would read wrongly."""


@dataclass(frozen=True)
class Judging:
    """By which rules responses are judged."""

    answer_format: Format
    version: str
    """A checksum of the rules' source."""
    judge: str = OURS
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the libraries on which the verdicts of another judge depend."""

    @property
    def in_words(self) -> str:
        """Say how answers are judged."""
        if self.judge == OURS:
            return f"answers judged as {self.answer_format}"
        return f"answers judged by {self.judge} {self.versions[self.judge]}"

    @property
    def row(self) -> JsonObject:
        """Return the rules as JSON."""
        rules = {"format": self.answer_format, "version": self.version}
        if self.judge == OURS:
            return rules
        return {"judge": self.judge, "versions": self.versions, **rules}


@dataclass(frozen=True)
class Sampling:
    """How responses were sampled."""

    params: SamplingParams
    seed: int
    has_max_tokens: bool = True
    """Whether the limit of tokens was set. If not, a server gives what its context leaves."""

    @property
    def row(self) -> JsonObject:
        """Return the settings as JSON."""
        row = {**vars(self.params), "seed": self.seed}
        return row if self.has_max_tokens else row | {"max_tokens": None}


@dataclass(frozen=True)
class Fingerprint:
    """What a result was measured with."""

    row: JsonObject = field(default_factory=dict)
    """All of it as JSON. That of a stored result has nothing else, and may be of any version."""
    judging: Judging | None = None
    sampling: Sampling | None = None

    @property
    def has_model(self) -> bool:
        """Return whether it says which model gave the responses."""
        return "model" in self.row


@dataclass(frozen=True)
class Speed:
    """How fast a command sampled."""

    tokens: int
    seconds: float


@dataclass(frozen=True)
class Entry:
    """What a report says of one result."""

    model: str
    data: str
    data_version: int | None
    """That of a known problem set."""
    fingerprint: Fingerprint
    figures: Figures
    any_form: Estimate | None
    by: Mapping[str, Mapping[str, Figures]]
    """The figures of a part of the problems, by field and value."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """How many responses are missing since they failed, by the reason. No figure counts them."""

    @property
    def ks(self) -> list[int]:
        """Return the values of k of its figures."""
        return list(self.figures.pass_at)

    @property
    def row(self) -> JsonObject:
        """Return the entry as `report.json` has it."""
        any_form = {} if self.any_form is None else {"any_form": self.any_form.row}
        by = {
            name: {value: part.row for value, part in parts.items()}
            for name, parts in self.by.items()
        }
        return {
            "model": self.model,
            "data": self.data,
            "data_version": self.data_version,
            "fingerprint": self.fingerprint.row,
            **self.figures.row,
            **({"failed": self.failed} if self.failed else {}),
            **any_form,
            **({"by": by} if by else {}),
        }


@dataclass(frozen=True)
class Comparison:
    """How a result differs from another, problem by problem."""

    model: str
    data: str
    against: str
    """The model of the baseline."""
    against_data: str
    baseline: str
    """The name by which a table shows the baseline."""
    problems: int
    missing: int
    """Problems that are missing in the baseline."""
    only_there: int
    other_golds: Sequence[str]
    """The ids of problems with another gold answer there."""
    unjudged: int
    """Problems without a judged response on one side."""
    differs: Sequence[str]
    """What was not measured with the same, in words."""
    pass_at: Mapping[int, PairedDifference]
    cons_at: Mapping[int, PairedDifference]

    @property
    def row(self) -> JsonObject:
        """Return the comparison as `report.json` has it."""
        return {
            "model": self.model,
            "data": self.data,
            "against": self.against,
            "against_data": self.against_data,
            "baseline": self.baseline,
            "problems": self.problems,
            "missing": self.missing,
            "only_there": self.only_there,
            "other_golds": self.other_golds,
            "unjudged": self.unjudged,
            "differs": self.differs,
            "pass@k": {str(k): difference.row for k, difference in self.pass_at.items()},
            "cons@k": {str(k): difference.row for k, difference in self.cons_at.items()},
        }


@dataclass(frozen=True)
class Report:
    """What `rlvr eval` reports of its results."""

    created: str
    command: str | None
    entries: Sequence[Entry]
    speeds: Sequence[Speed | None] = ()
    paired: Sequence[Comparison] = ()
    """Results of one command compared with the first."""
    against: Path | None = None
    compared: Sequence[Comparison] = ()
    """Results compared with those of an earlier command, which `against` names."""
    ks: Sequence[int] = ()
    """The k that were asked for, if any were."""

    @property
    def comparisons(self) -> list[Comparison]:
        """Return the comparisons among the results, then those with earlier results."""
        return [*self.paired, *self.compared]

    @property
    def row(self) -> JsonObject:
        """Return the report as `report.json` has it."""
        speeds = [speed and vars(speed) for speed in self.speeds]
        paired = [comparison.row for comparison in self.paired]
        against = {
            "path": str(self.against),
            "results": [comparison.row for comparison in self.compared],
        }
        return {
            "version": REPORT_VERSION,
            "created": self.created,
            "command": self.command,
            "results": [entry.row for entry in self.entries],
            **({"speed": speeds} if any(speeds) else {}),
            **({"paired": paired} if paired else {}),
            **({} if self.against is None else {"against": against}),
        }
