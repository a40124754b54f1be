"""Estimators of the divergence, their gradients, and the coefficient that follows it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.algorithm.kl import bounded_log_ratio, doubling, k1, k2, k3, k3_k2, proportional


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_estimators_of_the_divergence():
    logprobs, other = tensor(-1.0, -1.0, -2.0), tensor(-1.0, -2.0, -1.0)
    assert k1(logprobs, other).tolist() == [0, 1, -1]
    assert k2(logprobs, other).tolist() == [0, 0.5, 0.5]
    expected = [0.0, math.exp(-1), math.e - 2]
    assert k3(logprobs, other).tolist() == pytest.approx(expected)
    assert k3_k2(logprobs, other).tolist() == pytest.approx(expected)


def test_k3_k2_has_the_gradient_of_k2():
    gradients = []
    for estimate in (k2, k3_k2, k3):
        logprobs = tensor(-1.0, -2.5).requires_grad_()
        estimate(logprobs, tensor(-2.0, -2.0)).sum().backward()
        gradients.append(logprobs.grad.tolist())
    assert gradients[0] == pytest.approx([1.0, -0.5])
    assert gradients[1] == pytest.approx(gradients[0])
    assert gradients[2] == pytest.approx([1 - math.exp(-1), 1 - math.exp(0.5)])


def test_the_gradients_of_k2_and_k3_against_the_true_divergence():
    # Over all tokens of one categorical policy, weighted by their probabilities: k2's expected
    # gradient is that of KL(pi|ref), k1's is 0 and k3's is another number.
    logits = tensor(0.3, -0.2, 1.1)
    ref = torch.log_softmax(tensor(1.0, 0.4, -0.5), 0)

    def gradient(of):
        leaf = logits.clone().requires_grad_()
        of(torch.log_softmax(leaf, 0)).backward()
        return leaf.grad

    truth = gradient(lambda lp: (lp.exp() * (lp - ref)).sum())

    def expected(k):
        return gradient(lambda lp: (lp.exp().detach() * k(lp, ref)).sum())

    torch.testing.assert_close(expected(k2), truth)
    torch.testing.assert_close(expected(k3_k2), truth)
    torch.testing.assert_close(expected(k1), torch.zeros(3).double(), atol=1e-12, rtol=0)
    assert not torch.allclose(expected(k3), truth, atol=1e-2)


def test_the_coefficient_follows_the_divergence():
    assert doubling(1.0, 0.16, 0.1) == 2.0
    assert doubling(1.0, 0.06, 0.1) == 0.5
    assert doubling(1.0, 0.1, 0.1) == 1.0
    assert proportional(1.0, 0.11, 0.1) == pytest.approx(1.01)
    assert proportional(1.0, 9.0, 0.1) == pytest.approx(1.02)
    assert proportional(1.0, 0.0, 0.1) == pytest.approx(0.98)


@given(st.floats(-1e6, 0), st.floats(-1e6, 0))
def test_what_is_never_negative_and_never_overflows(logprob, other):
    here, there = tensor(logprob), tensor(other)
    for estimate in (k2, k3, k3_k2):
        actual = estimate(here, there)
        assert actual >= 0
        assert torch.isfinite(actual)
    assert k1(here, there) == -k1(there, here)
    assert bounded_log_ratio(here - there) == max(-20, min(20, logprob - other))


@settings(max_examples=50)
@given(st.floats(1e-4, 10), st.floats(0, 10), st.floats(1e-3, 1))
def test_a_coefficient_rises_above_the_target_and_falls_below_it(coef, divergence, target):
    for control in (proportional, doubling):
        actual = control(coef, divergence, target)
        assert (actual - coef) * (divergence - target) >= -1e-15
        assert coef / 2 <= actual <= 2 * coef
    assert abs(proportional(coef, divergence, target) / coef - 1) <= 0.02 + 1e-9


def test_the_coefficient_rests_at_the_edges_of_its_band():
    assert doubling(1.0, 3.0, 2.0) == 1.0
    assert doubling(1.0, 2.0, 3.0) == 1.0
    assert proportional(3.0, 2.0, 2.0) == 3.0
