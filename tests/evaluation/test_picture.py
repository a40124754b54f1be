"""The figure of an ablation: described once, drawn as an SVG, and as a PDF with its fonts."""

import re
import zlib
from xml.etree import ElementTree

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.step_figures import StepFigures, UpdateFigures
from rlvr_cli.evaluation.curves import MeasuredRun, Point
from rlvr_cli.evaluation.picture import (
    COLORS,
    as_svg,
    can_draw_pdf,
    difference_curves,
    drawing,
    plotted,
    ticks,
)


def run(seconds: float, tokens: int, last: float) -> MeasuredRun:
    """A run of ten steps that begins at a pass@1 of 0.25, with an entropy of 0.5 in two steps."""
    measured = [
        Point(step=0, seconds=0.0, tokens=0, pass_at_1=0.25),
        Point(step=10, seconds=seconds, tokens=tokens, pass_at_1=last),
    ]
    steps = [StepFigures(step, update=UpdateFigures(entropy=0.5)) for step in (5, 10)]
    return MeasuredRun(measured, steps)


RUNS = {
    "base": {0: run(10.0, 100, 0.5), 1: run(10.0, 100, 0.75)},
    "arm": {0: run(5.0, 200, 0.75), 1: run(5.0, 200, 1.0), 2: run(5.0, 200, 0.9)},
}
SEEDS = {arm: list(seeds.values()) for arm, seeds in RUNS.items()}


@pytest.fixture(scope="module")
def figure():
    return drawing(SEEDS, "entropy", True, difference_curves(RUNS, "base"))


def test_a_difference_is_paired_by_seed_and_its_panel_has_a_zero_line(figure):
    """By hand: after 10 steps the arm has 0.75 and 1, the base 0.5 and 0.75. The base has no third
    seed."""
    curves = [[(0, 0.0), (10, 0.25)], [(0, 0.0), (10, 0.25)]]
    assert difference_curves(RUNS, "base") == {"arm": curves}
    assert [panel.name for panel in figure.panels] == [
        "steps",
        "seconds",
        "tokens",
        "entropy",
        "difference",
    ]
    zero = [panel.has_zero_line for panel in figure.panels]
    assert zero == [False] * 4 + [True]
    assert figure.panels[-1].y.low < 0.0 < figure.panels[-1].y.high
    assert as_svg(figure).count('class="zero"') == 1


def test_axes_have_the_range_of_the_data_with_round_marks(figure):
    steps = figure.panels[0]
    assert (steps.x.low, steps.x.high, list(steps.x.values)) == (0, 10, [0, 2, 4, 6, 8, 10])
    assert (steps.x_label, steps.y_label) == ("steps", "pass@1")
    assert 0.2 < steps.y.low < 0.25  # the lowest is 0.25
    assert steps.y.high == 1.0  # and no margin beyond what a share can be
    drawn = as_svg(figure.only("steps"))
    texts = [element.text for element in ElementTree.fromstring(drawn).iter() if element.text]
    assert {"steps", "pass@1", "0", "10", "0.4", "0.8"} <= set(map(str.strip, texts))


def test_a_panel_alone_names_the_arms_that_are_in_it_and_what_is_shaded():
    figure = drawing(SEEDS, "entropy", True, difference_curves(RUNS, "base"))
    assert list(figure.only("steps").legend) == list(figure.legend)
    (name,) = figure.only("difference").legend
    assert name.startswith("arm")
    assert "lowest to highest seed" in as_svg(figure)
    assert "lowest to highest seed" not in as_svg(drawing(SEEDS, "entropy"))


@pytest.mark.parametrize("panel", [None, "steps"])
def test_many_arms_have_a_color_and_a_place_in_the_legend_each(panel):
    """Twelve arms with names of 40 characters, of which three go into 1200, and one into 400."""
    names = [f"{number:02d}_{'a' * 37}" for number in range(12)]
    whole = drawing(dict.fromkeys(names, SEEDS["arm"]), "entropy", True)
    figure = whole if panel is None else whole.only(panel)
    assert len(set(figure.legend.values())) == 12
    lengths = [len(column) for column in figure.legend_columns]
    assert lengths == ([5, 4, 4] if panel is None else [13])
    svg = as_svg(figure)
    places = re.findall(r'<text x="(\d+)" y="(\d+)" fill=', svg)
    assert len(set(places)) == len(places) == 13
    assert max(int(y) for _, y in places) < figure.legend_height
    assert f'viewBox="0 0 {400 * figure.columns} {figure.legend_height + 270 * figure.rows}"' in svg


def test_one_seed_an_arm_has_nothing_shaded():
    once = {arm: seeds[:1] for arm, seeds in SEEDS.items()}
    assert "shaded" not in as_svg(drawing(once, "entropy", True))


def test_what_is_measured_once_has_no_panel():
    once = {"base": [MeasuredRun(SEEDS["base"][0].measured, SEEDS["base"][0].steps[:1])]}
    assert [panel.name for panel in drawing(once, "entropy").panels] == [
        "steps",
        "seconds",
        "tokens",
    ]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 16.0, ["0", "5", "10", "15"]),
        (-0.021, 0.043, ["-0.02", "0.00", "0.02", "0.04"]),
        (0.312, 0.318, ["0.312", "0.314", "0.316", "0.318"]),
        (0.0, 12_000.0, ["0", "2,000", "4,000", "6,000", "8,000", "10,000", "12,000"]),
    ],
)
def test_marks_are_multiples_of_one_two_or_five(low, high, labels):
    axis = ticks(low, high)
    assert [axis.label(value) for value in axis.values] == labels


def test_an_arm_has_one_color_in_every_panel(figure):
    for panel in figure.panels:
        assert {arm.arm: arm.color for arm in panel.arms}["arm"] == COLORS[1]
    assert figure.legend == {"base (2)": COLORS[0], "arm (3)": COLORS[1]}
    with pytest.raises(UserError, match="no such panel; there are steps, seconds, tokens, entropy"):
        figure.only("loss")


def test_a_pdf_has_every_font_embedded(figure):
    pytest.importorskip("matplotlib", reason="no matplotlib: pip install 'rlvr-cli[plot]'")
    content = plotted(figure.only("difference"), "pdf")
    streams = re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL)
    texts = [content]
    for stream in streams:
        try:
            texts.append(zlib.decompress(stream))
        except zlib.error:
            continue
    whole = b"\n".join(texts)
    fonts = re.findall(rb"/Type /Font\b", whole)
    embedded = re.findall(rb"/FontFile2", whole)
    descriptors = re.findall(rb"/Type /FontDescriptor", whole)
    assert fonts
    assert len(embedded) == len(descriptors) >= 1
    assert b"/Subtype /Type3" not in whole  # which journals refuse
    assert b"/CIDFontType2" in whole  # Type 42
    assert plotted(figure.only("difference"), "pdf") == content


def test_without_matplotlib_it_is_said_what_to_install(figure, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not can_draw_pdf()
    with pytest.raises(UserError, match=r"pip install 'rlvr-cli\[plot\]'"):
        plotted(figure, "pdf")
