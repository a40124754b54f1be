"""Decode one token a row: a cache that is filled once a prompt, repeated for its group and freed of
finished rows, and a forward pass of Llama's layers without the overhead of their modules."""

from typing import Any

import torch
import torch.nn.functional as F
from transformers.cache_utils import Cache, CacheLayerMixin

from rlvr_cli.model.packing import send

_GROWTH = 16
"""Positions by which the cache of a CPU grows at once."""
_SLAB = 64
"""Those by which a GPU reads more of memory that it has from the start: copies of all keys, each of
another size, would leave it in pieces. Its attention needs masks of a multiple of 8."""
_LINEAR = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
_WEIGHTS = {f"{name}.weight" for name in (*_LINEAR, "input_layernorm", "post_attention_layernorm")}
_BIASES = {f"{name}.bias" for name in _LINEAR}
_OFF = 1e-4
"""The difference, as a share of the largest logit, that another order of summation may cause."""
_ROUNDINGS = 8
"""So many roundings of the largest logit, where numbers have 16 bits."""


class GroupLayer(CacheLayerMixin):
    """One layer's keys and values [B, heads, capacity, D], written in place. Attention reads them
    whole, what is not yet filled too: memory without gaps is read three times as fast on a CPU.
    `memory` is what they lie in, of as many positions or more."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.memory: tuple[torch.Tensor, ...] = ()

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.memory = self.keys, self.values
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

    def grow(self, capacity: int, rows: torch.Tensor | None = None, room: int = 0) -> None:
        """Extend all or the given rows to `capacity` positions, which are zero at first, in memory
        for `room` of them at least."""
        if rows is not None or capacity > self.memory[0].shape[2]:
            rows = torch.arange(len(self.keys), device=self.keys.device) if rows is None else rows
            grown = []
            for old in (self.keys, self.values):
                new = old.new_zeros(len(rows), old.shape[1], max(capacity, room), old.shape[3])
                filled, place = old[:, :, : self.length], new[:, :, : self.length]
                torch.index_select(filled, 0, rows, out=place)
                grown.append(new)
            self.memory = tuple(grown)
        self.keys, self.values = (states[:, :, :capacity] for states in self.memory)

    def move(self, rows: torch.Tensor, places: torch.Tensor, left: int) -> None:
        """Move rows to these places, and keep the first `left`."""
        for states in (self.keys, self.values):
            states[places] = states[rows]
        self.keys, self.values = self.keys[:left], self.values[:left]
        self.memory = tuple(states[:left] for states in self.memory)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class GroupCache(Cache):
    """The caches of all layers for one decoding batch."""

    layers: list[Any]
    bias: torch.Tensor
    """[B, capacity]: 0 for the positions that a row sees, else -inf."""
    room = 0
    """Positions that memory is taken for, in a multiple of 8; 0 where it is taken as they come."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GroupLayer)

    def append(self, longer: "GroupCache") -> None:
        """Add the rows of another cache, which has at least as many positions."""
        for layer, more in zip(self.layers, longer.layers, strict=False):  # at first it has none
            layer.grow(more.length)
            layer.keys = torch.cat([layer.keys, more.keys])
            layer.values = torch.cat([layer.values, more.values])
            layer.memory, layer.length = (layer.keys, layer.values), more.length
        self.layers = self.layers or longer.layers

    def start(self, rows: torch.Tensor, lengths: torch.Tensor, more: int = _GROWTH) -> None:
        """Repeat the given rows, of which the first `lengths` positions are no padding, for `more`
        tokens."""
        if lengths.is_cuda:
            self.room = -(-(self.get_seq_length() + more) // 8) * 8
        capacity = self._wider()
        for layer in self.layers:
            layer.grow(capacity, rows, self.room)
        seen = torch.arange(capacity, device=lengths.device) < lengths[rows, None]
        like = self.layers[0].keys
        self.bias = torch.full_like(seen, -torch.inf, dtype=like.dtype).masked_fill_(seen, 0)

    def open(self) -> torch.Tensor:
        """Let every row see the position that comes next; return the bias of all."""
        length = self.get_seq_length()
        if length == self.bias.shape[1]:
            capacity = self._wider()
            for layer in self.layers:
                layer.grow(capacity)
            self.bias = F.pad(self.bias, (0, capacity - length), value=-torch.inf)
        self.bias[:, length] = 0
        return self.bias

    def _wider(self) -> int:
        """Return a capacity beyond the positions that are filled."""
        length = self.get_seq_length()
        if not self.room:
            return length + _GROWTH
        return min(self.room, (length // _SLAB + 1) * _SLAB)

    def keep(self, rows: torch.Tensor) -> None:
        """Keep the given rows, which the CPU has chosen, in this order; those that are in their
        place are not copied."""
        places = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        moved, places = (send(numbers, self.bias.device) for numbers in (rows[places], places))
        self.bias[places] = self.bias[moved]
        self.bias = self.bias[: len(rows)]
        for layer in self.layers:
            layer.move(moved, places, len(rows))


def moved_up(done_B: torch.Tensor, left: int) -> torch.Tensor:
    """Return the numbers of the `left` unfinished rows: each in its own place, those from behind in
    the places of finished ones."""
    rows = torch.arange(left, device=done_B.device)
    rows[done_B[:left]] = left + (~done_B[left:]).nonzero()[:, 0]
    return rows


class QuickLayers:
    """Computes the layers of a model with half the operations of its modules: their overhead is
    what a step of a small model costs on a CPU. Reads the model's own weights, always current."""

    def __init__(self, model: Any) -> None:
        self.body, self.head = model.base_model, model.get_output_embeddings()

    def logits(
        self, token_B: torch.Tensor, position_B: torch.Tensor, cache: GroupCache
    ) -> torch.Tensor:
        """Compute logits [B, V] after one more token a row at its own position."""
        B, mask = len(token_B), cache.open()[:, None, None]
        bias = mask.expand(-1, cache.layers[0].keys.shape[1], -1, -1).flatten(0, 1)
        hidden = F.embedding(token_B, self.body.embed_tokens.weight)
        is_half = torch.finfo(hidden.dtype).bits <= 16
        cos, sin = self.body.rotary_emb(hidden, position_B[:, None])
        D = cos.shape[-1]
        sin = torch.cat([-sin[..., : D // 2], sin[..., D // 2 :]], -1)
        for index, layer in enumerate(self.body.layers):
            normed, attention = _normed(layer.input_layernorm, hidden), layer.self_attn
            query, key = _linear(attention.q_proj, normed), _linear(attention.k_proj, normed)
            value = _linear(attention.v_proj, normed)
            heads, kv_heads = query.shape[1] // D, key.shape[1] // D
            turned = torch.cat([query, key], 1).view(B, -1, D)
            turned = torch.addcmul(turned * cos, turned.roll(D // 2, -1), sin)
            keys, values = cache.update(
                turned[:, heads:, None], value.view(B, kv_heads, 1, D), index
            )
            # Heads that share a key are queries of one matrix.
            queries = turned[:, :heads].unflatten(1, (kv_heads, -1))
            if is_half:  # its kernel rounds no scores
                mixed = F.scaled_dot_product_attention(
                    queries, keys, values, attn_mask=mask, scale=attention.scaling
                )
            else:
                keys = keys.flatten(0, 1).transpose(1, 2)
                scores = torch.baddbmm(bias, queries.flatten(0, 1), keys, alpha=attention.scaling)
                mixed = torch.bmm(torch.softmax(scores, -1), values.flatten(0, 1))
            hidden = hidden + _linear(attention.o_proj, mixed.reshape(B, -1))
            normed, mlp = _normed(layer.post_attention_layernorm, hidden), layer.mlp
            gate = mlp.act_fn(_linear(mlp.gate_proj, normed))
            hidden = hidden + _linear(mlp.down_proj, gate.mul_(_linear(mlp.up_proj, normed)))
        return _linear(self.head, _normed(self.body.norm, hidden))


@torch.inference_mode()
def quick_layers(model: Any) -> QuickLayers | None:
    """Return the quick layers of a model that has Llama's weights and no others, if they give the
    model's own logits; None for any other, which decodes through its modules."""
    layers = getattr(model.base_model, "layers", ())
    weights = [{name for name, _ in layer.named_parameters()} - _BIASES for layer in layers]
    if not weights or any(names != _WEIGHTS for names in weights):
        return None
    quick, cache, device = QuickLayers(model), GroupCache(), model.device
    ids = torch.tensor([[1, 2, 3, 2], [3, 0, 1, 1]], device=device)
    rows, lengths = torch.arange(2, device=device), torch.tensor([3, 3], device=device)
    try:
        model.base_model(input_ids=ids[:, :-1], past_key_values=cache, use_cache=True)
        cache.start(rows, lengths)
        logits = quick.logits(ids[:, -1], lengths, cache)
        own = model(input_ids=ids, use_cache=False).logits[:, -1]
    except Exception:  # whatever a model does with what it does not know
        return None
    off = _OFF if device.type == "cpu" else max(_OFF, _ROUNDINGS * torch.finfo(own.dtype).eps)
    is_right = (logits - own).abs() <= off * own.abs().max()
    return quick if bool(is_right.all()) else None


def _linear(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    return F.linear(hidden, module.weight, module.bias)


def _normed(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)
