"""Arms are compared where all have been, paired by seed and problem."""

from statistics import fmean
from xml.etree import ElementTree

import numpy as np
import pytest

from rlvr_cli.core.step_figures import StepFigures, UpdateFigures
from rlvr_cli.evaluation.curves import (
    STEPS,
    MeasuredRun,
    Point,
    compare_arms,
    curve,
    difference_curve,
    ends_of,
    interpolate,
    mean_of,
    on_a_grid,
    smoothed,
)
from rlvr_cli.evaluation.estimators import crossed_difference, detectable, student
from rlvr_cli.evaluation.picture import picture


def run(*points: tuple[int, float, int, list[float]]) -> MeasuredRun:
    measured = [
        Point(step, seconds, tokens, fmean(shares), {str(n): x for n, x in enumerate(shares)})
        for step, seconds, tokens, shares in points
    ]
    return MeasuredRun(measured, [StepFigures(5, update=UpdateFigures(entropy=0.5))])


BASE = {
    0: run((0, 0.0, 0, [0.0, 0.5]), (10, 10.0, 100, [0.5, 0.5])),
    1: run((0, 0.0, 0, [0.0, 0.5]), (10, 10.0, 100, [0.5, 1.0])),
}
ARM = {
    0: run((0, 0.0, 0, [0.0, 0.5]), (10, 5.0, 200, [1.0, 0.5])),
    1: run((0, 0.0, 0, [0.0, 0.5]), (10, 5.0, 200, [1.0, 1.5])),
}


def test_a_difference_is_taken_where_all_have_been():
    """By hand: at 10 steps the arm has 0.75 and 1.25, the base 0.5 and 0.75. At 5 seconds the base
    is half way, at 0.375 and 0.5; at 100 tokens the arm is, at 0.5 and 0.75."""
    rows = compare_arms({"base": BASE, "arm": ARM}, "base")
    found = {(row.arm, row.axis.unit): row for row in rows}
    assert [row.at for row in rows] == [10, 10, 5, 5, 100, 100]
    assert found["base", "steps"].difference is None
    assert found["base", "steps"].pass_at_1 == pytest.approx((0.5 + 0.75) / 2)
    values = [found["arm", unit].difference.value for unit in ("steps", "seconds", "tokens")]
    assert values == pytest.approx([0.375, 0.5625, 0.0])


def test_a_difference_begins_where_the_base_does():
    """A base that was not judged before step 10 has no difference at step 0."""
    arm = run((0, 0.0, 0, [0.25]), (10, 1.0, 1, [0.5]), (20, 2.0, 2, [1.0]), (30, 3.0, 3, [1.0]))
    base = run((10, 1.0, 1, [0.25]), (20, 2.0, 2, [0.75]))
    assert difference_curve(arm, base) == [(10, 0.25), (20, 0.25)]


def entropies(*values: float | None) -> MeasuredRun:
    """A run whose steps from 1 on have these entropies."""
    figures = [
        StepFigures(step, update=UpdateFigures(entropy=value))
        for step, value in enumerate(values, 1)
    ]
    return MeasuredRun([], figures)


def test_five_steps_are_one_point_of_a_smoothed_curve():
    """By hand: (1 + 2 + 3 + 4 + 5) / 5 = 3, then (10 + 20) / 2 of the two steps that have it. The
    eleventh step has no fifth beside it, and five steps without a figure are no point."""
    run = entropies(1, 2, 3, 4, 5, 10, None, 20, None, None, 99)
    assert smoothed(run, "entropy") == [(5, 3.0), (10, 15.0)]
    assert smoothed(entropies(*[None] * 5, *[2.0] * 5), "entropy") == [(10, 2.0)]
    assert smoothed(entropies(), "entropy") == []
    assert mean_of(run, "entropy", after=1, last=3) == 2.5  # of steps 2 and 3
    assert mean_of(run, "entropy", after=8, last=10) is None


def test_curves_meet_on_a_grid_where_both_have_been():
    """By hand: from 10, where the second begins, to 70, where the first ends, are 30 parts of 2."""
    first = [(0.0, 0.0), (70.0, 7.0)]
    second = [(10.0, 1.0), (40.0, 1.0), (100.0, 3.0)]
    grid = on_a_grid([first, second])
    assert [place for place, _ in grid] == [10.0 + 2 * n for n in range(31)]
    assert grid[0][1] == pytest.approx([1.0, 1.0])
    assert grid[15][1] == pytest.approx([4.0, 1.0])
    assert grid[30][1] == pytest.approx([7.0, 2.0])
    assert on_a_grid([]) == []


def test_a_value_between_two_points_lies_on_their_line():
    points = [(0.0, 1.0), (10.0, 2.0), (10.0, 5.0), (20.0, 7.0)]
    values = [interpolate(points, x) for x in (0.0, 5.0, 10.0, 15.0, 20.0, 30.0)]
    assert values == [1.0, 1.5, 2.0, 6.0, 7.0, 7.0]


def test_a_curve_leaves_out_what_was_not_judged():
    points = [Point(0, 0.0, 0, 0.25), Point(5, 1.0, 10, None), Point(9, 2.0, 20, 0.5)]
    measured = MeasuredRun(points, [])
    assert curve(measured, STEPS) == [(0, 0.25), (9, 0.5)]
    ends = ends_of([measured, MeasuredRun(points[:2], [])])
    assert {axis.unit: end for axis, end in ends.items()} == {
        "steps": 5,
        "seconds": 1.0,
        "tokens": 10,
    }


def test_seeds_that_only_one_arm_has_are_not_paired():
    (difference,) = {
        row.difference.seeds
        for row in compare_arms({"base": {**BASE, 7: BASE[0]}, "arm": ARM}, "base")
        if row.difference
    }
    assert difference == 2
    rows = compare_arms({"base": {0: BASE[0]}, "arm": ARM}, "base")
    assert all(row.difference is None for row in rows)


def test_with_one_column_the_interval_is_students_over_seeds():
    """0.1, 0.2, 0.3: deviation 0.1, and 4.303 is the quantile of two degrees of freedom."""
    estimate = crossed_difference([[0.1], [0.2], [0.3]])
    half = 4.302653 * 0.1 / 3**0.5
    assert estimate.interval == pytest.approx((0.2 - half, 0.2 + half))
    # 1.0607 is the one-sided quantile of 80 % (tables of Student's t).
    assert estimate.seen == pytest.approx((4.302653 + 1.06066) * 0.1 / 3**0.5, rel=1e-4)


def test_seeds_that_agree_leave_the_variance_of_the_problems():
    """Two equal rows: no seed varies, so that it is Student's interval over four problems."""
    row = [0.0, 0.2, 0.4, 0.6]
    low, high = crossed_difference([row, row]).interval
    half = student(3) * np.std(row, ddof=1) / 2
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half))


def test_noise_of_single_cells_counts_once():
    """By hand: rows (1, 0) and (0, 1): all means are 0.5, so that nothing but noise is there."""
    assert crossed_difference([[1.0, 0.0], [0.0, 1.0]]).interval == (0.5, 0.5)


def test_more_seeds_show_less():
    """Tables of Student's t: 12.706 + 1.376 with one degree of freedom, 2.776 + 0.941 with four."""
    assert [detectable(2), detectable(5)] == pytest.approx([14.082, 3.717], abs=2e-3)


def test_one_seed_has_no_interval():
    with pytest.raises(ValueError, match="one seed"):
        crossed_difference([[0.1, 0.2]])


def test_a_picture_has_a_band_and_a_line_an_arm_and_no_markup_of_a_name():
    drawn = picture({"<b>": list(BASE.values()), "arm": list(ARM.values())}, "entropy", bands=True)
    ElementTree.fromstring(drawn)
    assert drawn.count("<polygon") == 3 * 2  # entropy was measured once
    assert drawn.count("<polyline") == 3 * (1 + 2)
    assert "&lt;b&gt; (2)" in drawn
