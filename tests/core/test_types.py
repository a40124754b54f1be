"""What a group of responses says of itself."""

import pytest
from small_groups import LATE, RIGHT, WRONG, made_group, made_rollout

from rlvr_cli.core.types import ROW_KEYS, Problem
from rlvr_cli.rollout.sampler import response_row
from verifiers import Verdict


@pytest.mark.parametrize(
    ("verdicts", "is_mixed", "judged"),
    [
        ((RIGHT, WRONG), True, 2),
        ((RIGHT, RIGHT), False, 2),
        ((WRONG, WRONG), False, 2),
        ((RIGHT, LATE), False, 1),
        ((RIGHT, WRONG, LATE, Verdict.UNPARSEABLE_GOLD), True, 2),
        ((LATE, LATE), False, 0),
        ((None, None), False, 0),
        ((), False, 0),
    ],
)
def test_a_group_is_mixed_by_what_was_judged(verdicts, is_mixed, judged):
    group = made_group("a", *verdicts)
    assert (group.is_mixed, len(group.judged)) == (is_mixed, judged)


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_only_one_verdict_is_right(verdict):
    assert made_rollout(verdict).is_correct is (verdict is Verdict.CORRECT)


def test_problems_share_no_fields():
    one, other = Problem("1", "p", None), Problem("2", "q", None)
    one.extra["level"] = 3
    assert other.extra == {}


def test_a_row_has_the_keys_that_are_said_in_their_order():
    assert tuple(response_row(made_rollout(RIGHT))) == ROW_KEYS
    assert tuple(response_row(made_rollout(None))) == ROW_KEYS[:8]
