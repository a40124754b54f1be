"""Judged responses as rows: what is trained on, and what length takes from the reward."""

import pytest
import torch

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_advantage import GroupNormalized
from rlvr_cli.algorithm.kinds import MaskOverlong, SoftOverlong
from rlvr_cli.algorithm.reward import parse_rewards
from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout

PROMPT = Prompt(Problem("1", "?", "1"), "?", (5, 6), False)


def make_group(*responses: tuple[int, float | None], version: int = 0) -> Group:
    """Responses as (tokens, reward); those of ten tokens are cut off."""
    rollouts = [
        Rollout.of(
            PROMPT,
            sample,
            Completion([7] * n, [-0.5] * n, "length" if n == 10 else "stop"),
            "",
            None,
            reward,
        )
        for sample, (n, reward) in enumerate(responses)
    ]
    return Group(PROMPT, tuple(rollouts), version)


def test_a_row_is_a_judged_response_with_what_the_engine_said_of_it():
    groups = [make_group((2, 1.0), (3, None)), make_group((10, -1.0), version=4)]
    actual = to_samples(groups, Algorithm(), max_tokens=10, weight_version=4)
    assert actual.lengths == [(2, 2), (2, 10)]
    assert (actual.prompt_ids[0], actual.response_ids[0]) == ((5, 6), [7, 7])
    assert actual.rollout_logprobs.tolist() == [[-0.5] * 2 + [0] * 8, [-0.5] * 10]
    assert actual.rollout_logprobs.dtype is torch.float64
    assert actual.mask.tolist() == [[1] * 2 + [0] * 8, [1] * 10]
    assert actual.group.tolist() == [0, 1]
    assert actual.is_cut_off.tolist() == [False, True]
    assert actual.is_fresh.tolist() == [[False] * 10, [True] * 10]
    assert actual.versions.tolist() == [[0] * 10, [4] * 10]


def test_a_batch_of_some_rows_has_their_columns_and_no_others():
    actual = to_samples([make_group((2, 1.0), (3, 0.0), (1, -1.0))], Algorithm(), 10, 0)
    actual.old_logprobs = actual.rollout_logprobs - 1
    some = actual.only([2, 0])
    assert (len(some), some.sample, some.reward.tolist()) == (2, [2, 0], [-1, 1])
    assert some.old_logprobs.tolist() == [[-1.5, -1, -1], [-1.5, -1.5, -1]]
    assert some.entropy is None
    assert some.column("entropy").tolist() == [[0] * 3] * 2
    assert len(to_samples([], Algorithm(), 10, 0)) == 0


def test_without_a_row_the_rewards_to_normalize_have_their_columns():
    each = Algorithm(advantage=GroupNormalized(normalization="each"))
    requested = parse_rewards(("math", "format:0.2"))
    actual = to_samples([], each, 10, 0, requested)
    assert actual.terms.shape == (0, 3, 2)
    assert with_advantages(actual, each, 0.0).advantages.shape == (0, 0)


@pytest.mark.parametrize(
    ("overlong", "rewards"),
    [
        (None, [1.0, 1.0, -1.0]),
        (MaskOverlong(), [1.0, 1.0, -1.0]),
        (SoftOverlong(cache=0.2), [1.0, 0.5, -2.0]),  # from 8 of 10 tokens on, -1 at 10
        (SoftOverlong(cache=0.5), [0.8, 0.2, -2.0]),  # from 5 on
    ],
)
def test_only_the_soft_penalty_takes_from_the_reward(overlong, rewards):
    group = make_group((6, 1.0), (9, 1.0), (10, -1.0))
    rows = to_samples([group], Algorithm(overlong=overlong), max_tokens=10, weight_version=0)
    assert rows.reward.tolist() == pytest.approx(rewards)
