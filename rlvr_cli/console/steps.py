"""Show the steps of runs: a line for each step as it ends, and curves over all steps."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from rlvr_cli.console.display import Display
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import History, Metrics

MEASURED = "held_out_pass@1"
"""The metric of the first held-out set. For a further set `/NAME` follows."""
Columns = dict[str, tuple[str, str]]
"""Metric: (header as wide as its column, format)."""
COLUMNS = {
    "step": ("step", "d"),
    "reward": ("  reward", ".3f"),
    "pass@1": ("  pass@1", ".3f"),
    "response_length": ("  length", ".1f"),
    "entropy": ("  entropy", ".3f"),
    "sampled_entropy": (" (all)", ".3f"),
    MEASURED: ("    held out", ".3f"),
    "mixed_share": ("   mixed", ".2f"),
    "cut_off_share": ("  cut off", ".0%"),
    "format_share": ("  format", ".0%"),
    "held_out_cons@k": ("  cons@k", ".3f"),
    "approx_kl": ("  kl to old", ".5f"),
    "clip_fraction": ("  clipped", ".2%"),
    "grad_norm": ("  gradient", ".3f"),
    "seconds_step": ("  seconds", ".2f"),
    "tokens_per_second_rollout": ("  tokens/s", ",.0f"),
}
"""Metric: (header as wide as its column, format), in the order in which columns get room."""
CURVES = {
    "reward": "reward",
    "pass@1": "pass@1 (as sampled)",
    "response_length": "response length",
    "entropy": "entropy where it trained",
    "sampled_entropy": "entropy of all tokens",
    "mixed_share": "share of mixed groups",
}
"""Metric: title of its chart."""
LIMITS = {"reward": (-1.0, 1.0), "pass@1": (0.0, 1.0), "mixed_share": (0.0, 1.0)}
"""The limits of a chart if all its values are within them."""
HELD_OUT, BEST, CONS = "○", "●", "×"
"""The marks of a chart."""
_LINES_PER_HEADER = 20
_PIPE_COLUMNS = 80
_LONGEST_NAME, _MOST_SETS = 14, 20
_CHART_COLUMNS, _CHART_LINES, _CHARTS_IN_A_ROW, _X_LABELS = 40, 9, 3, 5
_COLORS = ("blue", "orange", "green", "magenta", "cyan", "red")


class StepLines:
    """Print a line for each step as it ends. `steps` counts those of the whole run."""

    def __init__(self, display: Display, steps: int, held_out: bool) -> None:
        self.display = display
        self.held_out = held_out
        self.sets: Columns = {}
        """The columns of the held-out sets after the first, added when they are measured."""
        # A terminal gets three screens of lines of a long run.
        self.every = -(-steps // (3 * _LINES_PER_HEADER)) if display.console.is_terminal else 1
        self.header = ""
        self.lines = 0

    def show(self, metrics: Metrics, is_best: bool) -> None:
        """Print a step's line, below the header if that is due.

        Of a long run only some steps have a line, and all that measured held-out problems.
        """
        is_measured = metrics.get(MEASURED) is not None
        if self.display.quiet or not (is_measured or metrics["step"] % self.every == 0):
            return
        console = self.display.console
        width = console.width if console.is_terminal else _PIPE_COLUMNS
        columns = fitting(self._columns(metrics), width)
        header = "".join(name for name, _ in columns.values())
        is_due = console.is_terminal and self.lines % _LINES_PER_HEADER == 0
        if header != self.header or is_due:
            self.display.lines([header], "bold")
            self.header = header
            self.lines = 0
        self.lines += 1
        line = ""
        for key, (name, form) in columns.items():
            entry = "-" if metrics.get(key) is None else format(metrics[key], form)
            if is_best and key == MEASURED:
                entry += " best"
            line += entry.rjust(len(name))
        self.display.lines([line], "green" if is_best else "")

    def _columns(self, metrics: Metrics) -> Columns:
        """Return the columns of this run, the held-out sets one after the other."""
        for key in metrics:
            if key.startswith(f"{MEASURED}/"):
                name = key.removeprefix(f"{MEASURED}/")
                self.sets[key] = (f"  {name[:12]:>6}", ".3f")
        columns: Columns = {}
        for key, column in COLUMNS.items():
            if self.held_out or "held_out" not in key:
                columns[key] = column
                if key == MEASURED:
                    columns.update(self.sets)
        return columns


def fitting(columns: Mapping[str, tuple[str, str]], width: int) -> Columns:
    """Return the first columns that fit into a width, at least one."""
    fits: Columns = {}
    for key, (name, form) in columns.items():
        width -= len(name)
        if width < 0 and fits:
            break
        fits[key] = name, form
    return fits


def print_curves(runs: Sequence[History], display: Display) -> None:
    """Print the curves of runs, as wide as the terminal."""
    if not display.quiet:
        width = display.console.width if display.console.is_terminal else _PIPE_COLUMNS
        display.console.print(Text.from_ansi(draw_curves(runs, width, True)))


def draw_curves(runs: Sequence[History], width: int = 80, color: bool = False) -> str:
    """Draw the curves of runs over each other, as many charts in a row as fit.

    Each held-out set has a chart of its own. A single run is a line with points. Of several runs,
    each is drawn as its number.
    """
    per_row = max(1, min(_CHARTS_IN_A_ROW, width // _CHART_COLUMNS))
    keys = (*CURVES, *measured_sets(runs))
    charts = list(filter(None, (_chart(key, runs, width // per_row, color) for key in keys)))
    lines: list[str] = []
    for start in range(0, len(charts), per_row):
        side_by_side = zip(*charts[start : start + per_row], strict=True)
        lines += ["".join(parts).rstrip() for parts in side_by_side]
    return "\n".join(lines)


def measured_sets(runs: Sequence[History]) -> list[str]:
    """Return the metrics of pass@1 of the held-out sets that were measured, the first one first."""
    keys = {key for history in runs for row in history for key in row}
    sets = sorted(key for key in keys if key == MEASURED or key.startswith(f"{MEASURED}/"))
    return sets[:_MOST_SETS]


def points(history: History, key: str) -> list[tuple[int, float]]:
    """Return (step, value) of every step that measured the metric."""
    return [(row["step"], row[key]) for row in history if row.get(key) is not None]


def _chart(key: str, runs: Sequence[History], width: int, color: bool) -> list[str]:
    """Draw one chart as lines of equal width. Return [] if no run measured the metric."""
    import plotext

    curves = [points(history, key) for history in runs]
    if not any(curves):
        return []
    # The chart of pass@1 as sampled also marks held-out pass@1, that of a held-out set its cons@k.
    marked_key = MEASURED if key == "pass@1" else key.replace("pass@1", "cons@k", 1)
    has_marks = len(runs) == 1 and marked_key != key
    marked = points(runs[0], marked_key) if has_marks else []
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, _CHART_LINES)
    plotext.title(_title(key, bool(marked)))
    for number, curve in enumerate(curves):
        marker = "braille" if len(runs) == 1 else str((number + 1) % 10)
        tint = _COLORS[number % len(_COLORS)] if color and len(runs) > 1 else None
        if curve:
            steps, values = zip(*curve, strict=True)
            plotext.plot(list(steps), list(values), marker=marker, color=tint)
    best = max(marked, key=lambda point: point[1], default=None)
    for point in marked:
        marker = BEST if point == best else HELD_OUT
        if key != "pass@1":
            marker = CONS
        plotext.scatter([point[0]], [point[1]], marker=marker)
    _set_axes(key, [point for curve in [*curves, marked] for point in curve])
    chart = plotext.build() if color else plotext.uncolorize(plotext.build())
    return [line + " " * (width - len(plotext.uncolorize(line))) for line in chart.splitlines()]


def _title(key: str, has_marks: bool) -> str:
    """Return the title of a chart, with what its marks mean."""
    if key in CURVES:
        marks = f", {HELD_OUT} held out, {BEST} best)" if has_marks else ")"
        return CURVES[key].replace(")", marks)
    name = printable(key.partition("/")[2])
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…"
    title = f"held out {name}".rstrip() + ": pass@1"
    return f"{title}, {CONS} cons@k" if has_marks else title


def _set_axes(key: str, drawn_points: Sequence[tuple[int, float]]) -> None:
    """Set the limits and labels of the chart. Steps are labelled as whole numbers, a few of them.

    The limits are those of the metric if all values are within them.
    """
    import plotext

    steps, values = zip(*drawn_points, strict=True)
    kind = key.removeprefix("held_out_").partition("/")[0]
    low, high = LIMITS.get(kind, (min(0.0, *values), max(values)))
    if low == high or min(values) < low or max(values) > high:
        low, high = _widened(min(values), max(values), 0.5)
    plotext.ylim(low, high)
    labels = [low, (low + high) / 2, high]
    plotext.yticks(labels, [f"{label:.3g}" for label in labels])
    first = min(steps)
    last = max(steps)
    if float(first) == float(last):
        plotext.xlim(*_widened(first, last, 1.0))
    ticks = list(range(first, last + 1, max(1, -(-(last - first) // (_X_LABELS - 1)))))
    plotext.xticks(ticks, [str(tick) for tick in ticks])


def _widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """Return limits around both. The margin is at least 1e-9 of the numbers, so that it shows."""
    margin = max(margin, 1e-9 * max(abs(low), abs(high)))
    return low - margin, high + margin
