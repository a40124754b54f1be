"""The output layer in chunks beside the plain form, its numbers of 16 bits, what it holds."""

import pytest
import torch
from torch.distributions import Categorical
from torch.utils._python_dispatch import TorchDispatchMode

from rlvr_cli.model.head import ChunkedHead, Head, product

N = 11
H = 6
V = 40
KNOWN = 37


def inputs(dtype=torch.float64, tokens=N):
    torch.manual_seed(0)
    shapes = ((tokens, H), (V, H), (V,))
    states, weight, bias = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return states, weight, bias, torch.randint(KNOWN, (tokens,))


@pytest.mark.parametrize("rows", [1, 4, 11])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("entropy_gradient", [True, False])
def test_chunks_are_the_plain_form_and_its_gradient(rows, has_bias, entropy_gradient):
    states, weight, bias, target = inputs()
    parameters = (states, weight, *([bias] if has_bias else []))
    distribution = Categorical(logits=((states @ weight.T + bias * has_bias) / 0.7)[:, :KNOWN])
    expected = distribution.log_prob(target), distribution.entropy()
    head = Head(KNOWN, 0.7, rows, True, entropy_gradient)
    actual = ChunkedHead.apply(states, weight, bias if has_bias else None, target, head)
    assert actual[1].requires_grad == entropy_gradient
    upstream = torch.sin(torch.arange(2 * N)).double().reshape(2, N)
    upstream[1] *= entropy_gradient
    totals = [
        sum((weights * values).sum() for weights, values in zip(upstream, pair, strict=True))
        for pair in (actual, expected)
    ]
    gradients = [torch.autograd.grad(total, parameters) for total in totals]
    for ours, reference in zip((*actual, *gradients[0]), (*expected, *gradients[1]), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-12, atol=1e-12)


def test_frozen_weights_get_no_gradient_and_no_memory():
    states, weight, bias, target = inputs()
    actual, _ = ChunkedHead.apply(
        states, weight.detach(), None, target, Head(V, 1, 4, False, False)
    )
    actual.sum().backward()
    assert states.grad.any()
    assert weight.grad is None
    assert bias.grad is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 600])
def test_numbers_of_16_bits_have_logits_in_float32_and_a_gradient_that_is_rounded_once(dtype, rows):
    """Rounded logits are 0.01 off; gradients rounded in each of 600 chunks lose what is small."""
    states, weight, _, target = inputs(dtype, 600)
    eps = torch.finfo(dtype).eps
    reference = [tensor.detach().double().requires_grad_() for tensor in (states, weight)]
    expected = (reference[0] @ reference[1].T).log_softmax(-1).gather(-1, target[:, None])[:, 0]
    actual, _ = ChunkedHead.apply(states, weight, None, target, Head(V, 1.0, rows, False, False))
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=1e-5)
    rounded = (states @ weight.T).float().log_softmax(-1).gather(-1, target[:, None])[:, 0]
    assert (rounded - expected).abs().max() > 0.6 * eps
    for total in (actual.sum(), expected.sum()):
        total.backward()
    for tensor, exact, roundings in ((states, reference[0], 3), (weight, reference[1], 0.5)):
        assert tensor.grad.dtype == dtype
        error = (tensor.grad - exact.grad).abs().max()
        assert error < roundings * eps * exact.grad.abs().max()


def operations(rows):
    """What a pass over 12 tokens in bfloat16 does, forward and backward: (operation, result)."""
    states, weight, _, target = inputs(torch.bfloat16, 12)
    completed = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            completed.append((function.overloadpacket.__name__, result))
            return result

    with Recorder():
        actual, _ = ChunkedHead.apply(states, weight, None, target, Head(V, 1.0, rows, True, False))
        actual.sum().backward()
    return completed


@pytest.mark.parametrize(("rows", "products"), [(12, 1), (4, 6)])
def test_a_cpu_converts_the_weights_once_and_keeps_the_logits_of_one_chunk(rows, products):
    """Three chunks have their logits computed forward and backward."""
    completed = operations(rows)
    logits = [name for name, result in completed if name == "mm" and result.dtype == torch.float32]
    assert len(logits) == products
    conversions = [
        name for name, result in completed if name == "_to_copy" and result.shape == (V, H)
    ]
    assert conversions == ["_to_copy"] * 2  # the weights, and at last the rounded gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_in_full_precision_is_the_plain_one(dtype):
    left, right = torch.randn(3, 4, dtype=dtype), torch.randn(4, 5, dtype=dtype)
    assert torch.equal(product(left, right), left @ right)


def test_nothing_larger_than_a_chunk_of_logits_is_ever_made():
    """1,024 tokens of 900 ids, 4 rows at a time; states and weights have 6,144 and 5,400."""
    largest = [0]

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            allocations = function(*args, **(kwargs or {}))
            largest[0] = max(
                largest[0], allocations.numel() if isinstance(allocations, torch.Tensor) else 0
            )
            return allocations

    states = torch.randn(1024, H, requires_grad=True)
    weight, target = torch.randn(900, H, requires_grad=True), torch.zeros(1024, dtype=torch.long)
    with Largest():
        actual, _ = ChunkedHead.apply(states, weight, None, target, Head(900, 1.0, 4, True, False))
        actual.sum().backward()
    assert largest[0] == 1024 * H
