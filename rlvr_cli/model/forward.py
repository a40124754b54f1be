"""Choose how to run a model: packed or padded, and by which attention, with right results."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import TokenIds
from rlvr_cli.model.packing import ATTENTION, WINDOWS, ModelInputs, pack, pad
from rlvr_cli.ranks.group import full_tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EAGER = "eager"
"""Attention as it is written out in the model's own code."""
_FLOOR = 2e-5
"""The difference in nats that two right computations may have with any model."""
_ROUNDINGS = 30
"""The largest difference, in multiples of what one rounding of the embeddings causes."""
_CEILING = 0.05
"""The largest difference in nats, with any rounding."""
_ROUNDING_SAMPLES = 2
"""Samples on which the rounding is measured."""

Sample = tuple[TokenIds, TokenIds]
"""The token ids of a prompt and of a response to it."""


@dataclass(frozen=True)
class Forward:
    """A way to run the model, and how far its log-probabilities are from the model's own."""

    packed: bool
    """All prompts and responses are in one row, each prompt once. Else each response has a row."""
    attention: str
    plain_head: bool
    """The logits are the output layer's and nothing more (no soft cap, no scale)."""
    gap: float = 0.0
    """The largest difference from the model's own unpacked, unpadded pass, in nats."""
    rounding: float = 0.0
    """The change that a rounding of the embeddings causes, in nats."""
    rejections: str = ""
    """Why faster ways were rejected."""
    samples: Sequence[Sample] = field(default=(), repr=False)
    """The samples on which it was tried."""

    def __str__(self) -> str:
        layout = "packed" if self.packed else f"padded, which is slower ({self.rejections})"
        return (
            f"its responses run {layout}; log-probabilities within {self.gap:.1g} nats of the "
            f"model's own, whose rounding is {self.rounding:.1g}"
        )


PACKED = Forward(packed=True, attention=ATTENTION, plain_head=True)


def hidden_states(body: Module, inputs: ModelInputs) -> Tensor:
    """Compute the last hidden state of every token, [N, H], padding included."""
    if inputs.layout is None:
        output = body(
            input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, use_cache=False
        )
    else:
        # A mask that looks finished keeps the model from making one; `packed_attention` has its
        # own.
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=inputs.input_ids.device)
        output = body(
            input_ids=inputs.input_ids,
            attention_mask=mask,
            position_ids=inputs.position_ids,
            layout=inputs.layout,
            use_cache=False,
        )
    states_NH: Tensor = output.last_hidden_state.flatten(0, 1)
    return states_NH


def head_logits(model: "PreTrainedModel", hidden_N: Tensor, is_plain: bool) -> Tensor:
    """Compute logits [N, V] of hidden states [N, H].

    Unless `is_plain`, the model computes them, with the scaling that its code has.
    """
    if is_plain:
        return F.linear(hidden_N, *head_weights(model, hidden_N.dtype))
    output = _BodyOutput((hidden_N[None],))
    ids = torch.zeros(1, len(hidden_N), dtype=torch.long, device=hidden_N.device)
    with patch.object(model.base_model, "forward", lambda *_, **__: output):
        logits_NV: Tensor = model(input_ids=ids, use_cache=False).logits[0]
    return logits_NV


def head_weights(model: "PreTrainedModel", dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Return the weight and the bias (or None) of the output layer in this type."""
    head = model.get_output_embeddings()
    bias = None if head.bias is None else full_tensor(head.bias).to(dtype)
    return full_tensor(head.weight).to(dtype), bias


def choose_forward(
    model: "PreTrainedModel", vocab_size: int, samples: Sequence[Sample], context: int
) -> Forward:
    """Return the fastest way to run the model that gives its own log-probabilities on `samples`.

    Its own are those of one unpadded row at a time with the attention that its code writes out.
    Others may differ by what the model's rounding explains. A model is not packed if it has a
    window of attention shorter than `context`. The model is left with the attention that was
    chosen. Raises UserError if no way is right, or if the model's numbers are not finite.
    """
    initial_attention = model.config._attn_implementation
    samples = [(list(prompt), list(response)) for prompt, response in samples]
    _set_attention(model, EAGER)
    expected = own_logprobs(model, vocab_size, samples)
    if not torch.isfinite(expected).all():
        raise UserError(
            f"{type(model).__name__} gives probabilities that are not finite: its weights are "
            "damaged or not for this version of transformers"
        )
    with model.get_input_embeddings().register_forward_hook(_rounded):
        rounded = own_logprobs(model, vocab_size, samples[:_ROUNDING_SAMPLES])
    rounding = float((rounded - expected[: len(rounded)]).abs().max())
    tolerance = min(_FLOOR + _ROUNDINGS * rounding, _CEILING)
    is_plain = _has_plain_head(model, samples[0][0])
    prompts, responses = zip(*samples, strict=True)
    weight = model.get_output_embeddings().weight
    failures: list[str] = []
    candidates = [(True, initial_attention), (False, initial_attention), (False, EAGER)]
    for packed, attention in dict.fromkeys(candidates):
        name = f"packed, {attention}" if packed else f"padded, {attention}"
        _set_attention(model, attention)
        lay_out = pack if packed else pad
        inputs = lay_out(prompts, responses, weight.device, weight.dtype)
        WINDOWS.clear()
        try:
            with torch.no_grad():
                states_N = inputs.predicting(hidden_states(model.base_model, inputs))
                logits = head_logits(model, states_N, is_plain)
        except Exception as error:  # whatever a model does with what it does not know
            failures.append(f"{name}: {type(error).__name__}")
            continue
        if packed and any(window < context for window in WINDOWS):
            failures.append(f"{name}: a layer sees {min(WINDOWS)} tokens only")
            continue
        logprobs = _logprobs(logits, inputs.at_tokens(inputs.response_ids), vocab_size)
        gap = float((logprobs - expected).abs().max())
        if gap <= tolerance:
            return Forward(
                packed=packed,
                attention=attention,
                plain_head=is_plain,
                gap=gap,
                rounding=rounding,
                rejections="; ".join(failures),
                samples=samples,
            )
        failures.append(f"{name}: {gap:.2g} nats off, {tolerance:.2g} allowed")
    raise UserError(
        f"{type(model).__name__} cannot be trained: no way of running several responses at once "
        f"gives the model's own log-probabilities ({'; '.join(failures)})"
    )


@torch.no_grad()
def _has_plain_head(model: "PreTrainedModel", prompt: TokenIds) -> bool:
    """Return whether the model's logits are its output layer's, up to rounding."""
    ids = torch.tensor([prompt], device=model.device)
    hidden_N = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
    expected = head_logits(model, hidden_N, is_plain=False)
    logits = head_logits(model, hidden_N, is_plain=True)
    return torch.allclose(logits, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def float32_logprobs(
    model: "PreTrainedModel", vocab_size: int, samples: Sequence[Sample]
) -> Tensor:
    """Compute `own_logprobs` of the present weights in float32, with the attention of its code.

    Weights in 16 bits are cast there and back, which changes none. The model keeps its attention.
    """
    types = [parameter.dtype for parameter in model.parameters()]
    attention = model.config._attn_implementation
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
    _set_attention(model, EAGER)
    logprobs = own_logprobs(model, vocab_size, samples)
    _set_attention(model, attention)
    for parameter, dtype in zip(model.parameters(), types, strict=True):
        parameter.data = parameter.data.to(dtype)
    return logprobs


def own_logprobs(model: "PreTrainedModel", vocab_size: int, samples: Sequence[Sample]) -> Tensor:
    """Compute log-probabilities of all response tokens by a pass for each sample."""
    logprobs = []
    for prompt, response in samples:
        ids = torch.tensor([[*prompt, *response]], device=model.device)
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        logprobs.append(_logprobs(logits, ids[0, len(prompt) :], vocab_size))
    return torch.cat(logprobs)


class Activation(NamedTuple):
    """The input or output of a layer whose absolute value is the largest."""

    layer: str
    size: float


@torch.no_grad()
def largest_activation(model: "PreTrainedModel", sample: Sample) -> Activation:
    """Pass one sample, and return the largest activation of all layers. Numbers that are not finite
    count as the largest."""
    activations = [Activation("", 0.0)]

    def watch(name: str) -> Callable[..., None]:
        def note(module: Module, inputs: tuple[object, ...], output: object) -> None:
            for value in (*inputs, output):
                if isinstance(value, Tensor) and value.is_floating_point():
                    size = float(value.abs().amax().nan_to_num(torch.inf))
                    activations.append(Activation(name, size))

        return note

    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not list(module.children()):
                stack.callback(module.register_forward_hook(watch(name)).remove)
        prompt, response = sample
        ids = torch.tensor([[*prompt, *response]], device=model.device)
        model(input_ids=ids, use_cache=False)
    return max(activations, key=lambda activation: activation.size)


def _logprobs(logits: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
    return logits[:, :vocab_size].double().log_softmax(-1).gather(-1, targets[:, None])[:, 0]


def _set_attention(model: "PreTrainedModel", name: str) -> None:
    if model.config._attn_implementation != name:
        model.set_attn_implementation(name)


def _rounded(module: Module, args: object, output: Tensor) -> Tensor:
    """Change embeddings by one rounding, up and down in turn, as another summation order would."""
    signs = 1 - 2 * (torch.arange(output.numel(), device=output.device) % 2)
    return output * (1 + signs.reshape(output.shape) * torch.finfo(output.dtype).eps)


class _BodyOutput(tuple[Tensor]):
    """The output of a body, which holds the last hidden state [1, N, H] alone."""

    def __getattr__(self, name: str) -> Tensor | None:
        return self[0] if name == "last_hidden_state" else None
