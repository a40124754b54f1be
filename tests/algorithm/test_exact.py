"""Corrections, rows and terms of 2026 against numpy, a token at a time: value and gradient within
1e-12, at values on both sides of every bound."""

import numpy as np
import pytest
import torch

from rlvr_cli.algorithm.advantage import compute_advantages, mean_normalized
from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import (
    GeometricMask,
    GroupNormalized,
    MaskedWeights,
    SequenceMask,
    TruncatedWeights,
)
from rlvr_cli.algorithm.loss import policy_loss, rejected
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs
from rlvr_cli.algorithm.samples import Samples

LENGTHS = (1, 4, 2, 6, 3, 5, 2, 3)
RNG = np.random.default_rng(7)
COLUMNS = {
    name: [RNG.normal(-1.2, spread, length) for length in LENGTHS]
    for name, spread in (("logprobs", 1.0), ("old", 0.3), ("rollout", 0.3))
}
COLUMNS["advantages"] = [np.full(length, RNG.normal()) for length in LENGTHS]
RIGHT = [row[0] > 0 for row in COLUMNS["advantages"]]
TRUNCATE, MASK = TruncatedWeights(cap=1.3), MaskedWeights(low=0.7, high=1.4)


def padded(rows: list[np.ndarray]) -> torch.Tensor:
    filled = np.zeros((len(LENGTHS), max(LENGTHS)))
    for target, row in zip(filled, rows, strict=True):
        target[: len(row)] = row
    return torch.from_numpy(filled)


def ours(algo: Algorithm, kl_coef: float = 0.0) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, its gradient by log-probabilities, and where a bound took the gradient away."""
    mask = padded([np.ones(length) for length in LENGTHS])
    logprobs = padded(COLUMNS["logprobs"]).requires_grad_()
    zero, is_right = torch.zeros_like(mask), torch.tensor(RIGHT)[:, None] * mask
    columns = (padded(COLUMNS[name]) for name in ("old", "rollout"))
    inputs = LossInputs(
        logprobs, zero, *columns, zero, padded(COLUMNS["advantages"]), mask, is_right
    )
    right = sum(length for length, right in zip(LENGTHS, RIGHT, strict=True) if right)
    sums = LossDenominators(sum(LENGTHS), len(LENGTHS), 9, right)
    loss, per_token = policy_loss(algo, inputs, sums, kl_coef)
    loss.backward()
    return loss.item(), logprobs.grad.numpy(), per_token["clip_fraction"].numpy()


def weight(correction, w: np.ndarray, t: int) -> float:
    """The weight of token t of a response whose tokens have weights w."""
    product, mean = np.prod(w), np.prod(w) ** (1 / len(w))
    match correction.kind:
        case "truncate":
            return min(w[t], correction.cap)
        case "mask":
            return w[t] if correction.low <= w[t] <= correction.high else 0.0
        case "sequence_truncate":
            return min(product, correction.cap)
        case "sequence_mask":
            return product if correction.low <= product <= correction.high else 0.0
    if not correction.low <= mean <= correction.high:
        return 0.0
    return 1.0 if correction.weight is None else weight(correction.weight, w, t)


CORRECTIONS = [
    TRUNCATE,
    MASK,
    TruncatedWeights(kind="sequence_truncate", cap=1.3),
    SequenceMask(low=0.5, high=1.9),
    GeometricMask(low=0.75, high=1.2),
    GeometricMask(low=0.75, high=1.2, weight=TRUNCATE),
    GeometricMask(low=0.75, high=1.2, weight=MASK),
]


@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_a_correction_weighs_every_token_as_its_equation_says(correction):
    loss, gradient, _ = ours(Algorithm(importance_correction=correction))
    expected, slopes, weights = 0.0, np.zeros_like(gradient), set()
    for i, length in enumerate(LENGTHS):
        new, old, rollout, advantages = (COLUMNS[name][i] for name in COLUMNS)
        for t in range(length):
            of_token = weight(correction, np.exp(old - rollout), t)
            weights.add(of_token == np.exp(old - rollout)[t])
            ratio, A = np.exp(new[t] - old[t]), advantages[t]
            surrogate = min(ratio * A, np.clip(ratio, 0.8, 1.2) * A)
            expected -= of_token * surrogate / sum(LENGTHS)
            is_free = ratio < 1.2 if A > 0 else ratio > 0.8
            slopes[i, t] = -of_token * ratio * A * is_free / sum(LENGTHS)
    assert loss == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(gradient, slopes, atol=1e-12, rtol=0)
    assert (slopes != 0).any()


@pytest.mark.parametrize("correction", CORRECTIONS[3:], ids=str)
def test_a_rejected_response_has_no_weight_and_the_others_have_one(correction):
    columns = {
        "old_logprobs": padded(COLUMNS["old"]),
        "rollout_logprobs": padded(COLUMNS["rollout"]),
    }
    samples = Samples(
        *([[0]] * len(LENGTHS) for _ in range(3)),
        *(torch.zeros(len(LENGTHS)) for _ in range(5)),
        mask=padded([np.ones(length) for length in LENGTHS]),
        token_figures=torch.zeros(1),
        **columns,
    )
    gone = rejected(samples, Algorithm(importance_correction=correction))
    expected = []
    for old, rollout in zip(COLUMNS["old"], COLUMNS["rollout"], strict=True):
        figure = np.exp((old - rollout).sum())
        figure = figure if correction.kind == "sequence_mask" else figure ** (1 / len(old))
        expected.append(not correction.low <= figure <= correction.high)
    assert gone.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert rejected(samples, Algorithm(importance_correction=TRUNCATE)) is None


def test_dppo_bounds_the_move_of_a_probability():
    row = ALGORITHMS["dppo"]
    loss, gradient, masked = ours(row, row.kl.coef)
    expected, slopes, where = 0.0, np.zeros_like(gradient), np.zeros_like(gradient)
    for i, length in enumerate(LENGTHS):
        new, old, _, advantages = (COLUMNS[name][i] for name in COLUMNS)
        for t in range(length):
            A, rise, ratio = advantages[t], np.exp(new[t]) - np.exp(old[t]), np.exp(new[t] - old[t])
            where[i, t] = (A > 0 and rise > 0.2) or (A < 0 and -rise > 0.2)
            moved = new[t] - old[t]
            expected += 1e-3 * moved**2 - (0.0 if where[i, t] else ratio * A)
            slopes[i, t] = 2e-3 * moved - (0.0 if where[i, t] else ratio * A)
    assert loss == pytest.approx(expected / sum(LENGTHS), abs=1e-12)
    np.testing.assert_allclose(gradient, slopes / sum(LENGTHS), atol=1e-12, rtol=0)
    assert (masked == where).all()
    signs = {
        np.sign(row[0]) for row, hit in zip(COLUMNS["advantages"], where.any(1), strict=True) if hit
    }
    assert signs == {-1, 1}
    assert where.sum() < sum(LENGTHS) / 2
    assert row.old_logprobs == "engine"


def test_right_responses_can_have_a_likelihood_beside_the_loss():
    plain, slopes, _ = ours(Algorithm())
    loss, gradient, _ = ours(Algorithm(positive_nll=0.1))
    right = [row for row, right in zip(COLUMNS["logprobs"], RIGHT, strict=True) if right]
    tokens = sum(map(len, right))
    assert 0 < len(right) < len(RIGHT)
    assert loss == pytest.approx(plain - 0.1 * np.concatenate(right).sum() / tokens, abs=1e-12)
    for i, length in enumerate(LENGTHS):
        slopes[i, :length] -= 0.1 / tokens * RIGHT[i]
    np.testing.assert_allclose(gradient, slopes, atol=1e-12, rtol=0)


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
        token_figures=torch.zeros(B),
        terms=None if terms is None else torch.from_numpy(terms),
    )


def test_the_deviation_can_be_that_of_the_batch():
    r, groups = RNG.normal(size=6), np.array([0, 1, 0, 1, 1, 0])
    means = np.array([r[groups == item].mean() for item in groups])
    expected = (r - means) / (np.sqrt(((r - r.mean()) ** 2).sum() / 5) + 1e-6)
    by_batch = GroupNormalized(deviation="batch")
    actual = compute_advantages(torch.from_numpy(r)[:, None], batch_of(groups.tolist()), by_batch)
    np.testing.assert_allclose(actual[:, 0].numpy(), expected, atol=1e-12, rtol=0)


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
