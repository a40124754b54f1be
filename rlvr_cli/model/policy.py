"""Log-probabilities and entropy of response tokens, without ever holding B x T x V."""

import hashlib
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from rlvr_cli.core.types import UserError
from rlvr_cli.model.packing import Packed, pack
from rlvr_cli.training.batch import MicroBatch

_CHUNK_LOGITS = 1 << 24


@dataclass(frozen=True)
class TokenStats:
    """Of the response tokens, both [B, T] and 0 in the padding."""

    logprobs: torch.Tensor
    entropy: torch.Tensor


class Policy:
    """A causal model seen as pi(token | prompt, tokens before) at a sampling temperature.

    Ids from `vocab_size` on (a padded output layer) have no probability, as in the engines.
    `bfloat16`: matrix products in that type; the weights stay as they are.
    """

    def __init__(
        self, model: Any, vocab_size: int, temperature: float, bfloat16: bool = False
    ) -> None:
        self.model, self.vocab_size, self.temperature = model, vocab_size, temperature
        self.bfloat16 = bfloat16
        self.head = model.get_output_embeddings()
        _check(self)

    def mixed_precision(self) -> torch.autocast:
        """The context of every forward pass."""
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bfloat16)

    def token_stats(self, batch: MicroBatch) -> TokenStats:
        """The log-probability and entropy of every response token, at least in float32."""
        return self.stats_of(packed_hidden(self.model.base_model, batch.packed), batch)

    def stats_of(
        self, hidden_N: torch.Tensor, batch: MicroBatch, entropy_gradient: bool = False
    ) -> TokenStats:
        """As `token_stats`, from hidden states [N, H] at hand; entropy has a gradient if asked."""
        where = batch.mask.bool()
        logprobs_N, entropy_N = self._through_head(
            hidden_N[batch.packed.predicted_from[where]],
            batch.packed.response_ids[where],
            entropy_gradient,
        )
        zeros = logprobs_N.new_zeros(where.shape)
        return TokenStats(
            zeros.masked_scatter(where, logprobs_N), zeros.masked_scatter(where, entropy_N)
        )

    def _through_head(
        self, hidden_N: torch.Tensor, target_N: torch.Tensor, entropy_gradient: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = max(1, _CHUNK_LOGITS // self.vocab_size)
        if len(hidden_N) <= chunk:
            return self._chunk(hidden_N, target_N, entropy_gradient)
        parts = [
            checkpoint(self._chunk, hidden, target, entropy_gradient, use_reentrant=False)
            for hidden, target in zip(hidden_N.split(chunk), target_N.split(chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(
        self, hidden: torch.Tensor, target: torch.Tensor, entropy_gradient: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = F.linear(hidden, self.head.weight, self.head.bias)[:, : self.vocab_size]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logprobs = torch.log_softmax(logits / self.temperature, -1)
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, target[:, None])[:, 0], entropy


class Critic(torch.nn.Module):
    """V(prompt, tokens before): a linear head, zero at first, on a body of its own or the policy's.

    The output layer of a language model replaced by one number a token.
    """

    def __init__(self, model: Any, has_own_body: bool) -> None:
        super().__init__()
        self.body = deepcopy(model.base_model) if has_own_body else None
        weight = model.get_output_embeddings().weight
        self.head = torch.nn.Linear(weight.shape[1], 1).to(weight)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def values(self, batch: MicroBatch, policy_hidden_N: torch.Tensor | None) -> torch.Tensor:
        """V before each response token, [B, T], 0 in the padding; a critic without a body of its
        own needs the policy's hidden states."""
        if self.body is not None:
            hidden_N = packed_hidden(self.body, batch.packed)
        elif policy_hidden_N is not None:
            hidden_N = policy_hidden_N
        else:
            raise ValueError("a critic on the policy's body needs the policy's hidden states")
        where = batch.mask.bool()
        states_N = hidden_N[batch.packed.predicted_from[where]]
        values_N = (states_N * self.head.weight).sum(-1) + self.head.bias  # not in bfloat16
        return values_N.new_zeros(where.shape).masked_scatter(where, values_N)


def weights_digest(model: torch.nn.Module) -> str:
    """A checksum of all weights."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def packed_hidden(body: Any, packed: Packed) -> torch.Tensor:
    """The last hidden state [N, H] of packed tokens. The model makes no mask of its own: the one
    given has the shape of a finished mask, and `packed_attention` has no use for it."""
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=packed.input_ids.device)
    output = body(
        input_ids=packed.input_ids,
        position_ids=packed.position_ids,
        attention_mask=mask,
        layout=packed.layout,
        use_cache=False,
    )
    return output.last_hidden_state[0]


def _check(policy: Policy) -> None:
    """Raise UserError if packing or the output layer do not give the model's own logits."""
    model = policy.model
    ids = torch.arange(2, 10, device=model.device) % policy.vocab_size
    packed = pack([ids[:3].tolist()] * 2, [ids[3:].tolist(), ids[2:4].tolist()], policy.head.weight)
    with torch.no_grad():
        expected = model(input_ids=ids[None], use_cache=False).logits[0, 2:-1]
        hidden = packed_hidden(model.base_model, packed)[packed.predicted_from[0]]
        logits = F.linear(hidden, policy.head.weight, policy.head.bias)
    if not torch.allclose(logits, expected, atol=1e-3, rtol=1e-3):
        raise UserError(
            f"{type(model).__name__} cannot be trained yet: its attention or what it does to its "
            "logits after the output layer (such as soft-capping) is not of the common kind"
        )
