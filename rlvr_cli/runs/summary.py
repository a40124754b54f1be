"""What a run has reached: its best step, its progress in a checkpoint, its summary at the end."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, PlainSerializer

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.jsonl import JsonObject, parse_json
from rlvr_cli.core.stored import Count, Finite, Stored
from rlvr_cli.core.text import first_mistake
from rlvr_cli.evaluation.held_out import MeasuredSets

_LARGEST_SUMMARY = 16 << 20
"""Bytes of a summary.json, which has some figures of each held-out set, at most."""


def _as_row(measured: MeasuredSets | None) -> JsonObject | None:
    return None if measured is None else measured.row


Measurement = Annotated[MeasuredSets | None, PlainSerializer(_as_row)]
"""The figures of the held-out sets, or None if they were not measured."""


class Best(Stored):
    """The step with the best held-out pass@1."""

    model_config = ConfigDict(populate_by_name=True)

    step: Count
    pass_at_1: Annotated[Finite, Field(alias="pass@1")]


class Progress(Stored):
    """What a checkpoint keeps of a run in addition to the state of its trainer."""

    before: Measurement = None
    """The measurement before the first step."""
    best: Best | None = None
    seconds: Annotated[Finite, Field(ge=0)] = 0.0
    """The seconds of the sessions so far."""


class Summary(Stored):
    """What summary.json has. It is empty until the run has ended."""

    model_config = ConfigDict(extra="ignore")

    steps: int = 0
    minutes: float = 0.0
    before: Measurement = None
    after: Measurement = None
    """The measurement after the last step."""
    best: Best | None = None
    figures: JsonObject = Field({})
    """The throughput of the run (`RunThroughput`)."""
    model: str | None = None
    """The newest checkpoint."""

    @property
    def pass_at_1(self) -> float | None:
        """Return pass@1 of the first held-out set after the last step, if it was measured."""
        return None if self.after is None else self.after.pass_at_1


def read_summary(run: Path) -> Summary:
    """Read a run's summary.json. Raises UserError if it cannot be read."""
    path = run / "summary.json"
    if not path.exists():
        return Summary()
    with reading(path):
        values = parse_json(read_regular(path, _LARGEST_SUMMARY))
    try:
        return Summary.model_validate(values)
    except ValueError as error:
        raise UserError(f"{path}: {first_mistake(error)}") from None
