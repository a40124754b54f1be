"""Describe the figure of some arms once, and draw it as an SVG or as a PDF.

An SVG needs no other file. A PDF is drawn by matplotlib, with its fonts embedded as Type 42.
"""

import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from typing import Literal

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened
from rlvr_cli.evaluation.curves import (
    AXES,
    Curve,
    MeasuredRun,
    Seeds,
    curve,
    difference_curve,
    on_a_grid,
    smoothed,
)

BAND = "shaded: lowest to highest seed"
"""What the pale areas are: no intervals, which the tables have."""
COLORS = (
    "#1f77b4",
    "#d62728",
    "#2ca02c",
    "#9467bd",
    "#ff7f0e",
    "#17becf",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#000000",
    "#393b79",
    "#637939",
    "#843c39",
    "#7b4173",
    "#aec7e8",
    "#ff9896",
    "#98df8a",
    "#ffbb78",
    "#c5b0d5",
)
"""A color for each arm, the same in every panel."""
DIFFERENCE = "difference"
"""The name of the panel of differences to the base."""
COLUMNS = 3
"""Panels in a row."""
WIDTH = 400
HEIGHT = 270
LEFT = 62
RIGHT = 18
TOP = 12
BOTTOM = 44
_LEGEND_LINE = 17
_LEGEND_SPACE = 7
"""The free space above and below the legend, together."""
_LETTER = 7.2
_MARK = 28
"""The widths of a letter, and of the mark of a color with the space around it."""
_BAND_COLOR = "#666666"
_MOST_TICKS = 6
_MARGIN = 0.05
"""The share of the data's range that is free above and below the curves."""
_POINTS = 72 / 100
"""Points of a PDF for a unit of the SVG."""


@dataclass(frozen=True)
class ArmCurves:
    """The curves of an arm in a panel, one for each seed."""

    arm: str
    color: str
    curves: Sequence[Curve]

    @property
    def grid(self) -> list[tuple[float, list[float]]]:
        """Return the values of all seeds at common places."""
        return on_a_grid(self.curves)


@dataclass(frozen=True)
class Ticks:
    """The marks of an axis, and its two ends."""

    low: float
    high: float
    values: Sequence[float]

    def label(self, value: float) -> str:
        """Write the value of a mark with as many decimals as the steps between marks need."""
        step = self.values[1] - self.values[0] if len(self.values) > 1 else 1.0
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return f"{value + 0.0:,.{decimals}f}"


@dataclass(frozen=True)
class Panel:
    """A set of axes with the curves of every arm."""

    name: str
    x_label: str
    y_label: str
    arms: Sequence[ArmCurves]
    x: Ticks
    y: Ticks
    has_zero_line: bool = False


@dataclass(frozen=True)
class Drawing:
    """What a figure shows, whatever it is drawn with."""

    panels: Sequence[Panel]
    legend: Mapping[str, str]
    """The color of each arm, by its name with the number of its seeds."""
    has_bands: bool
    """Whether a pale area goes from the lowest seed to the highest. Else each seed has a line."""

    @property
    def columns(self) -> int:
        """Return the number of panels in a row."""
        return max(1, min(COLUMNS, len(self.panels)))

    @property
    def rows(self) -> int:
        """Return the number of rows of panels."""
        return -(-len(self.panels) // self.columns)

    @property
    def legend_columns(self) -> list[list[tuple[str, str]]]:
        """Return names and colors, and what a pale area is, in as many columns as fit."""
        entries = list(self.legend.items())
        if self.has_bands:
            entries.append((BAND, _BAND_COLOR))
        room = WIDTH * self.columns - LEFT
        for count in range(len(entries), 1, -1):
            columns = _divided(entries, count)
            if sum(map(_legend_width, columns)) <= room:
                return columns
        return [entries]

    @property
    def legend_height(self) -> int:
        """Return the height of the legend."""
        return _LEGEND_SPACE + _LEGEND_LINE * max(map(len, self.legend_columns))

    def only(self, name: str) -> "Drawing":
        """Return the figure with one panel alone. Raises UserError if it has none of this name."""
        panels = [panel for panel in self.panels if panel.name == name]
        if not panels:
            names = ", ".join(panel.name for panel in self.panels)
            raise UserError(f"--panel {shortened(name)}: no such panel; there are {names}")
        drawn = {arm.color for panel in panels for arm in panel.arms if arm.grid}
        legend = {arm: color for arm, color in self.legend.items() if color in drawn}
        return replace(self, panels=panels, legend=legend)


def _divided(entries: Sequence[tuple[str, str]], count: int) -> list[list[tuple[str, str]]]:
    """Divide entries into columns. The first ones may have one more, as in matplotlib."""
    length, longer = divmod(len(entries), count)
    columns = []
    start = 0
    for number in range(count):
        end = start + length + (number < longer)
        columns.append([*entries[start:end]])
        start = end
    return columns


def _legend_width(column: Sequence[tuple[str, str]]) -> float:
    """Return the width of a column of the legend."""
    return _MARK + _LETTER * max(len(name) for name, _ in column)


def drawing(
    runs: Mapping[str, Sequence[MeasuredRun]],
    figure: str,
    has_bands: bool = False,
    differences: Mapping[str, Sequence[Curve]] | None = None,
) -> Drawing:
    """Describe the panels: pass@1 over each axis, another figure over steps, and differences.

    What no run has measured twice has no panel.
    """
    panels = []
    for axis in AXES:
        curves = {arm: [curve(run, axis) for run in seeds] for arm, seeds in runs.items()}
        panels.append(_panel(axis.unit, axis.unit, "pass@1", curves, is_share=True))
    figures = {arm: [smoothed(run, figure) for run in seeds] for arm, seeds in runs.items()}
    panels.append(_panel(figure, "steps", figure.replace("_", " "), figures))
    if differences:
        curves_of_arms = {arm: differences.get(arm, ()) for arm in runs}
        label = "pass@1 less the base"
        panels.append(_panel(DIFFERENCE, "steps", label, curves_of_arms, has_zero_line=True))
    legend = {
        f"{arm} ({len(seeds)})": _color(number) for number, (arm, seeds) in enumerate(runs.items())
    }
    measured = [panel for panel in panels if panel is not None]
    has_several = any(len(seeds) > 1 for seeds in runs.values())
    return Drawing(panels=measured, legend=legend, has_bands=has_bands and has_several)


def difference_curves(runs: Mapping[str, Seeds], base: str) -> dict[str, list[Curve]]:
    """Return pass@1 of each arm less that of the base over steps, for each seed that both have."""
    of_base = runs[base]
    return {
        arm: [
            difference_curve(run, of_base[seed]) for seed, run in seeds.items() if seed in of_base
        ]
        for arm, seeds in runs.items()
        if arm != base
    }


def picture(runs: Mapping[str, Sequence[MeasuredRun]], figure: str, bands: bool = False) -> str:
    """Draw the figure of some arms as an SVG."""
    return as_svg(drawing(runs, figure, bands))


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _panel(
    name: str,
    x_label: str,
    y_label: str,
    curves: Mapping[str, Sequence[Curve]],
    is_share: bool = False,
    has_zero_line: bool = False,
) -> Panel | None:
    """Return a panel whose axes have the range of the data, or None without a line to draw."""
    arms = []
    for number, (arm, of_arm) in enumerate(curves.items()):
        measured = [of_seed for of_seed in of_arm if of_seed]
        if measured:
            arms.append(ArmCurves(arm=arm, color=_color(number), curves=measured))
    points = [point for arm in arms for point in chain.from_iterable(arm.curves)]
    xs = [x for x, _ in points]
    ys = [y for _, y in points]
    if len(set(xs)) < 2:
        return None
    if has_zero_line:
        ys.append(0.0)
    margin = _MARGIN * ((max(ys) - min(ys)) or 1.0)
    low = min(ys) - margin
    high = max(ys) + margin
    if is_share:
        low = max(0.0, low)
        high = min(1.0, high)
    return Panel(
        name=name,
        x_label=x_label,
        y_label=y_label,
        arms=arms,
        x=ticks(min(xs), max(xs)),
        y=ticks(low, high),
        has_zero_line=has_zero_line,
    )


def ticks(low: float, high: float) -> Ticks:
    """Return an axis with marks at round numbers: multiples of 1, 2 or 5 times a power of ten."""
    least_step = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least_step))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= least_step)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return Ticks(low, high, [number * step for number in range(first, last + 1)])


def as_svg(figure: Drawing) -> str:
    """Draw a figure as an SVG."""
    height = figure.legend_height + HEIGHT * figure.rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * figure.columns} '
        f'{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _legend(figure),
    ]
    for number, panel in enumerate(figure.panels):
        row, column = divmod(number, figure.columns)
        place = f"{WIDTH * column},{figure.legend_height + HEIGHT * row}"
        parts.append(f'<g transform="translate({place})">{_panel_svg(panel, figure.has_bands)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _legend(figure: Drawing) -> str:
    """Draw the names of arms, each in its color."""
    texts = []
    left = float(LEFT)
    for column in figure.legend_columns:
        for number, (name, color) in enumerate(column, 1):
            mark = "" if name == BAND else "▬ "
            texts.append(
                f'<text x="{left:.0f}" y="{_LEGEND_LINE * number}" fill="{color}">'
                f"{mark}{escape(name)}</text>"
            )
        left += _legend_width(column)
    return "".join(texts)


def _panel_svg(panel: Panel, has_bands: bool) -> str:
    """Draw a panel with its axes, marks and curves."""
    right = WIDTH - RIGHT
    bottom = HEIGHT - BOTTOM

    def across(x: float) -> float:
        return LEFT + (x - panel.x.low) / (panel.x.high - panel.x.low) * (right - LEFT)

    def down(y: float) -> float:
        return bottom - (y - panel.y.low) / (panel.y.high - panel.y.low) * (bottom - TOP)

    def at(x: float, y: float) -> str:
        return f"{across(x):.1f},{down(y):.1f}"

    parts = []
    for value in panel.x.values:
        place = f"{across(value):.1f}"
        parts.append(f'<path d="M{place},{bottom}v4" stroke="#888"/>')
        label = panel.x.label(value)
        parts.append(f'<text x="{place}" y="{bottom + 17}" text-anchor="middle">{label}</text>')
    for value in panel.y.values:
        height = down(value)
        parts.append(f'<path d="M{LEFT},{height:.1f}H{right}" stroke="#e8e8e8"/>')
        label = panel.y.label(value)
        parts.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{label}</text>')
    if panel.has_zero_line:
        parts.append(f'<path d="M{LEFT},{down(0.0):.1f}H{right}" stroke="#444" class="zero"/>')
    middle = (LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(panel.x_label)}</text>'
    )
    parts.append(
        f'<text transform="translate(14,{(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y_label)}</text>"
    )
    corners = [f"{LEFT},{TOP}", f"{LEFT},{bottom}", f"{right},{bottom}"]
    parts.append(_line(corners, "#888", 1))
    for arm in panel.arms:
        if has_bands:
            lows = [at(x, min(values)) for x, values in arm.grid]
            highs = [at(x, max(values)) for x, values in arm.grid]
            outline = " ".join([*lows, *reversed(highs)])
            parts.append(f'<polygon points="{outline}" fill="{arm.color}" fill-opacity="0.15"/>')
        else:
            for of_seed in arm.curves:
                parts.append(_line([at(*point) for point in of_seed], arm.color, 0.5))
        means = [at(x, statistics.mean(values)) for x, values in arm.grid]
        parts.append(_line(means, arm.color, 2))
    return "".join(parts)


def _line(points: Iterable[str], color: str, width: float) -> str:
    path = " ".join(points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def can_draw_pdf() -> bool:
    """Return whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def plotted(figure: Drawing, format: Literal["pdf", "png"]) -> bytes:
    """Draw a figure by matplotlib, a PNG with twice the pixels of the SVG. Raises UserError without
    matplotlib."""
    if not can_draw_pdf():
        raise UserError(f"{format}: matplotlib draws it: pip install 'rlvr-cli[plot]'")
    import matplotlib
    import matplotlib.artist
    import matplotlib.lines
    import matplotlib.patches
    from matplotlib.figure import Figure as Canvas

    height = figure.legend_height + HEIGHT * figure.rows
    inches = (WIDTH * figure.columns / 100, height / 100)
    with matplotlib.rc_context(
        {
            "pdf.fonttype": 42,
            "font.family": "DejaVu Sans",
            "font.size": 12 * _POINTS,
            "text.parse_math": False,
        }
    ):
        canvas = Canvas(figsize=inches, layout="constrained")
        handles: list[matplotlib.artist.Artist] = []
        for number, panel in enumerate(figure.panels, 1):
            axes = canvas.add_subplot(figure.rows, figure.columns, number)
            axes.set_xlabel(panel.x_label)
            axes.set_ylabel(panel.y_label)
            axes.set_xlim(panel.x.low, panel.x.high)
            axes.set_ylim(panel.y.low, panel.y.high)
            axes.set_xticks(panel.x.values, [panel.x.label(value) for value in panel.x.values])
            axes.set_yticks(panel.y.values, [panel.y.label(value) for value in panel.y.values])
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="#e8e8e8")
            if panel.has_zero_line:
                axes.axhline(0.0, color="#444444", linewidth=1)
            for arm in panel.arms:
                xs = [x for x, _ in arm.grid]
                if figure.has_bands:
                    lows = [min(values) for _, values in arm.grid]
                    highs = [max(values) for _, values in arm.grid]
                    axes.fill_between(xs, lows, highs, color=arm.color, alpha=0.15, linewidth=0)
                else:
                    for of_seed in arm.curves:
                        axes.plot(*zip(*of_seed, strict=True), color=arm.color, linewidth=0.5)
                means = [statistics.mean(values) for _, values in arm.grid]
                axes.plot(xs, means, color=arm.color, linewidth=1.5)
        for color in figure.legend.values():
            handles.append(matplotlib.lines.Line2D([], [], color=color, linewidth=2))
        labels = list(figure.legend)
        if figure.has_bands:
            handles.append(matplotlib.patches.Patch(color="#888888", alpha=0.3, linewidth=0))
            labels.append(BAND)
        canvas.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=len(figure.legend_columns),
            frameon=False,
        )
        content = io.BytesIO()
        metadata = {"CreationDate": None} if format == "pdf" else None
        canvas.savefig(content, format=format, dpi=200, metadata=metadata)
    return content.getvalue()
