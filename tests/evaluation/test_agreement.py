"""Agreement of two judges, by numbers that can be checked by hand."""

import pytest

from rlvr_cli.evaluation.report import agreement, both_right


def pair(problem, ours, theirs, **fields):
    return (problem, ""), {"verdict": ours, **fields}, {"verdict": theirs}


def test_agreement_is_the_mean_over_problems():
    pairs = [
        pair("a", "correct", "correct"),
        pair("a", "correct", "wrong"),
        pair("b", "no_answer", "wrong"),
        pair("b", "wrong", "correct"),
        pair("b", "bad_format", "correct"),
        pair("b", "truncated", "correct"),
        pair("b", "wrong", "no_answer"),
        pair("b", "wrong", "timeout"),
        pair("c", "unparseable_gold", "correct"),
    ]
    actual = agreement(pairs)
    share, *counts = actual.values()
    assert share["value"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert share["problems"] == 2
    assert counts == [5, 1, 1, 1, 2, 4]
    assert [both_right(item) for item in pairs[:4]] == [
        (True, True),
        (True, False),
        (False, False),
        (False, True),
    ]
    assert [both_right(item) for item in pairs[4:]] == [None, None, (False, False), None, None]


def test_full_agreement_is_not_certain():
    share = agreement([pair(str(n), "correct", "correct") for n in range(30)])["share"]
    assert (share["value"], share["interval"][1]) == (1, 1)
    assert share["interval"][0] == pytest.approx(
        1 - 0.1135, abs=1e-4
    )  # Wilson's lower end of 30 of 30


def test_nothing_judged_is_no_figure():
    assert agreement([pair("a", "timeout", "correct")])["share"] is None
