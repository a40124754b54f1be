"""The schemas of a result's files: validated once, where they are read."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from verifiers import Verdict


class Stored(BaseModel):
    """A part of such a file; additional keys are kept."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class JudgedRow(Stored):
    """A response row with its verdict, of `rlvr eval` or of rollouts."""

    id: str | int | float
    verdict: Annotated[Verdict, Field(strict=False)]
    problem: str | None = None
    extracted: str | None = None


class OwnRow(JudgedRow):
    """A row as `rlvr eval` writes it, with all that a report needs."""

    id: str
    response: str
    finish_reason: str | None
    n_tokens: Annotated[int, Field(ge=0, lt=2**31)] | None
    format_ok: bool
    reward: float | None


class Group(Stored):
    """A line of an unfinished result: the rows of one problem."""

    sha256: str
    rows: list[OwnRow]


class Header(Stored):
    """The first line of an unfinished result."""

    fingerprint: dict[str, Any]


class _Entry(Stored):
    model: str
    data: str
    fingerprint: dict[str, Any]


class Report(Stored):
    """A finished report.json."""

    results: list[_Entry]
