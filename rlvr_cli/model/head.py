"""The output layer of a plain head, a chunk of rows at a time, in float32 at least.

`torch.nn.functional.linear_cross_entropy` (torch 2.13) holds as little, but it gives no entropy and
rounds what it gives to the type of the hidden states: 0.004 of a log-probability of 1 in bfloat16.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from rlvr_cli.model.compiling import compiled


@dataclass(frozen=True)
class Head:
    """How the output layer is computed."""

    vocab_size: int
    """Ids from here on have no probability."""
    temperature: float
    rows: int
    """Tokens whose logits are held at once."""
    entropy: bool
    """Whether it is asked for; else it is 0."""
    entropy_gradient: bool
    compiles: bool = False

    def run(self, function: Any) -> Any:
        """Return the function, compiled if asked."""
        return _compiled(function) if self.compiles else function


_compiled = cache(compiled)


class ChunkedHead(torch.autograd.Function):
    """Log-probabilities and entropies [N] of the targets [N], from hidden states [N, H].

    No logits are kept: the backward pass computes them again. The gradient of the weights is summed
    over the chunks in float32 and rounded once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_NH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        target_N: torch.Tensor,
        head: Head,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(states_NH, weight_VH, bias_V, target_N)
        ctx.head, figures = head, head.run(chunk_figures)
        chunks = zip(states_NH.split(head.rows), target_N.split(head.rows), strict=True)
        parts = [figures(states, weight_VH, bias_V, target, head) for states, target in chunks]
        logprobs_N, entropy_N = (torch.cat(figures) for figures in zip(*parts, strict=True))
        if not head.entropy_gradient:
            ctx.mark_non_differentiable(entropy_N)
        return logprobs_N, entropy_N

    @staticmethod
    def backward(
        ctx: Any, of_logprob_N: torch.Tensor, of_entropy_N: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        states_NH, weight_VH, bias_V, target_N = ctx.saved_tensors
        head, V = ctx.head, ctx.head.vocab_size
        exact = torch.promote_types(states_NH.dtype, torch.float32)
        of_states = torch.empty_like(states_NH)
        of_weight = torch.zeros_like(weight_VH, dtype=exact) if ctx.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias_V, dtype=exact) if ctx.needs_input_grad[2] else None
        for start in range(0, len(states_NH), head.rows):
            rows = slice(start, start + head.rows)
            of_logits = head.run(chunk_gradient)(
                states_NH[rows],
                weight_VH,
                bias_V,
                target_N[rows],
                of_logprob_N[rows, None],
                of_entropy_N[rows, None],
                head,
            )
            if of_bias is not None:
                of_bias[:V] += of_logits.sum(0)
            of_logits = of_logits.to(states_NH.dtype)
            of_states[rows] = of_logits @ weight_VH[:V]
            if of_weight is not None:
                of_weight[:V] += product(of_logits.T, states_NH[rows])
        return of_states, of_weight, of_bias, None, None


def logits_of(
    states_NH: torch.Tensor, weight_VH: torch.Tensor, bias_V: torch.Tensor | None, head: Head
) -> torch.Tensor:
    """Compute logits [N, V] at the temperature, in float32 at least."""
    logits = product(states_NH, weight_VH[: head.vocab_size].T)
    if bias_V is not None:
        logits += bias_V[: head.vocab_size]
    return logits if head.temperature == 1 else logits.div_(head.temperature)


def chunk_figures(
    states_NH: torch.Tensor,
    weight_VH: torch.Tensor,
    bias_V: torch.Tensor | None,
    target_N: torch.Tensor,
    head: Head,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log p(target) [N] and the entropy [N] of a chunk, from its hidden states."""
    logits_NV = logits_of(states_NH, weight_VH, bias_V, head)
    return token_figures(logits_NV, target_N, head.entropy)


def token_figures(
    logits_NV: torch.Tensor, target_N: torch.Tensor, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log p(target) [N] and the entropy -sum p log p [N], 0 unless asked for."""
    logprobs_NV = torch.log_softmax(logits_NV, -1)
    chosen_N = logprobs_NV.gather(-1, target_N[:, None])[:, 0]
    if not entropy:
        return chosen_N, torch.zeros_like(chosen_N)
    return chosen_N, -(logprobs_NV.exp() * logprobs_NV).sum(-1)


def chunk_gradient(
    states_NH: torch.Tensor,
    weight_VH: torch.Tensor,
    bias_V: torch.Tensor | None,
    target_N: torch.Tensor,
    of_logprob_N1: torch.Tensor,
    of_entropy_N1: torch.Tensor,
    head: Head,
) -> torch.Tensor:
    """Return the gradient of a chunk's logits [N, V]: of log p(target) it is 1[target] - p, and of
    the entropy H it is -p (log p + H), both over the temperature."""
    logits_NV = logits_of(states_NH, weight_VH, bias_V, head)
    p_NV, of_entropy = torch.softmax(logits_NV, -1), None
    if head.entropy_gradient:
        logprobs_NV = torch.log_softmax(logits_NV, -1)
        entropy_N1 = -(p_NV * logprobs_NV).sum(-1, keepdim=True)
        of_entropy = of_entropy_N1 * p_NV * (logprobs_NV + entropy_N1)
    gradient = p_NV.mul_(-of_logprob_N1).scatter_add_(-1, target_N[:, None], of_logprob_N1)
    if of_entropy is not None:
        gradient -= of_entropy
    return gradient if head.temperature == 1 else gradient.div_(head.temperature)


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices of one type, and give numbers of 16 bits a sum in float32."""
    if torch.finfo(left.dtype).bits > 16:
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()
