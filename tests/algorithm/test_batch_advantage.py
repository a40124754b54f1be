"""Advantages that look beyond the rewards of one group, against numpy within 1e-12."""

import math

import numpy as np
import pytest
import torch

from rlvr_cli.algorithm.advantage import compute_advantages
from rlvr_cli.algorithm.group_advantage import GroupNormalized, mean_normalized
from rlvr_cli.algorithm.samples import Samples

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("rewards", [(1, 0, 0, 0), (1, 1, 1, 0), (0, 0, 0, 0), (1, 1, 1, 1)])
def test_maxrl_divides_by_the_mean_of_rewards_0_and_1(rewards):
    r = np.array(rewards, dtype=float)
    expected = (r - r.mean()) / r.mean() if r.mean() > 0 else np.zeros(4)
    for given in (r, 2 * r - 1):  # -1 and 1 act as 0 and 1
        actual = mean_normalized(torch.from_numpy(given)).numpy()
        np.testing.assert_allclose(actual, expected, atol=1e-12, rtol=0)


def test_what_ties_up_to_rounding_has_no_mean_to_divide_by():
    r = torch.tensor([0.1 + 0.2, 0.3, 0.3], dtype=torch.float64)  # 5.6e-17 apart
    assert mean_normalized(r).tolist() == [0, 0, 0]
    assert mean_normalized(r + torch.tensor([1e-6, 0, 0])).tolist() == pytest.approx([2, -1, -1])


def batch_of(groups: list[int], terms: np.ndarray | None = None) -> Samples:
    B = len(groups)
    return Samples(
        *([[0]] * B for _ in range(3)),
        group=torch.tensor(groups),
        **dict.fromkeys(("reward", "is_fresh", "is_cut_off", "is_correct"), torch.zeros(B)),
        mask=torch.ones(B, 1, dtype=torch.float64),
        rollout_logprobs=torch.zeros(B, 1),
        token_figures=torch.zeros(B),
        terms=None if terms is None else torch.from_numpy(terms),
    )


def test_the_deviation_can_be_that_of_the_batch():
    r = RNG.normal(size=6)
    groups = np.array([0, 1, 0, 1, 1, 0])
    means = np.array([r[groups == item].mean() for item in groups])
    expected = (r - means) / (np.sqrt(((r - r.mean()) ** 2).sum() / 5) + 1e-6)
    by_batch = GroupNormalized(deviation="batch")
    actual = compute_advantages(torch.from_numpy(r)[:, None], batch_of(groups.tolist()), by_batch)
    np.testing.assert_allclose(actual[:, 0].numpy(), expected, atol=1e-12, rtol=0)


def test_a_reward_that_leaves_a_response_out_adds_nothing_to_it():
    nan = math.nan
    values = torch.tensor([[1.0, 2.0, nan], [0.0, nan, 5.0], [0.0, 4.0, nan], [1.0, nan, nan]])
    terms = torch.stack([values, torch.tensor([1.0, 0.5, 1.0]).expand_as(values)], -1)
    centered = GroupNormalized(normalization="each")
    batch = batch_of([0, 0, 0, 0], terms.double().numpy())
    actual = compute_advantages(torch.zeros(4, 1).double(), batch, centered)[:, 0]
    # The first reward's deviation is 1 / sqrt(3); the second's, of 2 and 4, is sqrt(2); the third
    # has one value alone, which is compared with nothing.
    first = math.sqrt(3) / 2
    second = 0.5 / math.sqrt(2)
    sums = torch.tensor([first - second, -first, -first + second, first]).double()
    np.testing.assert_allclose(actual, sums / sums.std(), atol=1e-5)


def test_each_reward_can_be_normalized_before_it_is_weighed():
    groups, weights = np.array([0, 1, 0, 1, 1, 0]), np.array([1.0, -0.3])
    values = np.stack([RNG.normal(size=6), np.array([0, 1, 0, 1, 0, 0.0])], 1)
    summed = np.zeros(6)
    for number in (0, 1):
        own = values[groups == number]
        deviation = own.std(0, ddof=1) + 1e-6
        summed[groups == number] = ((own - own.mean(0)) / deviation * weights).sum(1)
    expected = (summed - summed.mean()) / (summed.std(ddof=1) + 1e-8)
    terms = np.stack([values, np.broadcast_to(weights, values.shape)], -1)
    each = GroupNormalized(normalization="each")
    actual = compute_advantages(torch.zeros(6, 1).double(), batch_of(groups.tolist(), terms), each)
    np.testing.assert_allclose(actual[:, 0].numpy(), expected, atol=1e-12, rtol=0)
