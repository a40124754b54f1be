"""The sizes of a decoder, whatever its configuration calls them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AttentionSizes:
    """The numbers of query heads and key heads, and the size of one head."""

    heads: int
    kv_heads: int
    head_dim: int


def attention_sizes(config: Any) -> AttentionSizes:
    """Read the sizes from a text configuration; without attention, take the width as one head."""
    heads = getattr(config, "num_attention_heads", None) or 1
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return AttentionSizes(heads, kv_heads, head_dim)
