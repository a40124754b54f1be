"""The output layer of a plain model, a chunk of rows at a time, in float32 at least.

`torch.nn.functional.linear_cross_entropy` (torch 2.13) holds as little, but it gives no entropy and
rounds its result to the type of the hidden states, which is 0.004 of a log-probability of 1 in
bfloat16.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.model.compiling import P, T, compiled


@dataclass(frozen=True)
class Head:
    """How the output layer is computed."""

    vocab_size: int
    """Ids from here on (a padded output layer) have no probability."""
    temperature: float
    rows: int
    """Tokens whose logits are held at once."""
    entropy: bool
    """Whether to compute the entropy, which is 0 otherwise."""
    entropy_gradient: bool
    compiles: bool = False

    def run(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function, compiled if `compiles`."""
        return _compiled(function) if self.compiles else function


_compiled = cache(compiled)


class ChunkedHead(torch.autograd.Function):
    """Log-probabilities and entropies [N] of the targets [N], from hidden states [N, H].

    The backward pass computes the logits again, but for a single chunk on a CPU, whose logits it
    keeps. The gradient of the weights is summed over the chunks in float32 and rounded once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        head: Head,
    ) -> tuple[Tensor, Tensor]:
        ctx.head = head
        factor_VH = as_factor(weight_VH)
        logits_NV = None
        if len(states_NH) <= head.rows and not states_NH.is_cuda:
            logits_NV = compute_logits(states_NH, factor_VH, bias_V, head)
            logprobs_N, entropy_N = token_figures(logits_NV, target_N, head.entropy)
        else:
            chunks = zip(states_NH.split(head.rows), target_N.split(head.rows), strict=True)
            figures = [
                head.run(chunk_figures)(states, factor_VH, bias_V, target, head)
                for states, target in chunks
            ]
            logprobs_N, entropy_N = (torch.cat(parts) for parts in zip(*figures, strict=True))
        ctx.save_for_backward(states_NH, weight_VH, factor_VH, bias_V, target_N, logits_NV)
        if not head.entropy_gradient:
            ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(
        ctx: Any, grad_logprob_N: Tensor, grad_entropy_N: Tensor
    ) -> tuple[Tensor | None, ...]:
        states_NH, weight_VH, factor_VH, bias_V, target_N, logits_NV = ctx.saved_tensors
        head = ctx.head
        V = head.vocab_size
        sum_dtype = torch.promote_types(states_NH.dtype, torch.float32)
        grad_states_NH = torch.empty_like(states_NH)
        grad_weight_VH = grad_bias_V = None
        if ctx.needs_input_grad[1]:
            grad_weight_VH = torch.zeros_like(weight_VH, dtype=sum_dtype)
        if ctx.needs_input_grad[2]:
            grad_bias_V = torch.zeros_like(bias_V, dtype=sum_dtype)
        for start in range(0, len(states_NH), head.rows):
            rows = slice(start, start + head.rows)
            grad_logits_NV = head.run(chunk_gradient)(
                states_NH[rows],
                factor_VH,
                bias_V,
                target_N[rows],
                grad_logprob_N[rows, None],
                grad_entropy_N[rows, None],
                head,
                logits_NV,
            )
            if grad_bias_V is not None:
                grad_bias_V[:V] += grad_logits_NV.sum(0)
            rounded_NV = grad_logits_NV.to(states_NH.dtype)
            grad_states_NH[rows] = rounded_NV @ weight_VH[:V]
            if grad_weight_VH is None:
                continue
            if states_NH.is_cuda:
                grad_weight_VH[:V] += product(rounded_NV.T, states_NH[rows])
            else:  # in place, and without rounding what it would have to convert back
                grad_weight_VH[:V].addmm_(grad_logits_NV.T, states_NH[rows].to(sum_dtype))
        return grad_states_NH, grad_weight_VH, grad_bias_V, None, None


def compute_logits(
    states_NH: Tensor, factor_VH: Tensor, bias_V: Tensor | None, head: Head
) -> Tensor:
    """Compute logits [N, V] at the temperature, in float32 at least.

    The weights are as `as_factor` returns them.
    """
    logits_NV = product(states_NH, factor_VH[: head.vocab_size].T)
    if bias_V is not None:
        logits_NV += bias_V[: head.vocab_size]
    return logits_NV if head.temperature == 1 else logits_NV.div_(head.temperature)


def chunk_figures(
    states_NH: Tensor,
    factor_VH: Tensor,
    bias_V: Tensor | None,
    target_N: Tensor,
    head: Head,
) -> tuple[Tensor, Tensor]:
    """Return log p(target) [N] and the entropy [N] of a chunk, from its hidden states."""
    logits_NV = compute_logits(states_NH, factor_VH, bias_V, head)
    return token_figures(logits_NV, target_N, head.entropy)


def token_figures(logits_NV: Tensor, target_N: Tensor, entropy: bool) -> tuple[Tensor, Tensor]:
    """Return log p(target) [N] and the entropy -sum p log p [N], or 0 without `entropy`."""
    logprobs_NV = torch.log_softmax(logits_NV, -1)
    target_logprob_N = logprobs_NV.gather(-1, target_N[:, None])[:, 0]
    if not entropy:
        return target_logprob_N, torch.zeros_like(target_logprob_N)
    return target_logprob_N, -(logprobs_NV.exp() * logprobs_NV).sum(-1)


def chunk_gradient(
    states_NH: Tensor,
    factor_VH: Tensor,
    bias_V: Tensor | None,
    target_N: Tensor,
    grad_logprob_N1: Tensor,
    grad_entropy_N1: Tensor,
    head: Head,
    logits_NV: Tensor | None = None,
) -> Tensor:
    """Return the gradient of a chunk's logits [N, V], which are computed if none are given.

    That of log p(target) is 1[target] - p, and that of the entropy H is -p (log p + H), both over
    the temperature.
    """
    if logits_NV is None:
        logits_NV = compute_logits(states_NH, factor_VH, bias_V, head)
    p_NV = torch.softmax(logits_NV, -1)
    grad_by_entropy_NV = None
    if head.entropy_gradient:
        logprobs_NV = torch.log_softmax(logits_NV, -1)
        entropy_N1 = -(p_NV * logprobs_NV).sum(-1, keepdim=True)
        grad_by_entropy_NV = grad_entropy_N1 * p_NV * (logprobs_NV + entropy_N1)
    grad_NV = p_NV.mul_(-grad_logprob_N1).scatter_add_(-1, target_N[:, None], grad_logprob_N1)
    if grad_by_entropy_NV is not None:
        grad_NV -= grad_by_entropy_NV
    return grad_NV if head.temperature == 1 else grad_NV.div_(head.temperature)


def as_factor(weight_VH: Tensor) -> Tensor:
    """Return the weights in the type in which `product` reads them.

    A CPU has no product of numbers of 16 bits with a result in float32, and converting all weights
    for every chunk would cost a fifth of its product.
    """
    if weight_VH.is_cuda:
        return weight_VH
    return weight_VH.to(torch.promote_types(weight_VH.dtype, torch.float32))


def product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply two matrices, and sum numbers of 16 bits in float32."""
    is_half = torch.finfo(left.dtype).bits <= 16
    if is_half and left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    dtype = torch.promote_types(left.dtype, torch.float32)
    return left.to(dtype) @ right.to(dtype)
