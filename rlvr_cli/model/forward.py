"""Choose how a model is run, packed or padded, by which attention, for right log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from rlvr_cli.core.errors import UserError
from rlvr_cli.model.packing import ATTENTION, WINDOWS, ModelInputs, pack, pad

EAGER = "eager"
"""Attention as the model's own code writes it out."""
_FLOOR = 2e-5
"""Nats that two right ways of computing may differ by, whatever the model."""
_ROUNDINGS = 30
"""Differences are allowed up to so many times what one rounding of the embeddings causes."""
_CEILING = 0.05
_FEW = 2
"""Samples on which the rounding is measured."""

Sample = tuple[Sequence[int], Sequence[int]]
"""The token ids of a prompt and of a response to it."""


@dataclass(frozen=True)
class Forward:
    """A way to run the model, and how far its log-probabilities are from the model's own."""

    packed: bool
    """All prompts and responses in one row, each prompt once; else a padded row a response."""
    attention: str
    plain_head: bool
    """The logits are the output layer's and nothing more (no soft cap, no scale)."""
    gap: float = 0.0
    """The largest difference from the model's own unpacked, unpadded pass, in nats."""
    rounding: float = 0.0
    """The change that a rounding of the embeddings causes, in nats."""
    why: str = ""
    """Why the quicker ways were rejected."""
    samples: Sequence[Sample] = field(default=(), repr=False)
    """What it was tried on."""
    own: torch.Tensor | None = field(default=None, repr=False, compare=False)
    """The model's own log-probabilities of their responses, of one after the other."""

    def __str__(self) -> str:
        way = "packed" if self.packed else f"padded, which is slower ({self.why})"
        return (
            f"its responses run {way}; log-probabilities within {self.gap:.1g} nats of the "
            f"model's own, whose rounding is {self.rounding:.1g}"
        )


PACKED = Forward(packed=True, attention=ATTENTION, plain_head=True)


def hidden_states(body: Any, inputs: ModelInputs) -> torch.Tensor:
    """Compute the last hidden state of every token, [N, H], padding included.

    Packed, the model makes no mask of its own: the one given has the shape of a finished mask, and
    `packed_attention` has no use for it.
    """
    if inputs.layout is None:
        given: dict[str, Any] = {"attention_mask": inputs.attention_mask}
    else:
        finished = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=inputs.input_ids.device)
        given = {
            "attention_mask": finished,
            "position_ids": inputs.position_ids,
            "layout": inputs.layout,
        }
    output = body(input_ids=inputs.input_ids, use_cache=False, **given)
    return output.last_hidden_state.flatten(0, 1)


def head_logits(model: Any, hidden_N: torch.Tensor, plain: bool) -> torch.Tensor:
    """Compute logits [N, V] of hidden states [N, H]; not `plain`: with the model's own scaling."""
    if plain:
        return F.linear(hidden_N, *head_weights(model, hidden_N.dtype))
    body = _BodyOutput((hidden_N[None],))
    ids = torch.zeros(1, len(hidden_N), dtype=torch.long, device=hidden_N.device)
    with patch.object(model.base_model, "forward", lambda *_, **__: body):
        return model(input_ids=ids, use_cache=False).logits[0]


def head_weights(model: Any, dtype: torch.dtype) -> list[Any]:
    """Return weight and bias (or None) of the output layer in this type."""
    head = model.get_output_embeddings()
    return [None if tensor is None else tensor.to(dtype) for tensor in (head.weight, head.bias)]


def choose_forward(model: Any, vocab_size: int, samples: Sequence[Sample], context: int) -> Forward:
    """Return the fastest way to run the model with its own log-probabilities on `samples`.

    Its own are those of one unpadded row at a time with the attention its code writes out; they
    may differ by what the model's rounding explains. Packing is out of the question for a window
    of attention shorter than `context`. Leaves the model with the attention that was chosen.
    Raises UserError if no way is right or the model's numbers are not finite.
    """
    started = model.config._attn_implementation
    samples = [(list(prompt), list(response)) for prompt, response in samples]
    _set_attention(model, EAGER)
    own = own_logprobs(model, vocab_size, samples)
    if not torch.isfinite(own).all():
        raise UserError(
            f"{type(model).__name__} gives probabilities that are not finite: its weights are "
            "damaged or not for this version of transformers"
        )
    with model.get_input_embeddings().register_forward_hook(_rounded):
        again = own_logprobs(model, vocab_size, samples[:_FEW])
    rounding = float((again - own[: len(again)]).abs().max())
    tolerance = min(_FLOOR + _ROUNDINGS * rounding, _CEILING)
    with torch.no_grad():
        ids = torch.tensor([samples[0][0]], device=model.device)
        hidden_N = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
        whole, plain = (head_logits(model, hidden_N, plain) for plain in (False, True))
    is_plain = torch.allclose(plain, whole, rtol=1e-4, atol=1e-5 * float(whole.abs().max()))
    prompts, responses = zip(*samples, strict=True)
    head, failures = model.get_output_embeddings().weight, list[str]()
    for packed, attention in dict.fromkeys([(True, started), (False, started), (False, EAGER)]):
        name = f"{'packed' if packed else 'padded'}, {attention}"
        _set_attention(model, attention)
        inputs = (pack if packed else pad)(prompts, responses, head.device, head.dtype)
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
        gap = float((logprobs - own).abs().max())
        if gap <= tolerance:
            why = "; ".join(failures)
            return Forward(packed, attention, is_plain, gap, rounding, why, samples, own)
        failures.append(f"{name}: {gap:.2g} nats off, {tolerance:.2g} allowed")
    raise UserError(
        f"{type(model).__name__} cannot be trained: no way of running several responses at once "
        f"gives the model's own log-probabilities ({'; '.join(failures)})"
    )


def own_logprobs(model: Any, vocab_size: int, samples: Sequence[Sample]) -> torch.Tensor:
    """Compute log-probabilities of all response tokens, each sample as a row of its own."""
    of_samples = []
    for prompt, response in samples:
        ids = torch.tensor([[*prompt, *response]], device=model.device)
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        of_samples.append(_logprobs(logits, ids[0, len(prompt) :], vocab_size))
    return torch.cat(of_samples)


def _logprobs(logits: torch.Tensor, targets: torch.Tensor, vocab_size: int) -> torch.Tensor:
    return logits[:, :vocab_size].double().log_softmax(-1).gather(-1, targets[:, None])[:, 0]


def _set_attention(model: Any, name: str) -> None:
    if model.config._attn_implementation != name:
        model.set_attn_implementation(name)


def _rounded(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
    """Perturb embeddings by one rounding, up or down in turn, like another summation order."""
    signs = 1 - 2 * (torch.arange(output.numel(), device=output.device) % 2)
    return output * (1 + signs.reshape(output.shape) * torch.finfo(output.dtype).eps)


class _BodyOutput(tuple[torch.Tensor]):
    """The output of a body: the last hidden state [1, N, H] first, and nothing else."""

    def __getattr__(self, name: str) -> torch.Tensor | None:
        return self[0] if name == "last_hidden_state" else None
