"""Rewards by verdict, and the punishment of length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_cli.algorithm.reward import (
    WITHOUT_VERDICT,
    RewardConfig,
    combine_rewards,
    overlong_penalty,
    reward,
)
from verifiers import Verdict, Verification


@pytest.mark.parametrize("verdict", Verdict)
def test_a_reward_is_one_up_or_down_or_none_where_nothing_was_judged(verdict):
    unjudged = verdict in (Verdict.TIMEOUT, Verdict.UNPARSEABLE_GOLD)
    assert (verdict in WITHOUT_VERDICT) is unjudged
    expected = None if unjudged else 1.0 if verdict is Verdict.CORRECT else -1.0
    assert reward(Verification(verdict, None, True, "")) == expected


@given(
    st.integers(0, 5000),
    st.integers(1, 4096),
    st.floats(0.01, 1.0),
)
def test_the_penalty_falls_from_nought_to_one_and_never_beyond(n_tokens, max_tokens, cache):
    here, longer = (overlong_penalty(n, max_tokens, cache) for n in (n_tokens, n_tokens + 1))
    assert -1.0 <= longer <= here <= 0.0
    assert overlong_penalty(max_tokens, max_tokens, cache) == pytest.approx(-1.0)
    assert overlong_penalty(int(max_tokens * (1 - cache)), max_tokens, cache) == 0.0


@pytest.mark.parametrize(
    ("n_tokens", "penalty"), [(1, 0), (80, 0), (85, -0.25), (90, -0.5), (100, -1)]
)
def test_the_overlong_penalty_falls_over_the_cache(n_tokens, penalty):
    assert overlong_penalty(n_tokens, max_tokens=100, cache=0.2) == pytest.approx(penalty)


@pytest.mark.parametrize(
    ("verdict", "format_ok", "expected"),
    [
        (Verdict.CORRECT, True, (2.0, 0.25, -0.1)),
        (Verdict.WRONG, True, (-0.5, 0.25, -0.1)),
        (Verdict.BAD_FORMAT, False, (-0.5, 0.0, -0.1)),
        (Verdict.TIMEOUT, True, (None, 0.25, -0.1)),
        (None, True, (None, None, -0.1)),  # no gold answer is known
    ],
)
def test_graded_rewards_and_the_length(verdict, format_ok, expected):
    actual = verdict and Verification(verdict, None, format_ok, "")
    graded = {"correct": 2.0, "wrong": -0.5, "format": 0.25}
    names = ("math", "format", "length")
    values = {name: value for name, value in zip(names, expected, strict=True) if value is not None}
    total = sum(values.values()) if len(values) == len(names) else None
    assert combine_rewards(RewardConfig(functions=names, **graded), actual, 0.1, {}) == (
        total,
        values,
    )


def test_the_reward_is_the_weighted_sum_or_none():
    requested = RewardConfig(functions=("math", "format:0.5", "my.py:-2", "my.py:length"))
    right = Verification(Verdict.CORRECT, None, True, "")
    own = {"my": 0.25, "length": 3.0}  # a custom function may have the name of a built-in one
    assert combine_rewards(requested, right, 0.1, own) == (4.0, {"math": 1.0, "format": 1.0, **own})
    assert combine_rewards(requested, right, 0.1, {"my": 0.25})[0] is None


def test_a_reward_of_weight_0_is_only_logged():
    late = Verification(Verdict.TIMEOUT, None, True, "")
    logged = RewardConfig(functions=("my.py", "math:0"))
    assert combine_rewards(logged, late, 0.1, {"my": 0.7}) == (0.7, {"my": 0.7})
    right = Verification(Verdict.CORRECT, None, True, "")
    assert combine_rewards(RewardConfig(functions=("math", "slow.py:0")), right, 0.1, {}) == (
        1.0,
        {"math": 1.0},
    )
