"""Log-probabilities and entropy of response tokens, without ever holding B x T x V."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from rlvr_cli.batch import MicroBatch
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
        _check_head(model, self.head)

    def token_stats(self, batch: MicroBatch) -> TokenStats:
        """The log-probability and entropy of every response token, at least in float32.

        Rows are padded on the right and the model is causal, so no attention mask is needed.
        """
        hidden = self.model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        where = batch.mask.bool()
        T = torch.arange(batch.mask.shape[1], device=where.device)
        position = (batch.prompt_lengths[:, None] + T).clamp_max(hidden.shape[1] - 1)
        row = torch.arange(len(where), device=where.device)[:, None].expand_as(position)
        hidden_N = hidden[row[where], position[where] - 1]
        logprobs_N, entropy_N = self._through_head(
            hidden_N, batch.input_ids[row[where], position[where]]
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


def _check_head(model: Any, head: Any) -> None:
    """Raise UserError if the model's logits are not its output layer on its last hidden state."""
    ids = torch.arange(1, 5, device=model.device)[None] % model.config.get_text_config().vocab_size
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = F.linear(hidden, head.weight, head.bias)
    if not torch.allclose(logits, expected, atol=1e-3, rtol=1e-3):
        raise UserError(
            f"{type(model).__name__} changes its logits after the output layer (such as by "
            "soft-capping or scaling); training such models is not supported yet"
        )
