"""Compute log-probabilities and entropy of response tokens without ever holding B x T x V."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import wraps
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from rlvr_cli.core.errors import UserError
from rlvr_cli.model.compiling import compiled
from rlvr_cli.model.forward import PACKED, Forward, head_logits, head_weights, hidden_states
from rlvr_cli.model.head import ChunkedHead, Head, token_figures
from rlvr_cli.model.packing import ATTENTION, ModelInputs, pack, pad
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.ranks.group import shard, world

_CHUNK_LOGITS = 1 << 24
_GPU_ROWS = 1024


class TokenStats(NamedTuple):
    """The log-probabilities and entropies of response tokens, both [B, T], 0 in the padding, and
    the hidden states that they were computed from, [N, H] for the N response tokens."""

    logprobs: torch.Tensor
    entropy: torch.Tensor
    states: torch.Tensor


class Policy(torch.nn.Module):
    """A causal model seen as pi(token | prompt, tokens before) at a sampling temperature.

    Hidden states and output layer are one module, so that every pass goes through one root. Ids
    from `vocab_size` on (a padded output layer) have no probability, as in the engines.
    `chosen_forward` is the way to run the model that `choose_forward` found.
    """

    def __init__(
        self, model: Any, vocab_size: int, temperature: float, chosen_forward: Forward = PACKED
    ) -> None:
        super().__init__()
        self.model, self.vocab_size = model, vocab_size
        self.temperature = temperature
        self.chosen_forward = chosen_forward
        self.compiles = False
        weight = model.get_output_embeddings().weight
        self.device = weight.device
        self.sum_dtype = torch.promote_types(weight.dtype, torch.float32)
        """The type of masks and sums: at least float32."""

    def forward(
        self,
        inputs: ModelInputs,
        entropy: bool = True,
        entropy_gradient: bool = False,
        with_head: bool = True,
    ) -> Any:
        """Return the TokenStats of the responses, at least in float32: entropy 0 unless asked for,
        with a gradient if asked. Without the head return the hidden states alone, [N, H]."""
        states_N = inputs.predicting(hidden_states(self.model.base_model, inputs))
        if not with_head:
            return states_N
        plain, target_N = self.chosen_forward.plain_head, inputs.at_tokens(inputs.response_ids)
        rows = chunk_rows(self.vocab_size, states_N.device)

        def through_head(states: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
            own = head_logits(self.model, states, plain)[:, : self.vocab_size]
            logits = own.to(torch.promote_types(own.dtype, torch.float32)) / self.temperature
            logprobs, of_entropy = token_figures(logits, target, entropy)
            return logprobs, of_entropy if entropy_gradient else of_entropy.detach()

        # Logits of a chunk of rows that the backward pass computes again, so that never all are
        # held; few in full precision are cheaper kept.
        is_half = torch.finfo(states_N.dtype).bits <= 16
        if plain and (is_half or len(states_N) > rows):
            asked = entropy, entropy_gradient, self.compiles
            head = Head(self.vocab_size, self.temperature, rows, *asked)
            weights = head_weights(self.model, states_N.dtype)
            figures: Any = ChunkedHead.apply(states_N, *weights, target_N, head)
        elif len(states_N) <= rows:
            figures = through_head(states_N, target_N)
        else:
            chunks = zip(states_N.split(rows), target_N.split(rows), strict=True)
            parts = [checkpoint(through_head, *chunk, use_reentrant=False) for chunk in chunks]
            figures = [torch.cat(each) for each in zip(*parts, strict=True)]
        logprobs, entropies = map(inputs.in_rows, figures)
        return TokenStats(logprobs, entropies, states_N)


def chunk_rows(vocab_size: int, device: torch.device) -> int:
    """Return how many rows of logits to hold, so that the output layer is read seldom enough."""
    least = _GPU_ROWS if device.type == "cuda" else 1
    return max(least, _CHUNK_LOGITS // vocab_size)


class Critic(torch.nn.Module):
    """V(prompt, tokens before): a linear head, zero at first, on a body of its own or the policy's.

    The output layer of a language model replaced by one number a token.
    """

    def __init__(self, model: Any, has_own_body: bool) -> None:
        super().__init__()
        self.body = deepcopy(model.base_model) if has_own_body else None
        weight = model.get_output_embeddings().weight
        self.head = _ValueHead(weight.shape[1], 1).to(
            weight.device, torch.promote_types(weight.dtype, torch.float32)
        )
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, inputs: ModelInputs, policy_states_N: torch.Tensor | None) -> torch.Tensor:
        """Compute V before each response token, [B, T], 0 in the padding; a critic without a body
        of its own needs the policy's hidden states."""
        states_N = policy_states_N
        if self.body is not None:
            states_N = inputs.predicting(hidden_states(self.body, inputs))
        if states_N is None:
            raise ValueError("a critic on the policy's body needs the policy's hidden states")
        return inputs.in_rows(self.head(states_N))


class _ValueHead(torch.nn.Linear):
    def forward(self, states_N: torch.Tensor) -> torch.Tensor:
        return (states_N * self.weight).sum(-1) + self.bias  # in float32


def decoder_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the model's decoder layers; none where its code does not tell."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def compile_passes(module: Any) -> None:
    """Compile what is computed of packed tokens: decoder layers, but for attention, which has its
    own kernel and shapes that change; and the sums over logits."""
    attention = AttentionInterface()[ATTENTION]
    AttentionInterface.register(ATTENTION, torch.compiler.disable(attention))
    module.compiles = True

    def where_packed(forward: Any) -> Any:
        quick = compiled(forward, dynamic=True)

        @wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            return (quick if "layout" in kwargs else forward)(*args, **kwargs)

        return run

    for layer in decoder_layers(module):
        layer.forward = where_packed(layer.forward)


@torch.no_grad()
def check_as_trained(policy: Policy, limit: float) -> None:
    """Hold a policy that is ready to train, in its type, by its kernels, against the model's own
    log-probabilities in float32. Raises UserError if they differ by more than `limit` nats."""
    chosen = policy.chosen_forward
    if chosen.own is None:
        return
    prompts, responses = zip(*chosen.samples, strict=True)
    inputs = (pack if chosen.packed else pad)(prompts, responses, policy.device, policy.sum_dtype)
    with patch.object(policy, "temperature", 1.0):
        logprobs = inputs.at_tokens(policy(inputs, entropy=False).logprobs)
    gap = float((logprobs.cpu() - chosen.own.cpu()).abs().mean())
    if not gap <= limit:  # nan is not
        raise UserError(
            f"{type(policy.model).__name__} cannot be trained as set: its log-probabilities are "
            f"{gap:.2g} nats off its own in float32, {limit:g} allowed (rollout.mismatch_limit); "
            "take --set optim.precision=float32 or --set optim.compile=off, and please report it"
        )


def recompute(model: torch.nn.Module) -> None:
    """Keep only the input of each decoder layer: the backward pass computes the layer again.
    transformers' own way does nothing in evaluation mode, without which there would be dropout."""

    def computed_again(forward: Any) -> Any:
        @wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            return checkpoint(
                forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
            )

        return run

    for layer in decoder_layers(model):
        layer.forward = computed_again(layer.forward)


def share_out(module: torch.nn.Module, optim: OptimConfig) -> None:
    """Share out a module over the processes, a decoder layer at a time, to compute in the type that
    the settings name; a critic's head computes in float32."""
    offload = optim.offload == "all"
    if isinstance(module, Critic):
        shard(module.head, (), None, offload)
    dtype = torch.bfloat16 if optim.precision == "bfloat16" else None
    shard(module, decoder_layers(module), dtype, offload, keeps_whole(optim))


def keeps_whole(optim: OptimConfig) -> bool:
    """Return whether weights that were put together stay so until they were passed backward: where
    nothing is shared and no setting spares memory. It takes 2 bytes a weight in place of 10 that
    are moved to round it once more."""
    settings = optim.weights, optim.offload, optim.checkpointing
    return world() == 1 and settings == ("float32", "none", "off")


def weights_digest(weights: Iterable[torch.Tensor]) -> str:
    """Return a checksum of weights: that of the checksums of each, which are made side by side."""

    def of_one(weight: torch.Tensor) -> bytes:
        return hashlib.sha256(
            weight.detach().cpu().contiguous().view(torch.uint8).numpy().data
        ).digest()

    with ThreadPoolExecutor() as pool:
        return hashlib.sha256(b"".join(pool.map(of_one, weights))).hexdigest()
