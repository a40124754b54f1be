"""Advantages against numbers that can be checked by hand and against loops over tokens."""

import itertools
import math
import random

import pytest
import torch
from small_samples import Row, samples_of

from rlvr_cli.algorithm.advantage import (
    compute_advantages,
    top_entropy_only,
    whiten,
    with_advantages,
)
from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_advantage import (
    GROUP_ADVANTAGES,
    GroupBaseline,
    GroupNormalized,
    group_centered,
    group_normalized,
    leave_one_out,
)
from rlvr_cli.algorithm.kinds import Critic
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.algorithm.token_advantage import (
    TOKEN_ADVANTAGES,
    Divergence,
    Gae,
    Likelihood,
    Return,
    gae,
    length_adaptive_lambda,
    reward_to_go,
)

GAMMA, LAM = 0.97, 0.9
ADVANTAGES = {
    "gae": Gae(gamma=GAMMA, lam=LAM),
    "group_normalized": GroupNormalized(),
    "group_centered": GroupBaseline(kind="group_centered"),
    "leave_one_out": GroupBaseline(kind="leave_one_out"),
    "mean_normalized": GroupBaseline(kind="mean_normalized"),
    "return": Return(kind="return", gamma=GAMMA),
    "batch_baseline": Return(kind="batch_baseline", gamma=GAMMA),
    "right_only": Likelihood(kind="right_only"),
    "one": Likelihood(kind="one"),
    "divergence": Divergence(kind="divergence"),
}


def test_every_kind_is_looked_at():
    assert ADVANTAGES.keys() == (GROUP_ADVANTAGES | TOKEN_ADVANTAGES).keys()


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("rewards", "advantages"),
    [
        ((3.8, 5.2, 6.1), (-1.06, 0.14, 0.92)),
        ((2.0, 10.0, 3.0), (-0.69, 1.15, -0.46)),
        ((1.0, -1.0), (1 / math.sqrt(2), -1 / math.sqrt(2))),
        ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
    ],
)
def test_group_normalized_uses_the_sample_deviation(rewards, advantages):
    assert group_normalized(tensor(*rewards)).tolist() == pytest.approx(advantages, abs=5e-3)


def test_the_population_deviation_is_an_option():
    actual = group_normalized(tensor(2, 10, 3), deviation="population").tolist()
    assert actual == pytest.approx((-0.84, 1.40, -0.56), abs=5e-3)


def test_group_centered_and_leave_one_out():
    assert group_centered(tensor(1, -1, -1, -1)).tolist() == [1.5, -0.5, -0.5, -0.5]
    # 1 - mean(-1, -1, -1) and -1 - mean(1, -1, -1)
    expected = (2.0, -2 / 3, -2 / 3, -2 / 3)
    assert leave_one_out(tensor(1, -1, -1, -1)).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("name", GROUP_ADVANTAGES)
def test_a_group_of_one_is_an_error(name):
    rewards, batch = make_batch()
    batch.group = torch.tensor([0, 1, 0, 1, 2])
    with pytest.raises(ValueError, match="group of one"):
        compute_advantages(rewards, batch, ADVANTAGES[name])


def test_reward_to_go_discounts_what_is_to_come():
    assert reward_to_go(tensor(1, 0, 4)[None], 0.5).tolist() == [[2.0, 2.0, 4.0]]


def make_batch(seed: int = 0, extra: int = 0) -> tuple[torch.Tensor, Samples]:
    """Rewards, and five responses of 1 to 6 tokens in two groups, `extra` columns of padding."""
    rng = random.Random(seed)
    lengths = [1, 6, 3, 4, 2]
    rewards, values, mask = torch.zeros(3, 5, 6 + extra, dtype=torch.float64)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        for t in range(length):
            rewards[row, t], values[row, t] = rng.gauss(0, 1), rng.gauss(0, 1)
    group, is_correct = torch.tensor([[0, 1, 0, 1, 1], [1, 0, 1, 1, 0]])
    samples = samples_of([Row([2], [3] * length) for length in lengths])
    samples.mask, samples.old_values, samples.group = mask, values, group
    samples.is_correct = is_correct
    samples.end_value = tensor(0, 0.7, 0, -0.4, 0)
    return rewards, samples


def rows_of(rewards: torch.Tensor, samples: Samples):
    """(rewards, values with the end's) of each response as plain lists."""
    for row, length in enumerate(samples.mask.sum(1).int().tolist()):
        values = [*samples.old_values[row, :length].tolist(), float(samples.end_value[row])]
        yield rewards[row, :length].tolist(), values


def test_the_three_forms_of_gae_are_equal():
    gamma = GAMMA
    lam = LAM
    all_rewards, batch = make_batch()
    actual = gae(all_rewards, batch.old_values, batch.end_value, batch.mask, gamma, lam)
    for row, (rewards, values) in enumerate(rows_of(all_rewards, batch)):
        T = len(rewards)
        delta = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(T)]
        recursive = 0.0
        for t in reversed(range(T)):
            recursive = delta[t] + gamma * lam * recursive
            as_sum = sum((gamma * lam) ** i * delta[t + i] for i in range(T - t))
            assert float(actual[row, t]) == pytest.approx(recursive, abs=1e-12)
            assert float(actual[row, t]) == pytest.approx(as_sum, abs=1e-12)
            n_step = [
                sum(gamma**i * rewards[t + i] for i in range(n))
                + gamma**n * values[t + n]
                - values[t]
                for n in range(1, T - t + 1)
            ]
            # The end is absorbing: every longer return equals the last one.
            weights = [(1 - lam) * lam**i for i in range(T - t - 1)]
            mixed = sum(w * a for w, a in zip(weights, n_step, strict=False))
            mixed += lam ** (T - t - 1) * n_step[-1]
            assert float(actual[row, t]) == pytest.approx(mixed, abs=1e-12)
    assert bool((actual[batch.mask == 0] == 0).all())


def test_the_weights_of_gae_at_lambda_0_9():
    # A = sum of weights times n-step advantages: a reward of 1 that only the n-step returns from
    # n = k on see moves A by the weights from k on: 1, 0.9, 0.81, so each weight is a difference.
    observed = []
    for position in range(4):
        rewards = torch.zeros(1, 40, dtype=torch.float64)
        rewards[0, position] = 1.0
        values, mask = torch.zeros_like(rewards), torch.ones_like(rewards)
        observed.append(float(gae(rewards, values, tensor(0.0), mask, 1.0, 0.9)[0, 0]))
    weights = [a - b for a, b in itertools.pairwise(observed)]
    assert weights == pytest.approx([0.1, 0.09, 0.081])


def test_gae_at_lambda_one_is_the_return_minus_the_value():
    rewards, batch = make_batch()
    actual = gae(rewards, batch.old_values, torch.zeros(5).double(), batch.mask, 0.97, 1.0)
    expected = (reward_to_go(rewards, 0.97) - batch.old_values) * batch.mask
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


def slow(name: str, rewards: torch.Tensor, batch: Samples) -> list[list[float]]:
    """Every advantage as a loop over responses and tokens."""
    responses = list(rows_of(rewards, batch))
    totals = [sum(rewards) for rewards, _ in responses]
    groups = batch.group.tolist()
    go = []
    for rewards, _ in responses:
        T = len(rewards)
        go.append([sum(GAMMA ** (s - t) * rewards[s] for s in range(t, T)) for t in range(T)])
    mean_go = sum(map(sum, go)) / sum(map(len, go))
    actual = []
    for index, (rewards, values) in enumerate(responses):
        own = [total for total, g in zip(totals, groups, strict=True) if g == groups[index]]
        mean = sum(own) / len(own)
        if name == "divergence":
            actual.append(rewards)
        elif name == "group_normalized":
            deviation = math.sqrt(sum((r - mean) ** 2 for r in own) / (len(own) - 1))
            actual.append([(totals[index] - mean) / (deviation + 1e-6)] * len(rewards))
        elif name == "group_centered":
            actual.append([totals[index] - mean] * len(rewards))
        elif name == "leave_one_out":
            others = (sum(own) - totals[index]) / (len(own) - 1)
            actual.append([totals[index] - others] * len(rewards))
        elif name == "mean_normalized":
            above = mean - min(own)
            actual.append([(totals[index] - mean) / above] * len(rewards))
        elif name == "return":
            actual.append(go[index])
        elif name == "batch_baseline":
            actual.append([value - mean_go for value in go[index]])
        elif name == "right_only":
            actual.append([float(batch.is_correct[index])] * len(rewards))
        elif name == "one":
            actual.append([1.0] * len(rewards))
        else:
            decay = GAMMA * LAM
            T = len(rewards)
            delta = [rewards[t] + GAMMA * values[t + 1] - values[t] for t in range(T)]
            actual.append([sum(decay ** (s - t) * delta[s] for s in range(t, T)) for t in range(T)])
    return actual


@pytest.mark.parametrize("name", ADVANTAGES)
def test_every_advantage_equals_its_loop(name):
    rewards, batch = make_batch()
    actual = compute_advantages(rewards, batch, ADVANTAGES[name])
    for row, expected in enumerate(slow(name, rewards, batch)):
        assert actual[row, : len(expected)].tolist() == pytest.approx(expected, abs=1e-10)
        assert bool((actual[row, len(expected) :] == 0).all())


@pytest.mark.parametrize("name", ADVANTAGES)
def test_padding_and_order_change_no_advantage(name):
    rewards, batch = make_batch()
    kind = ADVANTAGES[name]
    actual = compute_advantages(rewards, batch, kind)
    padded = compute_advantages(*make_batch(extra=5), kind)
    torch.testing.assert_close(padded[:, :6], actual, atol=1e-12, rtol=0)
    order = [3, 0, 4, 1, 2]
    shuffled = compute_advantages(rewards[order], batch.only(order), kind)
    torch.testing.assert_close(shuffled, actual[order], atol=1e-12, rtol=0)


def test_whitening_counts_the_mask_alone():
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]).double()
    values = torch.tensor([[1.0, 3.0, 99.0], [5.0, 99.0, 99.0]]).double()
    # 1, 3, 5: mean 3, n-1 deviation 2
    assert whiten(values, mask).flatten().tolist() == pytest.approx([-1, 0, 0, 1, 0, 0], abs=1e-7)


def test_whitening_needs_two_tokens():
    pair = torch.tensor([[1.0, 3.0]])
    expected = [-(0.5**0.5), 0.5**0.5]
    assert whiten(pair, torch.ones(1, 2))[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert whiten(pair, torch.tensor([[1.0, 0.0]])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.2, [5]), (0.21, [5, 4]), (0.4, [5, 4]), (0.6, [5, 4, 2, 3]), (0.99, [5, 4, 2, 3, 1])],
)
def test_only_tokens_of_the_highest_entropy_keep_their_advantage(share, kept):
    # Five tokens in the mask of entropies 0.1, 0.3, 0.3 (alike), 0.7, 0.9; the padding's is higher.
    mask = tensor(1, 1, 1, 0, 1, 1, 0).reshape(1, 7)
    entropy = tensor(0.1, 0.3, 0.3, 5.0, 0.7, 0.9, 5.0).reshape(1, 7)
    advantages = tensor(1, 2, 3, 0, 4, 5, 0).reshape(1, 7)
    actual = top_entropy_only(advantages, entropy, mask, share)
    assert actual.tolist()[0] == [value if value in kept else 0.0 for value in advantages[0]]


@pytest.mark.parametrize(("share", "tokens", "kept"), [(0.07, 100, 7), (0.14, 50, 7), (0.2, 5, 1)])
def test_a_share_that_is_a_whole_number_of_tokens_keeps_so_many(share, tokens, kept):
    # In binary 0.07 x 100 is 7.000000000000001, whose ceiling is 8.
    entropy = torch.arange(tokens, dtype=torch.float64).reshape(1, tokens)
    ones = torch.ones_like(entropy)
    assert top_entropy_only(ones, entropy, ones, share).sum() == kept


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_length_adaptive_lambda_by_hand_and_the_critics_own(alpha):
    """Policy: sums of deltas with lambda 1 - 1/(alpha l). Critic, lambda 1: true returns."""
    _, batch = make_batch()
    critic = Critic(lam=1.0)
    algo = Algorithm(advantage=Gae(gamma=GAMMA, lam=0.123, alpha=alpha, critic=critic))
    actual = with_advantages(batch, algo, 0.0)
    rewards = torch.zeros_like(batch.mask)
    for row, end in enumerate(batch.mask.sum(1).int().tolist()):
        rewards[row, end - 1] = batch.reward[row]
    for row, (earned, values) in enumerate(rows_of(rewards, batch)):
        T = len(earned)
        lam = max(0.0, 1 - 1 / (alpha * T))
        delta = [earned[t] + GAMMA * values[t + 1] - values[t] for t in range(T)]
        for t in range(T):
            expected = sum((GAMMA * lam) ** i * delta[t + i] for i in range(T - t))
            assert float(actual.advantages[row, t]) == pytest.approx(expected, abs=1e-12)
            returned = sum(GAMMA**i * earned[t + i] for i in range(T - t))
            returned += GAMMA ** (T - t) * values[T]
            assert float(actual.returns[row, t]) == pytest.approx(returned, abs=1e-12)
    assert bool((actual.returns[batch.mask == 0] == 0).all())


def test_length_adaptive_lambda_at_the_papers_alpha():
    mask = (torch.arange(400)[None] < torch.tensor([[10], [20], [40], [200], [400]])).double()
    actual = length_adaptive_lambda(mask, 0.05)
    assert actual.tolist() == pytest.approx([0, 0, 0.5, 0.9, 0.95])


def test_a_critic_without_a_lambda_learns_the_policys_returns():
    _, batch = make_batch()
    actual = with_advantages(batch, Algorithm(advantage=Gae(lam=0.7)), 0.0)
    torch.testing.assert_close(actual.returns, actual.advantages + batch.old_values)
