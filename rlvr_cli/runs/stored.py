"""The schemas of a run's files: validated once, where they are read."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from rlvr_cli.config import Config, setting_at
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, read_regular, reading
from rlvr_cli.core.jsonl import bounded_lines, parse_json
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.text import first_mistake
from rlvr_cli.core.types import TOKEN_FIGURES, Completion, Turn
from verifiers import Verification

Count = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
"""A number that can be added up and drawn."""
_MOST_TOKENS = 16 << 20
"""Bytes of a file of tokens."""


class Stored(BaseModel):
    """A part of a file that rlvr wrote: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StoredProblem(Stored):
    """A line of problems.jsonl."""

    id: str
    problem: str
    answer: str | None
    extra: dict[str, Any]
    turns: tuple[Turn, ...] = Field((), strict=False)


class StoredMetrics(Stored):
    """A line of metrics.jsonl: the metrics that guards and curves read."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Finite | bool | None]

    step: Annotated[int, Field(ge=1, lt=2**63)]
    no_update: str | None
    mixed_share: Finite | None
    verdicts: dict[str, Count]
    held_out_by_level: dict[str, Finite | None] = {}


class StoredTokens(Stored):
    """A response in tokens-step-N.json: what the update saw of its tokens (`training/record.py`);
    `group` is its group's number in the step."""

    group: Count
    sample: Count
    text: list[str]
    figures: dict[str, list[Finite]]

    @model_validator(mode="after")
    def _is_whole(self) -> "StoredTokens":
        if list(self.figures) != list(TOKEN_FIGURES):
            raise ValueError(f"its figures are not {', '.join(TOKEN_FIGURES)}")
        if {len(one) for one in self.figures.values()} != {len(self.text)}:
            raise ValueError("its lists are not of one length")
        return self


class _Rollout(Stored):
    text: str
    completion: Completion
    verification: Verification | None
    reward: float | None
    rewards: dict[str, float] = {}


class _Group(Stored):
    prompt: Count
    weight_version: Count
    rollouts: list[_Rollout]


class _Measured(Stored):
    model_config = ConfigDict(extra="allow")

    pass_at_1: Finite | None = Field(alias="pass@1")
    by_level: dict[str, Finite | None] = {}


class _Best(Stored):
    step: Count
    pass_at_1: Finite = Field(alias="pass@1")


class _Progress(Stored):
    before: _Measured | None
    best: _Best | None
    seconds: Annotated[Finite, Field(ge=0)]


class StoredState(Stored):
    """The state.json of a checkpoint."""

    step: Count
    settings: dict[str, Any]
    """Those that decide what is computed, by `section.key`."""
    problems: str
    start: str
    cursor: Count
    weight_version: Count
    carried: list[_Group]
    kl_coef: Finite
    mismatch: Finite | None
    optimizer: list[dict[str, Any]]
    progress: _Progress


def read_tokens(path: Path) -> list[StoredTokens]:
    """Read a tokens-step-N.json. Raises UserError if that cannot be."""
    with reading(path):
        found = parse_json(read_regular(path, _MOST_TOKENS))
    try:
        return TypeAdapter(list[StoredTokens]).validate_python(found)
    except ValidationError as error:
        raise UserError(f"{path}: {first_mistake(error)}") from None


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of metrics.jsonl in the order of their steps; skip invalid ones."""
    last = 0
    # an OSError: none yet, not a file; a UserError: no end of a line
    with suppress(OSError, UserError), open_regular(path, follow=False) as file:
        for line in bounded_lines(str(path), file):
            try:
                row = parse_json(line)
                step = StoredMetrics.model_validate(row).step
            except ValueError:
                continue
            if step > last and line.endswith(b"\n"):
                last = step
                yield row


def computing_settings(config: Config) -> dict[str, Any]:
    """Return the settings that determine a run's results, by `section.key`, as JSON holds them:
    without those that a resumed run may change, and without paths."""
    flat = dict(leaves(config.model_dump(mode="json")))
    found = {key: setting_at(key) for key in flat}
    fixed = {key for key, one in found.items() if one is None or one.use.on_resume == "fixed"}
    if config.optim.schedule != "constant":
        fixed.add("steps")
    return {key: value for key, value in flat.items() if key in fixed and value != {}}
