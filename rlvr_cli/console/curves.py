"""Draw the curves of runs as text, with limits that fit what they show."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_cli.core.text import printable

CURVES = {
    "reward": "reward",
    "pass@1": "pass@1 (as sampled)",
    "response_length": "response length",
    "entropy": "entropy",
    "mixed_share": "share of mixed groups",
}
LIMITS = {"reward": (-1.0, 1.0), "pass@1": (0.0, 1.0), "mixed_share": (0.0, 1.0)}
"""What a curve goes from and to, where all that it shows lies inside."""
MEASURED = "held_out_pass@1"
"""The metric of the first held-out set; of another one `/NAME` follows."""
HELD_OUT, BEST, CONS = "○", "●", "×"
_NARROWEST, _MOST_IN_A_ROW, _HEIGHT, _X_LABELS, _LONGEST_NAME = 40, 3, 9, 5, 14
_MOST_SETS = 20
_LEAST_SHARE = 1e-9
_COLORS = ("blue", "orange", "green", "magenta", "cyan", "red")
History = Sequence[Mapping[str, Any]]


def draw_curves(runs: Sequence[History], width: int = 80, color: bool = False) -> str:
    """Draw the curves of runs over each other, as many charts in a row as fit, each held-out set in
    one of its own. One run is a line with points; of several, each is drawn with its number."""
    per_row = max(1, min(_MOST_IN_A_ROW, width // _NARROWEST))
    keys = dict.fromkeys([*CURVES, *measured_sets(runs)])
    charts = list(filter(None, (_chart(key, runs, width // per_row, color) for key in keys)))
    lines = []
    for left in range(0, len(charts), per_row):
        row = charts[left : left + per_row]
        lines += ["".join(parts).rstrip() for parts in zip(*row, strict=True)]
    return "\n".join(lines)


def measured_sets(runs: Sequence[History]) -> list[str]:
    """Return the metrics of pass@1 of the held-out sets that were measured, the first one first."""
    keys = {key for history in runs for row in history for key in row}
    sets = sorted(key for key in keys if key == MEASURED or key.startswith(f"{MEASURED}/"))
    return sets[:_MOST_SETS]


def points(history: History, key: str) -> list[tuple[int, float]]:
    """Return (step, value) of every step that measured it."""
    return [(row["step"], row[key]) for row in history if row.get(key) is not None]


def _chart(key: str, runs: Sequence[History], width: int, color: bool) -> list[str]:
    """Draw one chart as lines of equal width; none where no run measured it."""
    import plotext

    lines = [points(history, key) for history in runs]
    if not any(lines):
        return []
    over = MEASURED if key == "pass@1" else key.replace("pass@1", "cons@k", 1)
    marked = points(runs[0], over) if over != key and len(runs) == 1 else []
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, _HEIGHT)
    if key in CURVES:
        marks = f", {HELD_OUT} held out, {BEST} best)" if marked else ")"
        plotext.title(CURVES[key].replace(")", marks))
    else:
        name = printable(key.partition("/")[2])
        name = f" {name[:_LONGEST_NAME]}…" if len(name) > _LONGEST_NAME else f" {name}".rstrip()
        plotext.title(f"held out{name}: pass@1" + (f", {CONS} cons@k" if marked else ""))
    for number, line in enumerate(lines, 1):
        marker = "braille" if len(runs) == 1 else str(number % 10)
        tint = _COLORS[(number - 1) % len(_COLORS)] if color and len(runs) > 1 else None
        if line:
            plotext.plot(*map(list, zip(*line, strict=True)), marker=marker, color=tint)
    best = max(marked, key=lambda point: point[1], default=None)
    for point in marked:
        mark = CONS if key != "pass@1" else BEST if point == best else HELD_OUT
        plotext.scatter([point[0]], [point[1]], marker=mark)

    # The limits are those of the curve where it keeps to them, the steps whole and few.
    steps, values = zip(*(point for line in [*lines, marked] for point in line), strict=True)
    kind = key.removeprefix("held_out_").partition("/")[0]
    low, high = LIMITS.get(kind, (min(0.0, *values), max(values)))
    if low == high or min(values) < low or max(values) > high:
        low, high = _apart(min(values), max(values), 0.5)
    plotext.ylim(low, high)
    labels = [low, (low + high) / 2, high]
    plotext.yticks(labels, [f"{label:.3g}" for label in labels])
    first, last = min(steps), max(steps)
    if float(first) == float(last):
        plotext.xlim(*_apart(first, last, 1.0))
    ticks = list(range(first, last + 1, max(1, -(-(last - first) // (_X_LABELS - 1)))))
    plotext.xticks(ticks, [str(tick) for tick in ticks])
    drawn = plotext.build() if color else plotext.uncolorize(plotext.build())
    return [line + " " * (width - len(plotext.uncolorize(line))) for line in drawn.splitlines()]


def _apart(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return limits around both by a margin that shows in numbers of their size."""
    margin = max(margin, _LEAST_SHARE * max(abs(low), abs(high)))
    return low - margin, high + margin
