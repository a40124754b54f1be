"""The figures of a step from groups made by hand."""

from dataclasses import replace

import pytest
from small_groups import LATE, RIGHT, WRONG, made_group, made_prompt, made_rollout

from rlvr_cli.console import tables
from rlvr_cli.core.step_figures import SampledFigures
from rlvr_cli.core.types import Group, Problem, Prompt
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.figures import JudgedProblem, judged_problems
from rlvr_cli.evaluation.measure import pass_at_1, pass_at_1_by_level, rollout_metrics
from verifiers import Verdict

HALF = made_group("a", RIGHT, WRONG, n_tokens=2)
ALL_BUT_ONE_LATE = made_group("b", RIGHT, RIGHT, LATE, n_tokens=5)
UNJUDGED = made_group("c", LATE, None)


def test_the_mean_of_nothing_is_none():
    assert mean([]) is None
    assert mean(iter([1, 2, 6])) == 3
    assert mean([0.0]) == 0.0


def test_pass_at_1_is_over_problems_and_leaves_out_what_was_not_judged():
    assert pass_at_1([HALF, ALL_BUT_ONE_LATE, UNJUDGED]) == 0.75
    assert pass_at_1([made_group("d", WRONG, WRONG)]) == 0.0
    assert pass_at_1([UNJUDGED]) is None


def test_verdicts_are_counted_by_name_in_order():
    counts = rollout_metrics([HALF, ALL_BUT_ONE_LATE, UNJUDGED]).verdicts
    assert list(counts.items()) == [("correct", 3), ("timeout", 2), ("wrong", 1)]


def test_everything_sampled_in_a_step_by_hand():
    prompt = made_prompt("d")
    cut = made_rollout(Verdict.TRUNCATED, 9, "length", prompt=prompt, format_ok=False)
    groups = [HALF, ALL_BUT_ONE_LATE, UNJUDGED, Group(prompt, (cut,), 0)]
    actual = rollout_metrics(groups)
    assert actual == SampledFigures(
        reward=pytest.approx((3 - 2) / 5),
        pass_at_1=0.5,
        response_length=pytest.approx((2 * 2 + 3 * 5 + 2 * 1 + 9) / 8),
        sampled_entropy=0.5,
        reflections=0.0,
        mixed_share=0.25,
        format_share=pytest.approx(6 / 7),
        unjudged_share=pytest.approx(3 / 8),
        cut_off_share=pytest.approx(1 / 8),
        groups_sampled=4,
        tokens_sampled=30,
        verdicts={"correct": 3, "timeout": 2, "truncated": 1, "wrong": 1},
    )
    assert rollout_metrics(groups, has_format=False) == replace(actual, format_share=None)


def of_level(level: object, *verdicts: Verdict) -> JudgedProblem:
    problem = Problem("p", "?", "1", {} if level is None else {"level": level})
    prompt = Prompt(problem, "?", (1,), False)
    (judged,) = judged_problems(made_rollout(each, prompt=prompt) for each in verdicts)
    return judged


def test_pass_at_1_by_level_is_a_mean_over_problems_numbers_in_order():
    groups = [
        of_level(10, RIGHT, RIGHT),
        of_level(2, WRONG, RIGHT, LATE, LATE),
        of_level(2, RIGHT),
        of_level(9, LATE),
    ]
    actual = pass_at_1_by_level(groups)
    assert list(actual.items()) == [("2", 0.75), ("9", None), ("10", 1.0)]
    assert pass_at_1_by_level([of_level(2, RIGHT, WRONG, WRONG)]) == {"2": 1 / 3}
    assert tables.by_level(actual, {"2": 1.0, "9": None, "10": 1.0}) == [
        ["level", "2", "9", "10"],
        ["before", "0.75", "-", "1.00"],
        ["after", "1.00", "-", "1.00"],
    ]


def test_problems_without_levels_or_with_a_level_each_have_no_table():
    assert pass_at_1_by_level([of_level(None, RIGHT)]) == {}
    assert pass_at_1_by_level([of_level(1, RIGHT), of_level(None, RIGHT)]) == {}
    assert pass_at_1_by_level([of_level(n, RIGHT) for n in range(13)]) == {}
    assert len(pass_at_1_by_level([of_level(n, RIGHT) for n in range(12)])) == 12
    assert pass_at_1_by_level([]) == {}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Wait, that is 8.", True),
        ("So 7. WAIT!", True),
        ("Let me check: 3 + 4 = 7.", True),
        ("I double-check it.", True),
        ("Hold on.", True),
        ("The waiter waits for 3 minutes.", False),
        ("Check the 2 boxes.", False),
        ("", False),
    ],
)
def test_a_response_that_checks_itself_is_counted(text, is_one):
    other = HALF.rollouts[0]
    group = replace(HALF, rollouts=(other, replace(other, text=text)))
    assert rollout_metrics([group]).reflections == is_one / 2
