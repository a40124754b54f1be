"""The figures of a step: a type inside, and a flat line of metrics.jsonl outside.

Each part has its fields in the order of the line. What a later version measures gets a field in its
part, or a part of its own that is absent from the lines of the versions before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.stored import Count, Finite, Stored

Number = float | None
"""A figure. None is one of nothing, or one that was not measured."""
LINE_VERSION = 1
"""The version of a line. It rises with a change that earlier versions would read wrongly."""
_REWARD = "reward/"
_MEASURED = "held_out_pass@1"


class _Line(Stored):
    """What every line of metrics.jsonl must have, whichever version wrote it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Finite | bool | None]

    step: Annotated[int, Field(ge=1, lt=2**63)]
    no_update: str | None
    mixed_share: Finite | None
    verdicts: dict[str, Count]
    held_out_by_level: dict[str, Finite | None] = Field({})
    row_version: Annotated[int, Field(ge=1, le=LINE_VERSION)] = LINE_VERSION


@dataclass(frozen=True)
class SampledFigures:
    """What a step sampled, before the group filter. A figure of nothing is None."""

    reward: Number = None
    pass_at_1: Annotated[Number, Field(alias="pass@1")] = None
    response_length: Number = None
    sampled_entropy: Number = None
    """Nats a token over all sampled tokens. None if no engine sampled."""
    reflections: Number = None
    """The share of the responses with a word of self-checking."""
    mixed_share: Number = None
    """The share of the groups with right and wrong responses."""
    format_share: Number = None
    """None if the prompt asks for no format."""
    unjudged_share: Number = None
    cut_off_share: Number = None
    groups_sampled: int | None = None
    tokens_sampled: int | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """How often each verdict was given."""
    rewards: Annotated[Mapping[str, Number], Field(exclude=True)] = field(default_factory=dict)
    """The mean of each reward before its weight, by name, and of its figures as NAME/FIGURE."""


@dataclass(frozen=True)
class BatchFigures:
    """What became of the groups of a step."""

    tokens_scored: int | None = None
    """Tokens that were passed before the update."""
    rejected_share: Number = None
    """The share of the responses that the correction rejected. None if it never rejects any."""
    gen_batches: int = 1
    groups_trained: int = 0
    groups_carried: int = 0
    """Groups that wait for the next step."""
    no_update: str | None = None
    """Why the rewards trained nothing. None if they did."""


@dataclass(frozen=True)
class RestFigures:
    """How problems rest, in a run with `data.rest`."""

    rested: int | None = None
    """Problems that were passed over because they rest."""
    groups_with_signal: Number = None
    """The share of the sampled groups whose responses differ."""


@dataclass(frozen=True)
class PartialFigures:
    """How responses go on from step to step, in a run with `rollout.partial`."""

    rounds: int = 0
    """Rounds of sampling."""
    tokens_decoded: int = 0
    """Tokens that they sampled, of responses that ended or not."""
    unfinished: int = 0
    """Responses that go on in the next step."""
    too_old: int = 0
    """Responses that `rollout.partial.age` ended."""
    lag: Number = None
    """Updates between the sampling and the training of a token: the mean over the batch."""


@dataclass(frozen=True)
class UpdateMeans:
    """Means over what an update passed. None is what it did not compute."""

    loss: Number = None
    entropy: Number = None
    approx_kl: Number = None
    clip_fraction: Number = None
    clip_fraction_low: Number = None
    clip_fraction_high: Number = None
    ref_kl: Number = None
    value_loss: Number = None
    grad_norm: Number = None
    critic_grad_norm: Number = None


@dataclass(frozen=True)
class UpdateFigures(UpdateMeans):
    """What an update did. All are None in a step without one."""

    approx_kl_after: Number = None
    """Nats a token, after the last epoch that measured them."""
    ref_kl_after: Number = None
    lr: Number = None
    epochs: int | None = None
    tokens_trained: int | None = None
    """Tokens of the responses that train, those without a gradient among them."""
    updates_skipped: int | None = None
    """Optimizer steps whose loss or gradient was not finite."""
    overflows: int | None = None
    """Mini-batches that float16 passed again."""
    mismatch: Number = None
    """The mean of |engine - trainer| log-probability over fresh tokens."""
    mismatch_tokens: int | None = None
    explained_variance: Number = None
    kl_coef: Number = None


@dataclass(frozen=True)
class HeldOut:
    """pass@1 of a held-out set with its 95 % interval. A figure of nothing is None."""

    pass_at_1: Number = None
    low: Number = None
    high: Number = None
    cons_at_k: Number = None
    by_level: Mapping[str, Number] = field(default_factory=dict)
    """pass@1 by the level of the problems. A line has it of the first set only."""


@dataclass(frozen=True)
class Seconds:
    """The seconds of a step by phase. None is a phase that it did not have."""

    __pydantic_config__ = ConfigDict(alias_generator=lambda name: f"seconds_{name}")

    rollout: Number = None
    reading: Number = None
    """Of responses that the data has."""
    verification: Number = None
    reward: Number = None
    sync: Number = None
    logprobs: Number = None
    update: Number = None
    step: Number = None
    processor: Number = None
    """Of all threads of the process."""


@dataclass(frozen=True)
class TokenUse:
    """What of the tokens of a step was of use."""

    tokens_with_signal: int | None = None
    tokens_updated: int | None = None
    """Tokens that the update passed, once a pass."""
    mfu: Number = None
    """The update's share of the GPU's peak. None if the peak is not known."""


@dataclass(frozen=True)
class Rates:
    """How fast a step or a run was. None is a phase that had no tokens, or took no time."""

    tokens_per_second_rollout: Number = None
    tokens_per_second_verification: Number = None
    tokens_per_second_logprobs: Number = None
    tokens_per_second_update: Number = None
    goodput: Number = None
    """Tokens with a signal a second of the whole step."""
    signal_share: Number = None
    """The share of the sampled tokens that have a signal."""


@dataclass(frozen=True)
class MemoryFigures:
    """Memory in GiB: of the GPU at the end of a phase, and the most. None was not measured."""

    __pydantic_config__ = ConfigDict(alias_generator=lambda name: f"memory_{name}_gib")

    awake: Number = None
    asleep: Number = None
    update: Number = None
    peak: Number = None
    """Without a GPU it is that of the process."""


_SAMPLED = TypeAdapter(SampledFigures)
_BATCH = TypeAdapter(BatchFigures)
_REST = TypeAdapter(RestFigures)
_PARTIAL = TypeAdapter(PartialFigures)
_UPDATE = TypeAdapter(UpdateFigures)
_SECONDS = TypeAdapter(Seconds)
_USE = TypeAdapter(TokenUse)
_RATES = TypeAdapter(Rates)
_MEMORY = TypeAdapter(MemoryFigures)


@dataclass(frozen=True)
class StepFigures:
    """The figures of a finished step."""

    step: int
    sampled: SampledFigures = SampledFigures()
    batch: BatchFigures = BatchFigures()
    rest: RestFigures | None = None
    partial: PartialFigures | None = None
    update: UpdateFigures = UpdateFigures()
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)
    """The held-out sets, if they were measured. The first has an empty name."""
    seconds: Seconds = Seconds()
    use: TokenUse = TokenUse()
    rates: Rates = Rates()
    memory: MemoryFigures = MemoryFigures()
    stored: JsonObject | None = field(default=None, repr=False, compare=False)
    """The line from which it was read: an earlier version may have had other keys."""

    @property
    def measured(self) -> Number:
        """Return pass@1 of the first held-out set. Return None if it was not measured."""
        return self.of_set("").pass_at_1

    @property
    def tokens_decoded(self) -> int | None:
        """Return how many tokens were sampled in the step. With partial rollouts these are not
        those of its responses, which may be of earlier steps, or go on."""
        return self.sampled.tokens_sampled if self.partial is None else self.partial.tokens_decoded

    def of_set(self, name: str) -> HeldOut:
        """Return the figures of a held-out set. They are None if it was not measured."""
        return self.held_out.get(name, HeldOut())

    @property
    def row(self) -> JsonObject:
        """Return the line of metrics.jsonl. One that was read is returned as it was."""
        if self.stored is not None:
            return self.stored
        return {
            "step": self.step,
            **_SAMPLED.dump_python(self.sampled, by_alias=True),
            **{f"{_REWARD}{name}": mean for name, mean in self.sampled.rewards.items()},
            **_BATCH.dump_python(self.batch),
            **({} if self.rest is None else _REST.dump_python(self.rest)),
            **({} if self.partial is None else _PARTIAL.dump_python(self.partial)),
            **_UPDATE.dump_python(self.update, exclude_none=True),
            **held_out_row(self.held_out),
            **_SECONDS.dump_python(self.seconds, by_alias=True, exclude_none=True),
            **_USE.dump_python(self.use),
            **_RATES.dump_python(self.rates),
            **_MEMORY.dump_python(self.memory, by_alias=True, exclude_none=True),
            "row_version": LINE_VERSION,
        }

    @classmethod
    def from_row(cls, row: JsonObject) -> "StepFigures":
        """Read a line of this version or of an earlier one. Raises ValueError if it is invalid."""
        line = _Line.model_validate(row)
        rewards = {key.removeprefix(_REWARD): row[key] for key in row if key.startswith(_REWARD)}
        return cls(
            step=line.step,
            sampled=_SAMPLED.validate_python({**row, "rewards": rewards}),
            batch=_BATCH.validate_python(row),
            rest=_REST.validate_python(row),
            partial=_PARTIAL.validate_python(row) if "rounds" in row else None,
            update=_UPDATE.validate_python(row),
            held_out=_held_out_of(row, line.held_out_by_level),
            seconds=_SECONDS.validate_python(row),
            use=_USE.validate_python(row),
            rates=_RATES.validate_python(row),
            memory=_MEMORY.validate_python(row),
            stored=row,
        )


History = Sequence[StepFigures]
"""The figures of each step, oldest first."""
Value = Callable[[StepFigures], Number]
"""A function that reads one figure of a step."""


def held_out_row(sets: Mapping[str, HeldOut]) -> JsonObject:
    """Return the figures of held-out sets as a part of a line. Keys of those after the first end in
    `/NAME`."""
    row: JsonObject = {}
    for name, figures in sets.items():
        suffix = f"/{name}" if row else ""
        by_level = {} if row else {"held_out_by_level": figures.by_level}
        row |= {
            f"{_MEASURED}{suffix}": figures.pass_at_1,
            f"{_MEASURED}_low{suffix}": figures.low,
            f"{_MEASURED}_high{suffix}": figures.high,
            f"held_out_cons@k{suffix}": figures.cons_at_k,
            **by_level,
        }
    return row


def _held_out_of(row: JsonObject, by_level: Mapping[str, Number]) -> dict[str, HeldOut]:
    """Return the held-out sets whose pass@1 is in a line, by name."""
    sets = {}
    for key in row:
        base, _, name = key.partition("/")
        if base != _MEASURED:
            continue
        suffix = f"/{name}" if name else ""
        sets[name] = HeldOut(
            pass_at_1=row[key],
            low=row.get(f"{_MEASURED}_low{suffix}"),
            high=row.get(f"{_MEASURED}_high{suffix}"),
            cons_at_k=row.get(f"held_out_cons@k{suffix}"),
            by_level={} if name else by_level,
        )
    return sets


def values_of(history: Iterable[StepFigures], value: Value) -> list[float]:
    """Return a figure of all steps that have it."""
    values = (value(figures) for figures in history)
    return [number for number in values if number is not None]
