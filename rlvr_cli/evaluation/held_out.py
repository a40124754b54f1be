"""What a run keeps of a measurement of its held-out sets, in summary.json and in checkpoints."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import HeldOut
from rlvr_cli.core.stored import Finite
from rlvr_cli.core.types import WITHOUT_VERDICT


class Measured(BaseModel):
    """The figures of one held-out set, with how it was sampled. Older versions kept fewer."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    pass_at_1: Annotated[Finite | None, Field(alias="pass@1")] = None
    interval: Annotated[tuple[Finite, Finite] | None, Field(strict=False)] = None
    cons_at_k: Annotated[Finite | None, Field(alias="cons@k")] = None
    problems: int | None = None
    samples: int = 1
    max_tokens: int | None = None
    temperature: Finite | None = None
    top_p: Finite | None = None
    format_share: Finite | None = None
    cut_off_share: Finite | None = None
    response_length: Finite | None = None
    verdicts: dict[str, int] = Field({})
    by_level: dict[str, Finite | None] = Field({})
    """pass@1 for each value of the problems' field `level`."""
    settings: str = ""
    """How many responses were sampled, and how, in words."""

    @property
    def row(self) -> JsonObject:
        """Return the figures as JSON."""
        return self.model_dump(by_alias=True)

    @property
    def unjudged(self) -> int:
        """Return the number of responses that pass@1 leaves out."""
        return sum(self.verdicts.get(verdict, 0) for verdict in WITHOUT_VERDICT)


class MeasuredSets(Measured):
    """The figures of the first held-out set and, if there are several, of each by its name."""

    sets: dict[str, Measured] | None = None

    @property
    def by_name(self) -> Mapping[str, Measured]:
        """Return the figures of each set. The name of a single one is empty."""
        return self.sets or {"": self}

    @property
    def row(self) -> JsonObject:
        """Return the figures as `summary.json` has them."""
        first = self.model_dump(by_alias=True, exclude={"sets"})
        if self.sets is None:
            return first
        return {**first, "sets": {name: measured.row for name, measured in self.sets.items()}}


def measured_sets(sets: Mapping[str, Measured]) -> MeasuredSets:
    """Put the figures of the held-out sets together."""
    first = next(iter(sets.values()))
    by_name = {} if "" in sets else {"sets": dict(sets)}
    return MeasuredSets.model_validate({**first.row, **by_name})


def held_out_sets(sets: Mapping[str, Measured]) -> dict[str, HeldOut]:
    """Return the figures of held-out sets as a step has them. The first has an empty name."""
    held_out: dict[str, HeldOut] = {}
    for name, figures in sets.items():
        low, high = figures.interval or (None, None)
        held_out[name if held_out else ""] = HeldOut(
            pass_at_1=figures.pass_at_1,
            low=low,
            high=high,
            cons_at_k=figures.cons_at_k,
            by_level=figures.by_level,
        )
    return held_out
