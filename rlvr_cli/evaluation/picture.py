"""Draw the curves of arms as an SVG, which needs no other file."""

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain

from rlvr_cli.evaluation.curves import AXES, Curve, MeasuredRun, curve, on_a_grid, smoothed

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
)
WIDTH, HEIGHT, MARGIN = 300, 220, 45
Curves = Mapping[str, Sequence[Curve]]


def picture(runs: Mapping[str, Sequence[MeasuredRun]], figure: str, bands: bool = False) -> str:
    """Draw four panels: pass@1 over each axis, and another figure over steps.

    A thick line is the mean of the seeds. A thin line is a seed, or with `bands` a pale area goes
    from the lowest seed to the highest.
    """
    panels = []
    for axis in AXES:
        curves = {arm: [curve(run, axis) for run in seeds] for arm, seeds in runs.items()}
        panels.append(panel(f"pass@1 by {axis.unit}", curves, bands))
    figures = {arm: [smoothed(run, figure) for run in seeds] for arm, seeds in runs.items()}
    panels.append(panel(f"{figure.replace('_', ' ')} by steps", figures, bands))
    placed = [f'<g transform="translate({i * WIDTH},20)">{svg}</g>' for i, svg in enumerate(panels)]
    legend = []
    for number, (arm, seeds) in enumerate(runs.items()):
        x = MARGIN + 110 * number
        color = COLORS[number % len(COLORS)]
        legend.append(f'<text x="{x}" y="14" fill="{color}">{escape(arm)} ({len(seeds)})</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * 4} {HEIGHT + 25}" '
        'font-family="sans-serif" font-size="11">'
        '<rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *legend, *placed, "</svg>\n"])


def panel(title: str, curves: Curves, bands: bool) -> str:
    """Draw a set of axes with the curves of every arm."""
    all_curves = chain.from_iterable(curves.values())
    points = list(chain.from_iterable(all_curves))
    if not points:
        return f'<text x="{MARGIN}" y="14">{title}: not measured</text>'
    right = max(x for x, _ in points) or 1.0
    top = max(y for _, y in points) or 1.0

    def at(x: float, y: float) -> str:
        across = MARGIN + x / right * (WIDTH - MARGIN - 15)
        return f"{across:.1f},{HEIGHT - 20 - y / top * (HEIGHT - 50):.1f}"

    parts = [f'<text x="{MARGIN}" y="14">{title}</text>']
    parts.append(_line([at(0, top), at(0, 0), at(right, 0)], "#888", 1))
    parts.append(f'<text x="2" y="34">{top:.3g}</text><text x="2" y="{HEIGHT - 18}">0</text>')
    parts.append(f'<text x="{WIDTH - 15}" y="{HEIGHT - 8}" text-anchor="end">{right:,.0f}</text>')
    for number, curves_of_arm in enumerate(curves.values()):
        color = COLORS[number % len(COLORS)]
        full = [curve_of_seed for curve_of_seed in curves_of_arm if curve_of_seed]
        grid = on_a_grid(full)
        if bands:
            lows = [at(x, min(values)) for x, values in grid]
            highs = [at(x, max(values)) for x, values in grid]
            corners = " ".join([*lows, *reversed(highs)])
            parts.append(f'<polygon points="{corners}" fill="{color}" fill-opacity="0.15"/>')
        else:
            parts += [
                _line([at(*point) for point in curve_of_seed], color, 0.5) for curve_of_seed in full
            ]
        parts.append(_line([at(x, statistics.mean(values)) for x, values in grid], color, 2))
    return "".join(parts)


def _line(points: Sequence[str], color: str, width: float) -> str:
    path = " ".join(points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'
