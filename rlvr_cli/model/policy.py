"""Compute log-probabilities and entropy of response tokens without ever holding B x T x V."""

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from rlvr_cli.model.adapter import switched_off
from rlvr_cli.model.forward import PACKED, Forward, head_logits, head_weights, hidden_states
from rlvr_cli.model.packing import ModelInputs
from rlvr_cli.model.units import AS_IT_STANDS, Way, computed, in_units
from rlvr_cli.ranks.shards import gathered_weights, whole

_CHUNK_LOGITS = 1 << 24
_GPU_ROWS = 1024


@dataclass(frozen=True)
class TokenStats:
    """The log-probabilities and entropies of response tokens, both [B, T], 0 in the padding."""

    logprobs: torch.Tensor
    entropy: torch.Tensor


class Policy:
    """A causal model seen as pi(token | prompt, tokens before) at a sampling temperature.

    Ids from `vocab_size` on (a padded output layer) have no probability, as in the engines. `way`
    says how its layers are computed (`units`), `forward` how the model is to be run
    (`choose_forward`), `with_adapter` whether with its adapter, if it has one.
    """

    def __init__(
        self,
        model: Any,
        vocab_size: int,
        temperature: float,
        way: Way = AS_IT_STANDS,
        forward: Forward = PACKED,
        with_adapter: bool = True,
    ) -> None:
        self.model, self.vocab_size, self.temperature = model, vocab_size, temperature
        self.way, self.forward, self.with_adapter = way, forward, with_adapter
        self.head = model.get_output_embeddings()
        if way != AS_IT_STANDS:
            in_units(model)

    @property
    def like(self) -> torch.Tensor:
        """Return an empty tensor where the model is, of the type of sums: at least float32."""
        weight = self.head.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        return torch.empty(0, dtype=dtype, device=weight.device)

    def computed(self) -> AbstractContextManager[None]:
        """Return the context of every forward pass."""
        return computed(self.way)

    def hidden(self, inputs: ModelInputs) -> torch.Tensor:
        """Compute the last hidden state of every token, [N, H]."""
        with nullcontext() if self.with_adapter else switched_off(self.model):
            return hidden_states(self.model.base_model, inputs)

    def token_stats(self, inputs: ModelInputs, entropy: bool = True) -> TokenStats:
        """Compute each response token's log-probability and entropy (or 0), at least in float32."""
        return self.stats_of(self.hidden(inputs), inputs, entropy=entropy)

    def stats_of(
        self,
        hidden_N: torch.Tensor,
        inputs: ModelInputs,
        entropy_gradient: bool = False,
        entropy: bool = True,
    ) -> TokenStats:
        """Compute `token_stats` from hidden states [N, H]; entropy has a gradient if asked."""
        where = inputs.mask.bool()
        logprobs_N, entropy_N = self._through_head(
            hidden_N[inputs.predicted_from[where]],
            inputs.response_ids[where],
            entropy_gradient if entropy else None,
        )
        zeros = logprobs_N.new_zeros(where.shape)
        return TokenStats(
            zeros.masked_scatter(where, logprobs_N), zeros.masked_scatter(where, entropy_N)
        )

    def _through_head(
        self, hidden_N: torch.Tensor, target_N: torch.Tensor, entropy_gradient: bool | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = chunk_rows(self.vocab_size, hidden_N.device)
        at_once = self.forward.plain_head or self.way.gathers
        weights = head_weights(self.model, hidden_N.dtype) if at_once else []
        if len(hidden_N) <= chunk:
            return self._chunk(hidden_N, target_N, weights, entropy_gradient)
        parts = [
            checkpoint(self._chunk, hidden, target, weights, entropy_gradient, use_reentrant=False)
            for hidden, target in zip(hidden_N.split(chunk), target_N.split(chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(
        self,
        hidden: torch.Tensor,
        target: torch.Tensor,
        weights: list[Any],
        entropy_gradient: bool | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.forward.plain_head:
            logits = F.linear(hidden, *weights)[:, : self.vocab_size]
        else:
            with computed(AS_IT_STANDS if weights else self.way):
                logits = head_logits(self.model, hidden, False, weights)[:, : self.vocab_size]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logprobs = torch.log_softmax(logits / self.temperature, -1)
        chosen = logprobs.gather(-1, target[:, None])[:, 0]
        if entropy_gradient is None:
            return chosen, torch.zeros_like(chosen)
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        return chosen, entropy


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
        self.head = torch.nn.Linear(weight.shape[1], 1).to(
            weight.device, torch.promote_types(weight.dtype, torch.float32)
        )
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def values(self, inputs: ModelInputs, policy_hidden_N: torch.Tensor | None) -> torch.Tensor:
        """Compute V before each response token, [B, T], 0 in the padding; a critic without a body
        of its own needs the policy's hidden states."""
        if self.body is not None:
            hidden_N = hidden_states(self.body, inputs)
        elif policy_hidden_N is not None:
            hidden_N = policy_hidden_N
        else:
            raise ValueError("a critic on the policy's body needs the policy's hidden states")
        where = inputs.mask.bool()
        states_N = hidden_N[inputs.predicted_from[where]]
        head = gathered_weights(dict(self.head.named_parameters()), None)
        values_N = (states_N * head["weight"]).sum(-1) + head["bias"]  # in float32
        return values_N.new_zeros(where.shape).masked_scatter(where, values_N)


def weights_digest(weights: Iterable[torch.Tensor]) -> str:
    """Return a checksum of weights."""
    digest = hashlib.sha256()
    for parameter in weights:
        digest.update(whole(parameter.detach()).cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
