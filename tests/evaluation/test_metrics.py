"""The figures of a step from groups made by hand."""

import pytest
from small_groups import LATE, RIGHT, WRONG, made_group, made_prompt, made_rollout

from rlvr_cli.core.types import Group
from rlvr_cli.evaluation.metrics import (
    mean,
    pass_at_1,
    repeatable,
    rollout_metrics,
    verdict_counts,
)
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
    rollouts = [
        rollout for group in (HALF, ALL_BUT_ONE_LATE, UNJUDGED) for rollout in group.rollouts
    ]
    counts = verdict_counts(rollouts)
    assert list(counts.items()) == [("correct", 3), ("timeout", 2), ("wrong", 1)]


def test_everything_sampled_in_a_step_by_hand():
    prompt = made_prompt("d")
    cut = made_rollout(Verdict.TRUNCATED, 9, "length", prompt=prompt, format_ok=False)
    groups = [HALF, ALL_BUT_ONE_LATE, UNJUDGED, Group(prompt, (cut,), 0)]
    found = rollout_metrics(groups)
    assert found == {
        "reward": pytest.approx((3 - 2) / 5),
        "pass@1": 0.5,
        "response_length": pytest.approx((2 * 2 + 3 * 5 + 2 * 1 + 9) / 8),
        "mixed_share": 0.25,
        "format_share": pytest.approx(6 / 7),
        "unjudged_share": pytest.approx(3 / 8),
        "cut_off_share": pytest.approx(1 / 8),
        "groups_sampled": 4,
        "tokens_sampled": 30,
        "verdicts": {"correct": 3, "timeout": 2, "truncated": 1, "wrong": 1},
    }
    assert rollout_metrics(groups, has_format=False) == found | {"format_share": None}


def test_what_depends_on_the_machine_is_not_repeatable():
    measured = ("seconds_step", "least_seconds_update", "tokens_per_second_rollout", "goodput")
    measured += ("mfu", "roof_gen", "machine_busy", "memory_peak_gib")
    kept = {"reward": 0.1, "tokens_sampled": 3, "entropy": 0.2, "step": 1}
    assert repeatable(dict.fromkeys(measured, 1.0) | kept) == kept
