"""Make the tables and the pictures of `claims.py` from the figures that its runs left."""

import itertools
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.evaluation.curves import (
    AXES,
    STEPS,
    Axis,
    Curve,
    Figure,
    MeasuredRun,
    Point,
    Seeds,
    curve,
    ends_of,
    interpolate,
    mean_of,
)
from rlvr_cli.evaluation.estimators import crossed_difference
from rlvr_cli.evaluation.picture import picture

FIGURES: tuple[str, ...] = get_args(Figure)
LEVELS = (0.2, 0.3, 0.4, 0.6, 0.8, 0.9, 0.95)
LAST = 10
"""Steps over which a figure is averaged."""
MOST_ARMS = 4
"""Beyond, a claim has neither differences nor a picture."""


def report(
    name: str, sentence: str, arms: Sequence[str], figure: str, results: Path, pictures: Path
) -> None:
    """Print the tables of a claim, and draw its picture if it has few arms."""
    seeds = {arm: _runs(results, arm) for arm in arms}
    seeds = {arm: by_seed for arm, by_seed in seeds.items() if by_seed}
    runs = {arm: list(by_seed.values()) for arm, by_seed in seeds.items()}
    print(f"\n### {name}: {sentence}\n")
    if not runs:
        print("No run is there yet.")
        return
    for line in tables(runs):
        print(line)
    if len(runs) > MOST_ARMS:
        return
    for line in differences(seeds, _ends(runs)):
        print(line)
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / f"{name}.svg").write_text(picture(runs, figure), encoding="utf-8")


def _runs(results: Path, arm: str) -> Seeds:
    paths = sorted(results.glob(f"{arm}-[0-9]*.json"))
    return {
        int(path.stem.rpartition("-")[2]): run_of(json.loads(path.read_text())) for path in paths
    }


def kept_figures(run: MeasuredRun) -> dict[str, Any]:
    """Return what is stored of a run, without the shares of single problems."""
    measured = []
    for point in run.measured:
        figures_of_point = {"step": point.step, "seconds": point.seconds, "tokens": point.tokens}
        figures_of_point["pass@1"] = point.pass_at_1
        if point.by_level:
            figures_of_point["by_level"] = point.by_level
        measured.append(figures_of_point)
    rows = [figures.row for figures in run.steps]
    steps = [{name: row.get(name) for name in ("step", *FIGURES)} for row in rows]
    return {"measured": measured, "steps": steps}


def run_of(stored: dict[str, Any]) -> MeasuredRun:
    """Return the run of which `kept_figures` were stored."""
    points = [
        Point(
            step=point["step"],
            seconds=point["seconds"],
            tokens=point["tokens"],
            pass_at_1=point["pass@1"],
            by_level=point.get("by_level", {}),
        )
        for point in stored["measured"]
    ]
    bare = {"no_update": None, "mixed_share": None, "verdicts": {}}
    return MeasuredRun(points, [StepFigures.from_row(bare | row) for row in stored["steps"]])


def _ends(runs: dict[str, list[MeasuredRun]]) -> dict[Axis, float]:
    return ends_of(itertools.chain.from_iterable(runs.values()))


def tables(runs: dict[str, list[MeasuredRun]]) -> list[str]:
    """Return pass@1 at the end of each axis that all runs reach, how far it is to each level of
    pass@1, and the means of the other figures over the last steps."""
    ends = _ends(runs)
    at = [f"at {end:,.0f} {axis.unit}" for axis, end in ends.items()]
    lines = _row("arm", "seeds", *(f"pass@1 {place}" for place in at))
    lines += _row(*["---"] * 5)
    for arm, seed_runs in runs.items():
        values = ([interpolate(curve(run, axis), ends[axis]) for run in seed_runs] for axis in AXES)
        lines += _row(arm, len(seed_runs), *map(spread, values))
    lines += ["", *_times(runs)]
    lines += ["", *_row("arm", *FIGURES)]
    lines += _row(*["---"] * (1 + len(FIGURES)))
    last = int(ends[STEPS])
    for arm, seed_runs in runs.items():
        figures = (
            _mean([mean_of(run, figure, last - LAST, last) for run in seed_runs])
            for figure in FIGURES
        )
        lines += _row(arm, *figures)
    return lines


def _times(runs: dict[str, list[MeasuredRun]]) -> list[str]:
    """Return how far it is on each axis to each level of pass@1 that any run reaches."""
    highest = max(
        value for seed_runs in runs.values() for run in seed_runs for _, value in curve(run, STEPS)
    )
    levels = [level for level in LEVELS if level <= highest]
    lines = _row("arm", *(f"{axis.unit} to {' / '.join(map(str, levels))}" for axis in AXES))
    lines += _row(*["---"] * (1 + len(AXES)))
    for arm, seed_runs in runs.items():
        reached = (
            " / ".join(
                _mean_time([time_to(curve(run, axis), level) for run in seed_runs])
                for level in levels
            )
            for axis in AXES
        )
        lines += _row(arm, *reached)
    return lines


def differences(runs: dict[str, Seeds], ends: dict[Axis, float]) -> list[str]:
    """Return the pass@1 of each arm less that of the arm before, and of the last less the first,
    paired by seed, at the end of each axis."""
    lines = ["", *_row("difference", "seeds", *(f"at equal {axis.unit}" for axis in AXES))]
    lines += _row(*["---"] * (2 + len(AXES)))
    arms = list(runs.items())
    first_and_last = [(arms[0], arms[-1])] if len(arms) > 2 else []
    for (before, base), (arm, seed_runs) in [*itertools.pairwise(arms), *first_and_last]:
        shared_seeds = sorted(base.keys() & seed_runs.keys())
        if shared_seeds:
            by_axis = (
                [
                    interpolate(curve(seed_runs[seed], axis), end)
                    - interpolate(curve(base[seed], axis), end)
                    for seed in shared_seeds
                ]
                for axis, end in ends.items()
            )
            lines += _row(f"{arm} - {before}", len(shared_seeds), *map(spread, by_axis))
    return lines


def time_to(points: Curve, level: float) -> float | None:
    """Return where a curve first reaches a level, also between points, or None."""
    if points[0][1] >= level:
        return points[0][0]
    for (left, low), (right, high) in itertools.pairwise(points):
        if low < level <= high:
            return float(left + (right - left) * (level - low) / (high - low))
    return None


def spread(values: Sequence[float]) -> str:
    """Return the mean over the seeds and the half-width of its 95 % interval (Student)."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    over_seeds = crossed_difference([[value] for value in values])
    low, high = over_seeds.interval
    return f"{over_seeds.value:.3f} ± {(high - low) / 2:.3f}"


def _mean(values: Sequence[float | None]) -> str:
    present = [value for value in values if value is not None]
    return f"{statistics.mean(present):.3g}" if present else "-"


def _mean_time(times: Sequence[float | None]) -> str:
    present = [time for time in times if time is not None]
    missing = f" ({len(times) - len(present)} never)" if len(present) < len(times) else ""
    return f"{statistics.mean(present):,.0f}{missing}" if present else "never"


def _row(*cells: object) -> list[str]:
    return [f"| {' | '.join(map(str, cells))} |"]
