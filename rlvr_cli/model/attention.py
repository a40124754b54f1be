"""The policy's attention function, as transformers calls it: packed rows, or one query per row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlvr_cli.model.packing import packed_attention


class AttentionSizes(NamedTuple):
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


ATTENTION = "rlvr_sdpa"
"""The name under which transformers knows this attention function."""
_windows: set[int] = set()


@contextmanager
def window_sizes() -> Iterator[set[int]]:
    """Return the lengths of all sliding windows and chunks in a model's attention."""
    _windows.clear()
    yield _windows


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Call transformers' own sdpa except in two cases: packed tokens, and one query per row with
    grouped heads, where heads that share a key become query positions so that no key is copied."""
    layout = kwargs.pop("layout", None)
    _windows.update(filter(None, [kwargs.get("sliding_window")]))
    if layout is not None:
        return packed_attention(query, key, value, layout, kwargs.get("scaling")), None
    B, heads, length, D = query.shape
    kv_heads = key.shape[1]
    if length > 1 or heads == kv_heads or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    grouped = query.reshape(B, kv_heads, heads // kv_heads, D)
    output = F.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=kwargs.get("scaling")
    )
    return output.reshape(B, 1, heads, D), None


def _mask(*args: Any, local_size: int | None = None, **kwargs: Any) -> torch.Tensor | None:
    _windows.update(filter(None, [local_size]))
    return sdpa_mask(*args, local_size=local_size, **kwargs)


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, _mask)
