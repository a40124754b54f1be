"""Which rewards are asked for, from what is typed."""

import pytest

from rlvr_cli.algorithm.reward import RewardConfig, parse_rewards


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("math", ("math", "math", 1.0)),
        ("format:0.2", ("format", "format", 0.2)),
        ("my.py", ("my", "my.py", 1.0)),
        ("a/my.py:-2", ("my", "a/my.py", -2.0)),
        ("my.py:words", ("words", "my.py:words", 1.0)),
        ("my.py:words:1e-1", ("words", "my.py:words", 0.1)),
        ("pkg.mod:words:3", ("words", "pkg.mod:words", 3.0)),
        ("pkg.mod.words", ("words", "pkg.mod.words", 1.0)),
        ("installed:2", ("installed", "installed", 2.0)),
        ("function f:2", ("f", "function f", 2.0)),
    ],
)
def test_a_reward_is_a_place_and_a_weight(text, expected):
    (actual,) = parse_rewards([text])
    assert (actual.name, actual.spec, actual.weight) == expected
    assert actual.is_user_code == (actual.spec not in ("math", "format"))


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (["math", "math:2"], "two rewards are called math; rename a function"),
        (["a.py:words", "b.py:words"], "two rewards are called words"),
        (["math:0", "my.py:0"], "the weights of all rewards are 0"),
        (["math:inf"], "a reward is SPEC or SPEC:WEIGHT, such as format:0.2, not 'math:inf'"),
        ([":3"], "not ':3'"),
        ([""], "not ''"),
        ([], "at least 1 item"),
    ],
)
def test_what_cannot_be_a_sum_is_refused(functions, message):
    with pytest.raises(ValueError, match=message):
        RewardConfig(functions=functions)
