"""A key-value cache for groups: filled once a prompt, repeated for its group, then thinned."""

from typing import Any

import torch
import torch.nn.functional as F
from transformers.cache_utils import Cache, CacheLayerMixin

_GROWTH = 32


class GroupLayer(CacheLayerMixin):
    """One layer's keys and values [B, heads, capacity, D], written in place and grown by blocks."""

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
        """Append the new positions; return views of all positions so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[2]
        if self.length > self.keys.shape[2]:
            capacity = -(-self.length // _GROWTH) * _GROWTH
            self.keys, self.values = (
                F.pad(old, (0, 0, 0, capacity - old.shape[2])) for old in (self.keys, self.values)
            )
        self.keys[:, :, start : self.length] = key_states
        self.values[:, :, start : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def select(self, rows: torch.Tensor) -> None:
        """Keep (or repeat) the given rows of the batch."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class GroupCache(Cache):
    """The caches of all layers for one decoding batch."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GroupLayer)

    def select(self, rows: torch.Tensor) -> None:
        """Keep (or repeat) the given rows of the batch in every layer."""
        for layer in self.layers:
            layer.select(rows)
