"""On-policy distillation, from the teacher's log-probabilities to the gradient, against numpy."""

import numpy as np
import pytest
import torch
from small_groups import RIGHT, WRONG, made_group
from small_samples import Row, samples_of

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.group_filter import trains, with_signal
from rlvr_cli.algorithm.loss import policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs
from rlvr_cli.algorithm.samples import Samples, to_samples

OPD = ALGORITHMS["opd"]
LENGTHS = (4, 1, 6)


def made(seed: int = 0) -> tuple[Samples, np.ndarray, np.ndarray]:
    """Three responses to three problems, with the policy's and the teacher's log-probabilities."""
    rng = np.random.default_rng(seed)
    old, teacher = -rng.exponential(1.0, (2, len(LENGTHS), max(LENGTHS)))
    inside = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    old, teacher = old * inside, teacher * inside
    rows = [
        Row([2], [3] * n, reward=rng.normal(), group=i, old_logprobs=old[i, :n], ref_logprobs=r[:n])
        for i, (n, r) in enumerate(zip(LENGTHS, teacher, strict=True))
    ]
    return samples_of(rows), old, teacher


def test_the_signal_is_the_teacher_less_the_policy_whatever_the_reward():
    samples, old, teacher = made()
    actual = with_advantages(samples, OPD, OPD.kl.coef).advantages.numpy()
    np.testing.assert_allclose(actual, teacher - old, rtol=0, atol=1e-12)


@pytest.mark.parametrize("moved", [0.0, 0.05, 1.0])
def test_the_gradient_is_that_of_the_ratio_times_the_signal_within_the_bound(moved):
    """0.05 leaves every ratio within 0.8 to 1.2; 1.0 puts some beyond, on both sides."""
    samples, old, teacher = made()
    mask = samples.mask.numpy()
    tokens = sum(LENGTHS)
    logprobs = old + moved * np.random.default_rng(1).uniform(-1, 1, old.shape) * mask
    signal = teacher - old
    ratio = np.exp(logprobs - old)
    stopped = np.where(signal > 0, ratio > 1.2, ratio < 0.8) & (mask > 0)
    assert stopped.any() == (moved == 1)
    bounded = np.where(signal > 0, np.minimum(ratio, 1.2), np.maximum(ratio, 0.8))
    expected = -np.where(stopped, 0, ratio * signal * mask) / tokens
    leaf = torch.tensor(logprobs, requires_grad=True)
    samples = with_advantages(samples, OPD, OPD.kl.coef)
    columns = (samples.old_logprobs, samples.old_logprobs, samples.ref_logprobs, samples.advantages)
    zero = torch.zeros_like(leaf)
    inputs = LossInputs(leaf, zero, *columns, samples.mask, zero)
    loss, per_token = policy_loss(OPD, inputs, LossDenominators(tokens, 3, 9), OPD.kl.coef)
    loss.backward()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=0, atol=1e-12)
    assert loss.item() == pytest.approx(-(bounded * signal * mask).sum() / tokens, abs=1e-12)
    np.testing.assert_allclose(per_token.clip_fraction.numpy(), stopped, atol=0)
    np.testing.assert_allclose(per_token.ref_kl.numpy(), old - teacher, rtol=0, atol=1e-12)


def test_responses_without_a_verdict_train_too_and_a_group_of_one():
    groups = [made_group("a", None), made_group("b", RIGHT), made_group("c", WRONG)]
    assert all(trains(group, OPD) for group in groups)
    assert len(with_signal(groups, OPD, 10)) == len(to_samples(groups, OPD, 10, 0)) == 3
