"""Curves as text: limits that fit, whole steps, as wide as asked."""

import pytest
from small_runs import made_figures

from rlvr_cli.console.steps import BEST, CONS, CURVES, HELD_OUT, draw_curves, with_ends
from rlvr_cli.core.step_figures import HeldOut

TITLES = {curve.name: curve.title for curve in CURVES}


def rows(*values: float, key: str = "reward", first: int = 1) -> list[dict]:
    return [{"step": first + n, key: value} for n, value in enumerate(values)]


def drawn(*runs: list[dict], width: int = 80, color: bool = False) -> str:
    return draw_curves([list(map(made_figures, run)) for run in runs], width, color)


def labels(lines: list[str]) -> list[str]:
    return [line.partition("┤")[0].strip() for line in lines if "┤" in line]


@pytest.mark.parametrize(("width", "per_row"), [(30, 1), (60, 1), (80, 2), (120, 3), (200, 3)])
def test_charts_fill_the_width(width, per_row):
    metrics = dict.fromkeys(TITLES, 0.5)
    lines = drawn([{"step": n, **metrics} for n in range(1, 4)], width=width).splitlines()
    assert len(lines) == 9 * -(-len(CURVES) // per_row)
    assert max(map(len, lines)) <= width
    assert sum(title in lines[0] for title in TITLES.values()) == per_row
    colored = drawn([{"step": 1, **metrics}], width=width, color=True)
    assert len(colored.splitlines()) == len(lines)


def test_only_what_was_measured_is_drawn():
    assert drawn([]) == drawn(rows(None)) == ""
    curves = drawn(rows(0.5, None, 0.25))
    assert TITLES["reward"] in curves
    assert TITLES["entropy"] not in curves


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("reward", (-1.0, -1.0), ["-0.5", "-0.75", "-1"]),
        ("reward", (2.0, 2.0), ["2.5", "2", "1.5"]),
        ("reward", (0.1, 0.2), ["0.2", "0.15", "0.1"]),
        ("reward", (0.0, 3.0), ["3", "1.5", "0"]),
        ("pass@1", (0.0, 0.0), ["0.5", "0.25", "0"]),
        ("mixed_share", (0.75, 0.75), ["1", "0.625", "0.25"]),
        ("pass@1", (0.25, 0.75), ["0.75", "0.5", "0.25"]),
        ("response_length", (10.0, 20.0), ["20", "15", "10"]),
        ("pass@1", (0.15156, 0.15312), ["0.1531", "0.1523", "0.1516"]),
        ("entropy", (0.0, 0.0), ["0.5", "0", "-0.5"]),
    ],
)
def test_limits_fit_what_is_shown_with_the_top_above(key, values, expected):
    assert labels(drawn(rows(*values, key=key), width=60).splitlines()) == expected


@pytest.mark.parametrize(
    ("first", "count", "ticks"),
    [(1, 1, "1"), (1, 3, "1 2 3"), (1, 8, "1 3 5 7"), (1, 9, "1 3 5 7 9"), (41, 60, "41 56 71 86")],
)
def test_steps_are_whole_and_evenly_spaced(first, count, ticks):
    curves = drawn(rows(*[0.5] * count, first=first), width=60)
    assert curves.splitlines()[-1].split() == ticks.split()


@pytest.mark.parametrize("step", [1, 2**53, 2**63 - 2])
@pytest.mark.parametrize("value", [5e-324, 1e17, 1e100, -1e100])
def test_numbers_of_any_size_are_drawn(step, value):
    for values in ((value,), (value, value), (value, 0.3), (value, value * (1 - 1e-15))):
        for key in ("reward", "entropy"):
            assert len(drawn(rows(*values, key=key, first=step), width=60).splitlines()) == 9


@pytest.mark.parametrize("width", [40, 60])
def test_held_out_points_and_the_best_are_marked(width):
    history = rows(*[0.1] * 9, key="pass@1")
    for step, value in ((2, 0.3), (5, 0.9), (8, 0.6)):
        history[step - 1]["held_out_pass@1"] = value
    title, *chart = drawn(history, width=width).splitlines()
    assert title.strip() == f"pass@1 (as sampled, {HELD_OUT} held out, {BEST} best)"
    assert "".join(chart).count(HELD_OUT) == 2
    assert "".join(chart).count(BEST) == 1


def test_runs_are_drawn_over_each_other_by_their_numbers():
    curves = drawn(rows(-0.9, -0.9), rows(0.9, 0.9, 0.9), width=60)
    above, below = curves.splitlines()[2], curves.splitlines()[6]
    assert set(above.partition("┤")[2]) & set("12") == {"2"}
    assert set(below.partition("┤")[2]) & set("12") == {"1"}


def test_every_held_out_set_has_a_curve_of_its_own_with_cons():
    history = rows(*[0.1] * 3, key="pass@1")
    for row in history[1:]:
        row["held_out_pass@1"] = 0.3
        row["held_out_pass@1_low"] = 0.2
        row["held_out_cons@k"] = 0.4
        row["held_out_pass@1/pass@1 of a long name"] = 0.6
        row["held_out_cons@k/b"] = 0.7
    curves = drawn(history, width=40)
    marked = f"pass@1 (as sampled, {HELD_OUT} held out, {BEST} best)"
    titles = [marked, f"held out: pass@1, {CONS} cons@k", "held out pass@1 of a …: pass@1"]
    assert [line.strip() for line in curves.splitlines() if "held out" in line] == titles
    assert curves.count(CONS) == 2 + 1
    pair = drawn(history, history, width=40)
    assert pair.count("held out: pass@1") == 1
    assert CONS not in pair
    hostile = drawn([{"step": 1, "held_out_pass@1/\x1b[2J": 0.5}], width=60)
    assert "\x1b" not in hostile


def test_what_was_measured_before_and_after_is_in_the_curves():
    """Of 4 steps with a measurement at 2: step 0 and step 4 are points as well, 4 the best."""
    history = rows(*[0.1] * 4, key="pass@1")
    history[1]["held_out_pass@1"] = 0.2
    sets = {0: {"": HeldOut(pass_at_1=0.15)}, 4: {"": HeldOut(pass_at_1=0.3)}}
    whole = with_ends(list(map(made_figures, history)), sets)
    _, *chart = draw_curves([whole], 60).splitlines()
    assert [figures.step for figures in whole] == [0, 1, 2, 3, 4]
    assert "".join(chart[:9]).count(HELD_OUT) == 2
    assert "".join(chart[:9]).count(BEST) == 1
    assert with_ends(whole, {4: {}}) == whole
