"""Compare runs over their steps, their processor seconds and their sampled tokens."""

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.evaluation.estimators import CrossedDifference, crossed_difference

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Figure = Literal[
    "response_length",
    "entropy",
    "sampled_entropy",
    "mixed_share",
    "clip_fraction",
    "grad_norm",
    "mismatch",
    "rejected_share",
]
"""Figures of the steps that a comparison reads, by their names in metrics.jsonl."""


HEAP_GAP = 0.25
"""The smallest gap in pass@1 that parts seeds in two heaps: of three seeds that spread by 0.1 about
one mean, one set in fourteen has it."""
FEWEST_IN_HEAPS = 3


@dataclass(frozen=True)
class Point:
    """The held-out problems as a run measured them after a step."""

    step: int
    seconds: float
    """Of the processor, in the steps up to there."""
    tokens: int
    """Sampled in the steps up to there."""
    pass_at_1: float | None
    """None if nothing was judged."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The share of right responses of each problem of which any was judged."""
    by_level: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredRun:
    """A run as a comparison sees it."""

    measured: Sequence[Point]
    steps: Sequence[StepFigures]


@dataclass(frozen=True)
class Axis:
    """What runs are compared over."""

    unit: str
    value: Callable[[Point], float]


STEPS = Axis("steps", lambda point: point.step)
AXES = (
    STEPS,
    Axis("seconds", lambda point: point.seconds),
    Axis("tokens", lambda point: point.tokens),
)


@dataclass(frozen=True)
class ArmAtEnd:
    """An arm at the end of an axis that all runs reach."""

    arm: str
    axis: Axis
    at: float
    seeds: int
    pass_at_1: float
    difference: CrossedDifference | None
    """Less the base, from the second seed on."""
    by_seed: Mapping[int, float] = field(default_factory=dict)
    """pass@1 of each seed that has ended."""

    @property
    def heaps(self) -> tuple[list[float], list[float]] | None:
        """Return pass@1 of the seeds below and above a gap that parts them in two heaps.

        The gap is at least `HEAP_GAP`, and twice as wide as either heap. Return None without one,
        and for fewer than three seeds, which cannot tell.
        """
        values = sorted(self.by_seed.values())
        for number in range(1, len(values)):
            low = values[:number]
            high = values[number:]
            gap = high[0] - low[-1]
            widest = max(low[-1] - low[0], high[-1] - high[0])
            if len(values) >= FEWEST_IN_HEAPS and gap >= max(HEAP_GAP, 2 * widest):
                return low, high
        return None


Seeds = dict[int, MeasuredRun]
Curve = Sequence[tuple[float, float]]
"""Points of an axis and a figure."""
Y = TypeVar("Y", float, "NDArray[float64]")


def ends_of(runs: Iterable[MeasuredRun]) -> dict[Axis, float]:
    """Return the end of each axis that all runs reach."""
    lasts = [run.measured[-1] for run in runs]
    return {axis: min(axis.value(last) for last in lasts) for axis in AXES}


def curve(run: MeasuredRun, axis: Axis) -> Curve:
    """Return pass@1 of a run over an axis."""
    return [
        (axis.value(point), point.pass_at_1)
        for point in run.measured
        if point.pass_at_1 is not None
    ]


def difference_curve(run: MeasuredRun, baseline: MeasuredRun) -> Curve:
    """Return pass@1 of a run less that of another over the steps between whose ends both were
    measured."""
    of_baseline = curve(baseline, STEPS)
    if not of_baseline:
        return []
    first, _ = of_baseline[0]
    last, _ = of_baseline[-1]
    return [
        (step, value - interpolate(of_baseline, step))
        for step, value in curve(run, STEPS)
        if first <= step <= last
    ]


def interpolate(points: Sequence[tuple[float, Y]], x: float) -> Y:
    """Interpolate a curve that begins at `x` or before it. The last value holds beyond its end."""
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= x <= right and left < right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1]


def mean_of(run: MeasuredRun, figure: str, after: int, last: int) -> float | None:
    """Return the mean of a figure over the steps that have it, or None without such a step."""
    rows = [figures.row for figures in run.steps if after < figures.step <= last]
    present = [row[figure] for row in rows if row.get(figure) is not None]
    return statistics.mean(present) if present else None


def smoothed(run: MeasuredRun, figure: str) -> Curve:
    """Return the means of a figure over every five steps."""
    last = max((figures.step for figures in run.steps), default=0)
    means = [(end, mean_of(run, figure, end - 5, end)) for end in range(5, last + 1, 5)]
    return [(end, value) for end, value in means if value is not None]


def on_a_grid(curves: Sequence[Curve]) -> list[tuple[float, list[float]]]:
    """Return the values of all curves at 31 places, up to the end of the shortest."""
    if not curves:
        return []
    start = max(points[0][0] for points in curves)
    end = min(points[-1][0] for points in curves)
    grid = [start + (end - start) * i / 30 for i in range(31)]
    return [(x, [interpolate(points, x) for points in curves]) for x in grid]


def compare_arms(runs: Mapping[str, Seeds], base: str) -> list[ArmAtEnd]:
    """Compare pass@1 of each arm at the end of each axis that all runs reach, and from the second
    seed on its difference to the base, paired by seed and problem.

    All points have the same problems.
    """
    ends = ends_of(run for seeds in runs.values() for run in seeds.values())
    compared = []
    for axis, end in ends.items():
        at_end = {
            arm: {seed: _shares_at(run, axis, end) for seed, run in of_arm.items()}
            for arm, of_arm in runs.items()
        }
        for arm, shares in at_end.items():
            seeds = sorted(shares.keys() & at_end[base].keys())
            difference = None
            if arm != base and len(seeds) > 1:
                difference = crossed_difference(
                    [shares[seed] - at_end[base][seed] for seed in seeds]
                )
            paired = seeds or sorted(shares)
            values = [float(shares[seed].mean()) for seed in paired]
            mean = statistics.fmean(values)
            by_seed = {seed: float(of_seed.mean()) for seed, of_seed in sorted(shares.items())}
            compared.append(ArmAtEnd(arm, axis, end, len(values), mean, difference, by_seed))
    return compared


def _shares_at(run: MeasuredRun, axis: Axis, x: float) -> "NDArray[float64]":
    """Return the share of right responses of each problem at a place of an axis."""
    import numpy

    problems = sorted(run.measured[0].shares)
    return interpolate(
        [
            (axis.value(point), numpy.array([point.shares[problem] for problem in problems]))
            for point in run.measured
        ],
        x,
    )
