"""Compute log-probabilities and entropy of response tokens without ever holding B x T x V."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from rlvr_cli.core.errors import UserError
from rlvr_cli.model.compiling import P, T, compiled
from rlvr_cli.model.forward import PACKED, Forward, head_logits, head_weights, hidden_states
from rlvr_cli.model.head import ChunkedHead, Head, token_figures
from rlvr_cli.model.packing import ATTENTION, ModelInputs, pack, pad
from rlvr_cli.model.settings import SIXTEEN_BITS, OptimConfig
from rlvr_cli.ranks.group import full_tensor, shard, world

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_CHUNK_LOGITS = 1 << 24
"""Logits that are held at once: 64 MB in float32."""
_GPU_ROWS = 1024
"""The fewest rows that a GPU computes at once, so that it seldom reads the output layer."""


class TokenStats(NamedTuple):
    """The figures of response tokens."""

    logprobs: Tensor
    """[B, T], 0 in the padding."""
    entropy: Tensor
    """[B, T], 0 in the padding."""
    states: Tensor
    """[N, H]: the hidden states that the N response tokens were predicted from."""


class Policy(Module):
    """A causal model seen as pi(token | prompt, tokens before) at a sampling temperature.

    Hidden states and output layer are one module, so that every pass goes through one root. Ids
    from `vocab_size` on (a padded output layer) have no probability, as in the engines.
    `chosen_forward` is the way to run the model that `choose_forward` found.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        vocab_size: int,
        temperature: float,
        chosen_forward: Forward = PACKED,
    ) -> None:
        super().__init__()
        self.model = model
        self.vocab_size = vocab_size
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
    ) -> TokenStats | Tensor:
        """Return the TokenStats of the responses, in float32 at least.

        The entropy is 0 without `entropy`, and has a gradient with `entropy_gradient`. Without the
        head, return the hidden states alone, [N, H].
        """
        states_N = inputs.predicting(hidden_states(self.model.base_model, inputs))
        if not with_head:
            return states_N
        is_plain = self.chosen_forward.plain_head
        target_N = inputs.at_tokens(inputs.response_ids)
        rows = chunk_rows(self.vocab_size, states_N.device)

        def through_head(states: Tensor, target: Tensor) -> tuple[Tensor, ...]:
            logits = head_logits(self.model, states, is_plain)[:, : self.vocab_size]
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            logprobs, entropies = token_figures(logits / self.temperature, target, entropy)
            return logprobs, entropies if entropy_gradient else entropies.detach()

        # The backward pass computes the logits of a chunk of rows again, so that never all are
        # held. Few in full precision are cheaper to keep.
        is_half = torch.finfo(states_N.dtype).bits <= 16
        if is_plain and (is_half or len(states_N) > rows):
            head = Head(
                self.vocab_size,
                self.temperature,
                rows,
                entropy=entropy,
                entropy_gradient=entropy_gradient,
                compiles=self.compiles,
            )
            weight_VH, bias_V = head_weights(self.model, states_N.dtype)
            figures: Sequence[Tensor] = ChunkedHead.apply(
                states_N, weight_VH, bias_V, target_N, head
            )
        elif len(states_N) <= rows:
            figures = through_head(states_N, target_N)
        else:
            chunks = zip(states_N.split(rows), target_N.split(rows), strict=True)
            parts = [checkpoint(through_head, *chunk, use_reentrant=False) for chunk in chunks]
            figures = [torch.cat(chunk_parts) for chunk_parts in zip(*parts, strict=True)]
        logprobs, entropies = map(inputs.in_rows, figures)
        return TokenStats(logprobs, entropies, states_N)


def chunk_rows(vocab_size: int, device: torch.device) -> int:
    """Return how many rows of logits to hold at once."""
    fewest = _GPU_ROWS if device.type == "cuda" else 1
    return max(fewest, _CHUNK_LOGITS // vocab_size)


class Critic(Module):
    """V(prompt, tokens before): a language model whose output layer gives one number a token.

    Its linear head is zero at first. Its body is a copy of the policy's, or the policy's itself.
    """

    def __init__(self, model: "PreTrainedModel", has_own_body: bool) -> None:
        super().__init__()
        self.body = deepcopy(model.base_model) if has_own_body else None
        weight = model.get_output_embeddings().weight
        self.head = _ValueHead(weight.shape[1], 1).to(
            weight.device, torch.promote_types(weight.dtype, torch.float32)
        )
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, inputs: ModelInputs, policy_states_N: Tensor | None) -> Tensor:
        """Compute V before each response token, [B, T], 0 in the padding.

        A critic on the policy's body needs the policy's hidden states.
        """
        states_N = policy_states_N
        if self.body is not None:
            states_N = inputs.predicting(hidden_states(self.body, inputs))
        if states_N is None:
            raise ValueError("a critic on the policy's body needs the policy's hidden states")
        return inputs.in_rows(self.head(states_N))


class _ValueHead(Linear):
    def forward(self, states_N: Tensor) -> Tensor:
        return (states_N * self.weight).sum(-1) + self.bias  # in float32


def decoder_layers(model: Module) -> list[Module]:
    """Return the model's decoder layers, or no layer if its code does not mark them."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def compile_passes(module: Module) -> None:
    """Compile the decoder layers, for packed tokens, and the sums over logits.

    Attention is left out, for it has its own kernel and shapes that change.
    """
    attention = AttentionInterface()[ATTENTION]
    AttentionInterface.register(ATTENTION, torch.compiler.disable(attention))
    if isinstance(module, Policy):
        module.compiles = True

    def compiled_if_packed(forward: Callable[P, T]) -> Callable[P, T]:
        compiled_forward = compiled(forward, dynamic=True)

        @wraps(forward)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            if "layout" in kwargs:
                return compiled_forward(*args, **kwargs)
            return forward(*args, **kwargs)

        return run

    for layer in decoder_layers(module):
        layer.forward = compiled_if_packed(layer.forward)


@torch.no_grad()
def check_as_trained(policy: Policy, own_logprobs: Tensor, limit: float) -> None:
    """Compare a policy that is ready to train with the model's log-probabilities in float32.

    The policy has its final type and kernels. `own_logprobs` are of the samples of its forward, and
    must be of the weights that it has now: those of a parent or an adapter too. Raises UserError if
    the mean difference is over `limit` nats.
    """
    forward = policy.chosen_forward
    prompts, responses = zip(*forward.samples, strict=True)
    lay_out = pack if forward.packed else pad
    inputs = lay_out(prompts, responses, policy.device, policy.sum_dtype)
    with patch.object(policy, "temperature", 1.0):
        logprobs = inputs.at_tokens(policy(inputs, entropy=False).logprobs)
    gap = float((logprobs.cpu() - own_logprobs.cpu()).abs().mean())
    if not gap <= limit:  # nan is not
        raise UserError(
            f"{type(policy.model).__name__} cannot be trained as set: its log-probabilities are "
            f"{gap:.2g} nats off its own in float32, {limit:g} allowed (rollout.mismatch_limit); "
            "take --set optim.precision=float32 or --set optim.compile=off, and please report it"
        )


def recompute(model: Module) -> None:
    """Keep only the input of each decoder layer, and compute the layer again in the backward pass.

    transformers' own function does nothing in evaluation mode, and training mode has dropout.
    """

    def checkpointed(forward: Callable[..., T]) -> Callable[..., T]:
        @wraps(forward)
        def run(*args: object, **kwargs: Any) -> T:
            if not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            result: T = checkpoint(
                forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs
            )
            return result

        return run

    for layer in decoder_layers(model):
        layer.forward = checkpointed(layer.forward)


def shard_module(module: Module, optim: OptimConfig) -> None:
    """Shard a module over the processes, a decoder layer at a time.

    It computes in the type that the settings name, and a critic's head in float32.
    """
    offload = optim.offload == "all"
    if isinstance(module, Critic):
        shard(module.head, (), offload=offload)
    shard(
        module,
        decoder_layers(module),
        dtype=getattr(torch, optim.precision) if optim.precision in SIXTEEN_BITS else None,
        offload=offload,
        keeps_full=keeps_full_weights(optim),
    )


def keeps_full_weights(optim: OptimConfig) -> bool:
    """Return whether rounded full weights stay from the forward to the backward pass.

    They do in one process if no setting saves memory: 2 bytes a weight are held, and 10 are not
    moved to round it once more.
    """
    saves_memory = (
        optim.weights != "float32" or optim.offload != "none" or optim.checkpointing != "off"
    )
    return world() == 1 and not saves_memory


def weights_digest(weights: Iterable[Tensor]) -> str:
    """Return a checksum of the checksums of these weights, whatever the number of processes.

    One process computes them in threads, several gather one weight at a time.
    """

    def digest(weight: Tensor) -> bytes:
        numbers = weight.detach().cpu().contiguous().view(torch.uint8).numpy()
        return hashlib.sha256(numbers.data).digest()

    if world() > 1:
        digests = [digest(full_tensor(weight.detach())) for weight in weights]
        return hashlib.sha256(b"".join(digests)).hexdigest()
    with ThreadPoolExecutor() as pool:
        return hashlib.sha256(b"".join(pool.map(digest, weights))).hexdigest()
