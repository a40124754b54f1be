"""Log-probabilities and entropy of response tokens, without ever holding B x T x V."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from rlvr_cli.batch import MicroBatch
from rlvr_cli.packing import Packed, pack
from rlvr_cli.types import UserError

_CHUNK_LOGITS = 1 << 24


@dataclass(frozen=True)
class TokenStats:
    """Of the response tokens, both [B, T] and 0 in the padding."""

    logprobs: torch.Tensor
    entropy: torch.Tensor


class Policy:
    """A causal model seen as pi(token | prompt, tokens before) at a sampling temperature.

    Ids from `vocab_size` on (a padded output layer) have no probability, as in the engines.
    """

    def __init__(self, model: Any, vocab_size: int, temperature: float) -> None:
        self.model, self.vocab_size, self.temperature = model, vocab_size, temperature
        self.head = model.get_output_embeddings()
        _check(self)

    def token_stats(self, batch: MicroBatch) -> TokenStats:
        """The log-probability and entropy of every response token, at least in float32."""
        hidden = _packed_hidden(self.model, batch.packed)
        where = batch.mask.bool()
        logprobs_N, entropy_N = self._through_head(
            hidden[batch.packed.predicted_from[where]], batch.packed.response_ids[where]
        )
        zeros = logprobs_N.new_zeros(where.shape)
        return TokenStats(
            zeros.masked_scatter(where, logprobs_N), zeros.masked_scatter(where, entropy_N)
        )

    def _through_head(
        self, hidden_N: torch.Tensor, target_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = max(1, _CHUNK_LOGITS // self.vocab_size)
        if len(hidden_N) <= chunk:
            return self._chunk(hidden_N, target_N)
        parts = [
            checkpoint(self._chunk, hidden, target, use_reentrant=False)
            for hidden, target in zip(hidden_N.split(chunk), target_N.split(chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(
        self, hidden: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = F.linear(hidden, self.head.weight, self.head.bias)[:, : self.vocab_size]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logprobs = torch.log_softmax(logits / self.temperature, -1)
        with torch.no_grad():
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, target[:, None])[:, 0], entropy


def _packed_hidden(model: Any, packed: Packed) -> torch.Tensor:
    """The last hidden state [N, H] of packed tokens. The model makes no mask of its own: the one
    given has the shape of a finished mask, and `packed_attention` has no use for it."""
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=packed.input_ids.device)
    output = model.base_model(
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
        hidden = _packed_hidden(model, packed)[packed.predicted_from[0]]
        logits = F.linear(hidden, policy.head.weight, policy.head.bias)
    if not torch.allclose(logits, expected, atol=1e-3, rtol=1e-3):
        raise UserError(
            f"{type(model).__name__} cannot be trained yet: its attention or what it does to its "
            "logits after the output layer (such as soft-capping) is not of the common kind"
        )
