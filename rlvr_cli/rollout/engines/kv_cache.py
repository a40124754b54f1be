"""A key-value cache for groups: filled once a prompt, repeated for its group, then thinned."""

from typing import Any

import torch
import torch.nn.functional as F
from transformers.cache_utils import Cache, CacheLayerMixin

_GROWTH = 16


class GroupLayer(CacheLayerMixin):
    """One layer's keys and values [B, heads, capacity, D], written in place. Attention reads them
    whole, what is not yet filled too: memory without gaps is read three times as fast."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new positions; return all, with room that is left behind them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        if end > self.keys.shape[2]:
            self.grow(end)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys, self.values

    def grow(self, capacity: int, rows: torch.Tensor | None = None) -> None:
        """Make room for so many positions, zeros at first, of each row or of the given ones."""
        rows = torch.arange(len(self.keys), device=self.keys.device) if rows is None else rows
        found = []
        for old in (self.keys, self.values):
            new = old.new_zeros(len(rows), old.shape[1], capacity, old.shape[3])
            filled, place = old[:, :, : self.length], new[:, :, : self.length]
            torch.index_select(filled, 0, rows, out=place)
            found.append(new)
        self.keys, self.values = found

    def move(self, rows: torch.Tensor, places: torch.Tensor, left: int) -> None:
        """Move rows to these places, and keep the first `left`."""
        for one in (self.keys, self.values):
            one[places] = one[rows]
        self.keys, self.values = self.keys[:left], self.values[:left]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class GroupCache(Cache):
    """The caches of all layers for one decoding batch."""

    bias: torch.Tensor
    """[B, capacity]: 0 for the positions that a row sees, else -inf."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GroupLayer)

    def start(self, rows: torch.Tensor, lengths: torch.Tensor) -> None:
        """Repeat the given rows, of which the first `lengths` positions are no padding."""
        capacity = self.get_seq_length() + _GROWTH
        for layer in self.layers:
            layer.grow(capacity, rows)
        seen = torch.arange(capacity, device=lengths.device) < lengths[rows, None]
        like = self.layers[0].keys
        self.bias = torch.full_like(seen, -torch.inf, dtype=like.dtype).masked_fill_(seen, 0)

    def open(self) -> torch.Tensor:
        """Let every row see the position that comes next; return the bias of all."""
        length = self.get_seq_length()
        if length == self.bias.shape[1]:
            for layer in self.layers:
                layer.grow(length + _GROWTH)
            self.bias = F.pad(self.bias, (0, _GROWTH), value=-torch.inf)
        self.bias[:, length] = 0
        return self.bias

    def keep(self, rows: torch.Tensor) -> None:
        """Keep the given rows in this order; those that are in their place are not copied."""
        places = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        self.bias = self.bias[rows]
        for layer in self.layers:
            layer.move(rows[places], places, len(rows))


def moved_up(done_B: torch.Tensor, left: int) -> torch.Tensor:
    """Return the `left` rows not done, in place; for one that is done there, one from behind."""
    rows = torch.arange(left, device=done_B.device)
    rows[done_B[:left]] = left + (~done_B[left:]).nonzero()[:, 0]
    return rows
