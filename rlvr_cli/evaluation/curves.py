"""Compare runs over their steps, their processor seconds and their sampled tokens.

A run is a mapping: its `measured` points, each with an axis' value for each of AXES, `pass@1` and
maybe the `shares` of right responses of each problem; and the figures of its `steps`.
"""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from rlvr_cli.evaluation.estimators import Estimate, crossed_difference

AXES = {"step": "steps", "seconds": "seconds", "tokens": "tokens"}
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
FIGURES: tuple[str, ...] = get_args(Figure)
"""Metrics of the steps that a comparison reads."""

Run = dict[str, Any]
Seeds = dict[int, Run]
Curve = list[tuple[float, Any]]
"""Points of an axis and a value, which is a number or an array of numbers."""


def ends_of(runs: Iterable[Run]) -> dict[str, float]:
    """Return the end of each axis that all runs reach."""
    lasts = [run["measured"][-1] for run in runs]
    return {axis: min(last[axis] for last in lasts) for axis in AXES}


def curve(run: Run, axis: str, figure: str = "pass@1") -> Curve:
    """Return a measured figure of a run over an axis."""
    return [(point[axis], point[figure]) for point in run["measured"]]


def value_at(points: Curve, x: float) -> Any:
    """Interpolate a curve linearly; the last value holds beyond its end."""
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= x <= right and left < right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1]


def mean_of(run: Run, figure: str, after: int, last: int) -> float | None:
    """Return the mean of a figure over the steps that have it; None if none has."""
    values = [row.get(figure) for row in run["steps"] if after < row["step"] <= last]
    present = [value for value in values if value is not None]
    return statistics.mean(present) if present else None


def smoothed(run: Run, figure: str) -> Curve:
    """Return the means of a figure over every five steps."""
    last = max((row["step"] for row in run["steps"]), default=0)
    means = [(end, mean_of(run, figure, end - 5, end)) for end in range(5, last + 1, 5)]
    return [(end, value) for end, value in means if value is not None]


def on_a_grid(curves: Sequence[Curve]) -> list[tuple[float, list[float]]]:
    """Return the values of all curves at 31 places, up to the end of the shortest."""
    if not curves:
        return []
    start = max(points[0][0] for points in curves)
    end = min(points[-1][0] for points in curves)
    grid = [start + (end - start) * i / 30 for i in range(31)]
    return [(x, [value_at(points, x) for points in curves]) for x in grid]


def compare(runs: Mapping[str, Seeds], base: str) -> list[dict[str, Any]]:
    """Return a row for each axis and arm: pass@1 at the end that all runs reach, and from the
    second seed on its difference to the base, paired by seed and problem.

    Arms have the same problems, in the same order.
    """
    ends = ends_of(run for seeds in runs.values() for run in seeds.values())
    rows = []
    for axis, end in ends.items():
        at_end = {
            arm: {seed: value_at(curve(run, axis, "shares"), end) for seed, run in by_seed.items()}
            for arm, by_seed in runs.items()
        }
        for arm, shares in at_end.items():
            seeds = sorted(shares.keys() & at_end[base].keys())
            difference: Estimate | None = None
            if arm != base and len(seeds) > 1:
                difference = crossed_difference(
                    [shares[seed] - at_end[base][seed] for seed in seeds]
                )
            paired = seeds or sorted(shares)
            values = [float(shares[seed].mean()) for seed in paired]
            row = {"arm": arm, "axis": AXES[axis], "at": end, "seeds": len(values)}
            rows.append({**row, "pass@1": statistics.fmean(values), "difference": difference})
    return rows
