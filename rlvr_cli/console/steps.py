"""Show the steps of runs: a line for each step as it ends, and curves over all steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from rlvr_cli.console.display import Display
from rlvr_cli.core.step_figures import HeldOut, History, StepFigures, Value
from rlvr_cli.core.text import printable


@dataclass(frozen=True)
class Column:
    """A column of the table of steps."""

    header: str
    """As wide as the column."""
    form: str
    value: Value
    is_held_out: bool = False


@dataclass(frozen=True)
class Curve:
    """A chart of a figure over the steps of runs."""

    name: str
    """The figure's name in metrics.jsonl."""
    title: str
    value: Value
    limits: tuple[float, float] | None = None
    """The limits of a page's chart if all values are within them, and of a chart of one value."""
    marked: Value | None = None
    """A figure whose points are marked in the chart of a single run."""
    marks: str = ""
    """What the marks mean, for the title."""
    point: str = ""
    """The mark of a point."""
    best: str = ""
    """The mark of the highest point."""


def measured_of(name: str) -> Value:
    """Return the function that reads pass@1 of a held-out set."""
    return lambda figures: figures.of_set(name).pass_at_1


MEASURED = Column("    held out", ".3f", lambda figures: figures.measured, is_held_out=True)
"""Of the first held-out set. The columns of the others follow it."""
COLUMNS = (
    Column("step", "d", lambda figures: figures.step),
    Column("  reward", ".3f", lambda figures: figures.sampled.reward),
    Column("  pass@1", ".3f", lambda figures: figures.sampled.pass_at_1),
    Column("  length", ".1f", lambda figures: figures.sampled.response_length),
    Column("  entropy", ".3f", lambda figures: figures.update.entropy),
    Column(" (all)", ".3f", lambda figures: figures.sampled.sampled_entropy),
    MEASURED,
    Column("   mixed", ".2f", lambda figures: figures.sampled.mixed_share),
    Column("  cut off", ".0%", lambda figures: figures.sampled.cut_off_share),
    Column("  format", ".0%", lambda figures: figures.sampled.format_share),
    Column("  cons@k", ".3f", lambda figures: figures.of_set("").cons_at_k, is_held_out=True),
    Column("  kl to old", ".5f", lambda figures: figures.update.approx_kl),
    Column("  clipped", ".2%", lambda figures: figures.update.clip_fraction),
    Column("  gradient", ".3f", lambda figures: figures.update.grad_norm),
    Column("  seconds", ".2f", lambda figures: figures.seconds.step),
    Column("  tokens/s", ",.0f", lambda figures: figures.rates.tokens_per_second_rollout),
)
"""The columns in the order in which they get room."""
HELD_OUT, BEST, CONS = "○", "●", "×"
"""The marks of a chart."""
CURVES = (
    Curve("reward", "reward", lambda figures: figures.sampled.reward, limits=(-1.0, 1.0)),
    Curve(
        "pass@1",
        "pass@1 (as sampled)",
        lambda figures: figures.sampled.pass_at_1,
        limits=(0.0, 1.0),
        marked=lambda figures: figures.measured,
        marks=f", {HELD_OUT} held out, {BEST} best)",
        point=HELD_OUT,
        best=BEST,
    ),
    Curve("response_length", "response length", lambda figures: figures.sampled.response_length),
    Curve("entropy", "entropy where it trained", lambda figures: figures.update.entropy),
    Curve(
        "sampled_entropy", "entropy of all tokens", lambda figures: figures.sampled.sampled_entropy
    ),
    Curve(
        "mixed_share",
        "share of mixed groups",
        lambda figures: figures.sampled.mixed_share,
        limits=(0.0, 1.0),
    ),
)
_LINES_PER_HEADER = 20
_MOST_DIGITS = 7
"""Digits of a mark of an axis are fewer than these, three if they tell the marks apart."""
_PIPE_COLUMNS = 80
_LONGEST_NAME, _MOST_SETS = 12, 20
_CHART_COLUMNS, _CHART_LINES, _CHARTS_IN_A_ROW, _X_LABELS = 40, 9, 3, 5
_COLORS = ("blue", "orange", "green", "magenta", "cyan", "red")


class StepLines:
    """Print a line for each step as it ends. `steps` counts those of the whole run."""

    def __init__(self, display: Display, steps: int, held_out: bool) -> None:
        self.display = display
        self.held_out = held_out
        self.sets: dict[str, Column] = {}
        """The columns of the held-out sets after the first, added when they are measured."""
        # A terminal gets three screens of lines of a long run.
        self.every = -(-steps // (3 * _LINES_PER_HEADER)) if display.console.is_terminal else 1
        self.header = ""
        self.lines = 0

    def show(self, figures: StepFigures, is_best: bool) -> None:
        """Print a step's line, below the header if that is due.

        Of a long run only some steps have a line, and all that measured held-out problems.
        """
        is_measured = figures.measured is not None
        if self.display.quiet or not (is_measured or figures.step % self.every == 0):
            return
        console = self.display.console
        width = console.width if console.is_terminal else _PIPE_COLUMNS
        columns = fitting(self._columns(figures), width)
        header = "".join(column.header for column in columns)
        is_due = console.is_terminal and self.lines % _LINES_PER_HEADER == 0
        if header != self.header or is_due:
            self.display.lines([header], "bold")
            self.header = header
            self.lines = 0
        self.lines += 1
        line = ""
        for column in columns:
            value = column.value(figures)
            entry = "-" if value is None else format(value, column.form)
            if is_best and column is MEASURED:
                entry += " best"
            line += entry.rjust(len(column.header))
        self.display.lines([line], "green" if is_best else "")

    def _columns(self, figures: StepFigures) -> list[Column]:
        """Return the columns of this run, the held-out sets one after the other."""
        for name in figures.held_out:
            if name:
                self.sets[name] = Column(f"  {name[:12]:>6}", ".3f", measured_of(name), True)
        columns = []
        for column in COLUMNS:
            if self.held_out or not column.is_held_out:
                columns.append(column)
                if column is MEASURED:
                    columns += self.sets.values()
        return columns


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the first columns that fit into a width, at least one."""
    fits: list[Column] = []
    for column in columns:
        width -= len(column.header)
        if width < 0 and fits:
            break
        fits.append(column)
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
    curves = (*CURVES, *map(_held_out_curve, held_out_names(runs)))
    charts = list(filter(None, (_chart(curve, runs, width // per_row, color) for curve in curves)))
    lines: list[str] = []
    for start in range(0, len(charts), per_row):
        side_by_side = zip(*charts[start : start + per_row], strict=True)
        lines += ["".join(parts).rstrip() for parts in side_by_side]
    return "\n".join(lines)


def with_ends(history: History, ends: Mapping[int, Mapping[str, HeldOut]]) -> History:
    """Return a history with what was measured before the first step, as step 0, and after the
    last."""
    by_step = {figures.step: figures for figures in history}
    for step, sets in ends.items():
        if sets:
            by_step[step] = replace(by_step.get(step, StepFigures(step=step)), held_out=sets)
    return [by_step[step] for step in sorted(by_step)]


def held_out_names(runs: Sequence[History]) -> list[str]:
    """Return the names of the held-out sets that were measured, the first one first."""
    names = {name for history in runs for figures in history for name in figures.held_out}
    return sorted(names)[:_MOST_SETS]


def points(history: History, value: Value) -> list[tuple[int, float]]:
    """Return (step, value) of every step that measured the figure."""
    pairs = ((figures.step, value(figures)) for figures in history)
    return [(step, number) for step, number in pairs if number is not None]


def _held_out_curve(name: str) -> Curve:
    """Return the chart of a held-out set, in which its cons@k is marked."""
    title = printable(name)
    if len(title) > _LONGEST_NAME:
        title = f"{title[:_LONGEST_NAME]}…"
    return Curve(
        name,
        f"held out {title}".rstrip() + ": pass@1",
        measured_of(name),
        limits=(0.0, 1.0),
        marked=lambda figures: figures.of_set(name).cons_at_k,
        marks=f", {CONS} cons@k",
        point=CONS,
        best=CONS,
    )


def _chart(curve: Curve, runs: Sequence[History], width: int, color: bool) -> list[str]:
    """Draw one chart as lines of equal width. Return [] if no run measured the figure."""
    import plotext

    lines = [points(history, curve.value) for history in runs]
    if not any(lines):
        return []
    marked = []
    if len(runs) == 1 and curve.marked is not None:
        marked = points(runs[0], curve.marked)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, _CHART_LINES - 1)
    for number, line in enumerate(lines):
        marker = "braille" if len(runs) == 1 else str((number + 1) % 10)
        tint = _COLORS[number % len(_COLORS)] if color and len(runs) > 1 else None
        if line:
            steps, values = zip(*line, strict=True)
            plotext.plot(list(steps), list(values), marker=marker, color=tint)
    best = max(marked, key=lambda point: point[1], default=None)
    for point in marked:
        plotext.scatter([point[0]], [point[1]], marker=curve.best if point == best else curve.point)
    _set_axes([point for line in [*lines, marked] for point in line], curve.limits)
    chart = plotext.build() if color else plotext.uncolorize(plotext.build())
    title = curve.title.removesuffix(")") + curve.marks if marked else curve.title
    # plotext leaves out a title that is wider than its axes.
    if len(title) > width:
        title = f"{title[: width - 1]}…"
    chart_lines = [title.center(width), *chart.splitlines()]
    return [line + " " * (width - len(plotext.uncolorize(line))) for line in chart_lines]


def _set_axes(
    drawn_points: Sequence[tuple[int, float]], limits: tuple[float, float] | None
) -> None:
    """Set the limits, those of the data, and labels.

    A single value is in the middle, or at an end of the limits that it is within. Steps are
    labelled as whole numbers, a few of them.
    """
    import plotext

    steps, values = zip(*drawn_points, strict=True)
    low = min(values)
    high = max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = _widened(low, high, 0.5)
        if limits is not None and limits[0] <= values[0] <= limits[1]:
            low = max(low, limits[0])
            high = min(high, limits[1])
    plotext.ylim(low, high)
    labels = [low, (low + high) / 2, high]
    texts = []
    for digits in range(3, _MOST_DIGITS):
        texts = [f"{label:.{digits}g}" for label in labels]
        if len(set(texts)) == len(texts):
            break
    plotext.yticks(labels, texts)
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
