"""Make the tables and the pictures of `claims.py` from the figures that its runs left."""

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.evaluation.estimators import student

AXES = {"step": "steps", "seconds": "seconds", "tokens": "tokens"}
LEVELS = (0.2, 0.3, 0.4, 0.6, 0.8, 0.9, 0.95)
LAST = 10
"""Steps over which a figure is averaged."""
FIGURES = (
    "response_length",
    "entropy",
    "mixed_share",
    "clip_fraction",
    "grad_norm",
    "mismatch",
    "rejected_share",
)
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
WIDTH, HEIGHT, MARGIN = 300, 220, 45

Run = dict[str, Any]
Seeds = dict[int, Run]
Curve = list[tuple[float, float]]


def report(
    name: str, sentence: str, arms: Sequence[str], figure: str, results: Path, pictures: Path
) -> None:
    """Print the tables of a claim, and draw its picture if it has no more arms than colors."""
    seeds = {arm: _runs(results, arm) for arm in arms}
    seeds = {arm: by_seed for arm, by_seed in seeds.items() if by_seed}
    runs = {arm: list(by_seed.values()) for arm, by_seed in seeds.items()}
    print(f"\n### {name}: {sentence}\n")
    if not runs:
        print("No run is there yet.")
        return
    for line in tables(runs):
        print(line)
    if len(runs) > len(COLORS):
        return
    for line in differences(seeds, ends_of(runs)):
        print(line)
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / f"{name}.svg").write_text(picture(runs, figure), encoding="utf-8")


def _runs(results: Path, arm: str) -> Seeds:
    paths = sorted(results.glob(f"{arm}-[0-9]*.json"))
    return {int(path.stem.rpartition("-")[2]): json.loads(path.read_text()) for path in paths}


def ends_of(runs: dict[str, list[Run]]) -> dict[str, float]:
    """Return the end of each axis that all runs reach."""
    return {
        axis: min(run["measured"][-1][axis] for seed_runs in runs.values() for run in seed_runs)
        for axis in AXES
    }


def tables(runs: dict[str, list[Run]]) -> list[str]:
    """Return pass@1 at the end of each axis that all runs reach, how far it is to each level of
    pass@1, and the means of the other figures over the last steps."""
    ends = ends_of(runs)
    at = [f"at {end:,.0f} {AXES[axis]}" for axis, end in ends.items()]
    lines = _row("arm", "seeds", *(f"pass@1 {place}" for place in at))
    lines += _row(*["---"] * 5)
    for arm, seed_runs in runs.items():
        values = ([value_at(curve(run, axis), ends[axis]) for run in seed_runs] for axis in AXES)
        lines += _row(arm, len(seed_runs), *map(spread, values))
    lines += ["", *_times(runs)]
    lines += ["", *_row("arm", *FIGURES)]
    lines += _row(*["---"] * (1 + len(FIGURES)))
    last = int(ends["step"])
    for arm, seed_runs in runs.items():
        figures = (
            _mean([mean_of(run, figure, last - LAST, last) for run in seed_runs])
            for figure in FIGURES
        )
        lines += _row(arm, *figures)
    return lines


def _times(runs: dict[str, list[Run]]) -> list[str]:
    """Return how far it is on each axis to each level of pass@1 that any run reaches."""
    most = max(
        point["pass@1"]
        for seed_runs in runs.values()
        for run in seed_runs
        for point in run["measured"]
    )
    levels = [level for level in LEVELS if level <= most]
    lines = _row("arm", *(f"{AXES[axis]} to {' / '.join(map(str, levels))}" for axis in AXES))
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


def differences(runs: dict[str, Seeds], ends: dict[str, float]) -> list[str]:
    """Return the pass@1 of each arm less that of the arm before, and of the last less the first,
    paired by seed, at the end of each axis."""
    lines = ["", *_row("difference", "seeds", *(f"at equal {unit}" for unit in AXES.values()))]
    lines += _row(*["---"] * (2 + len(AXES)))
    arms = list(runs.items())
    around = [(arms[0], arms[-1])] if len(arms) > 2 else []
    for (before, base), (arm, seed_runs) in [*itertools.pairwise(arms), *around]:
        if both := sorted(base.keys() & seed_runs.keys()):
            by_axis = (
                [
                    value_at(curve(seed_runs[seed], axis), end)
                    - value_at(curve(base[seed], axis), end)
                    for seed in both
                ]
                for axis, end in ends.items()
            )
            lines += _row(f"{arm} - {before}", len(both), *map(spread, by_axis))
    return lines


def curve(run: Run, axis: str) -> Curve:
    """Return the held-out pass@1 of a run over an axis."""
    return [(point[axis], point["pass@1"]) for point in run["measured"]]


def value_at(points: Curve, x: float) -> float:
    """Interpolate a curve linearly; the last value holds beyond its end."""
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= x <= right and left < right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1]


def time_to(points: Curve, level: float) -> float | None:
    """Return where a curve first reaches a level, also between points; None if it never does."""
    if points[0][1] >= level:
        return points[0][0]
    for (left, low), (right, high) in itertools.pairwise(points):
        if low < level <= high:
            return left + (right - left) * (level - low) / (high - low)
    return None


def mean_of(run: Run, figure: str, after: int, last: int) -> float | None:
    """Return the mean of a figure over the steps that have it; None if none has."""
    values = [row.get(figure) for row in run["steps"] if after < row["step"] <= last]
    present = [value for value in values if value is not None]
    return statistics.mean(present) if present else None


def spread(values: Sequence[float]) -> str:
    """Return the mean over the seeds and the half-width of its 95 % interval (Student)."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.3f} ± {half:.3f}"


def _mean(values: Sequence[float | None]) -> str:
    present = [value for value in values if value is not None]
    return f"{statistics.mean(present):.3g}" if present else "-"


def _mean_time(times: Sequence[float | None]) -> str:
    present = [time for time in times if time is not None]
    missing = f" ({len(times) - len(present)} never)" if len(present) < len(times) else ""
    return f"{statistics.mean(present):,.0f}{missing}" if present else "never"


def _row(*cells: object) -> list[str]:
    return [f"| {' | '.join(map(str, cells))} |"]


def picture(runs: dict[str, list[Run]], figure: str) -> str:
    """Draw an SVG of four panels: pass@1 over each axis, and the claim's own figure over steps. A
    thin line is a seed, a thick line the mean of the seeds."""
    panels = [
        panel(f"pass@1 by {AXES[axis]}", {a: [curve(r, axis) for r in f] for a, f in runs.items()})
        for axis in AXES
    ]
    own = {arm: [smoothed(run, figure) for run in seed_runs] for arm, seed_runs in runs.items()}
    panels.append(panel(f"{figure.replace('_', ' ')} by steps", own))
    placed = [f'<g transform="translate({i * WIDTH},20)">{svg}</g>' for i, svg in enumerate(panels)]
    legend = [
        f'<text x="{MARGIN + 110 * i}" y="14" fill="{COLORS[i]}">{arm} ({len(seed_runs)})</text>'
        for i, (arm, seed_runs) in enumerate(runs.items())
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * 4} {HEIGHT + 25}" '
        'font-family="sans-serif" font-size="11">'
        '<rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *legend, *placed, "</svg>\n"])


def smoothed(run: Run, figure: str) -> Curve:
    """Return the means of a figure over every five steps."""
    last = run["steps"][-1]["step"] if run["steps"] else 0
    means = ((step, mean_of(run, figure, step - 5, step)) for step in range(5, last + 1, 5))
    return [(step, value) for step, value in means if value is not None]


def panel(title: str, curves: dict[str, list[Curve]]) -> str:
    """Draw a set of axes with the curves of every arm."""
    points = [
        point
        for curves_of_arm in curves.values()
        for curve_of_seed in curves_of_arm
        for point in curve_of_seed
    ]
    if not points:
        return f'<text x="{MARGIN}" y="14">{title}: not measured</text>'
    right, top = max(x for x, _ in points), max(y for _, y in points)
    right, top = right or 1.0, top or 1.0

    def at(x: float, y: float) -> str:
        across = MARGIN + x / right * (WIDTH - MARGIN - 15)
        return f"{across:.1f},{HEIGHT - 20 - y / top * (HEIGHT - 50):.1f}"

    parts = [f'<text x="{MARGIN}" y="14">{title}</text>']
    parts.append(_line([at(0, top), at(0, 0), at(right, 0)], "#888", 1))
    corner = HEIGHT - 8
    ends = (f"{top:.3g}", f"{right:,.0f}")
    parts.append(f'<text x="2" y="34">{ends[0]}</text><text x="2" y="{HEIGHT - 18}">0</text>')
    parts.append(f'<text x="{WIDTH - 15}" y="{corner}" text-anchor="end">{ends[1]}</text>')
    for color, curves_of_arm in zip(COLORS, curves.values(), strict=False):
        full = [curve_of_seed for curve_of_seed in curves_of_arm if curve_of_seed]
        parts += [
            _line([at(*point) for point in curve_of_seed], color, 0.5) for curve_of_seed in full
        ]
        parts.append(_line([at(*point) for point in _average(full)], color, 2))
    return "".join(parts)


def _average(curves: list[Curve]) -> Curve:
    """Return the mean of curves up to the end of the shortest."""
    if not curves:
        return []
    start = max(points[0][0] for points in curves)
    end = min(points[-1][0] for points in curves)
    grid = [start + (end - start) * i / 30 for i in range(31)]
    return [(x, statistics.mean(value_at(points, x) for points in curves)) for x in grid]


def _line(points: Sequence[str], color: str, width: float) -> str:
    path = " ".join(points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'
