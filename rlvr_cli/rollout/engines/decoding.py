"""Decode one token a row, with a cache for groups and a quick forward pass of Llama's layers.

The cache is filled once a prompt, repeated for its group, and freed of finished rows. The forward
pass spares the overhead of the model's modules.
"""

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear
from transformers.cache_utils import Cache, CacheLayerMixin

from rlvr_cli.model.packing import send

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_GROWTH = 16
"""Positions by which the cache of a CPU grows at once."""
_SLAB = 64
"""Positions by which a GPU reads more of the memory that it has from the start: copies of all keys,
each of another size, would leave it in pieces. Its attention needs masks of a multiple of 8."""
_LINEAR = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
_WEIGHTS = {f"{name}.weight" for name in (*_LINEAR, "input_layernorm", "post_attention_layernorm")}
_BIASES = {f"{name}.bias" for name in _LINEAR}
_TOLERANCE = 1e-4
"""The difference, as a share of the largest logit, that another order of summation may cause."""
_ROUNDINGS = 8
"""The tolerance in roundings of the largest logit, for numbers of 16 bits."""
_TRIED = (8, 6)
"""Rows, and tokens of each, on which the quick layers are tried."""
_AGREEING = 0.75
"""The share of these rows that must be within the tolerance in 16 bits, where a model can amplify a
rounding: after the control tokens 1 2 3 2, SmolLM2 in bfloat16 is 0.7 of its largest logit off
itself. What the layers compute wrong is wrong in all rows."""


class GroupLayer(CacheLayerMixin):
    """One layer's keys and values [B, heads, capacity, D], written in place.

    Attention reads all of them, even positions that are not filled yet, because a CPU reads memory
    without gaps three times as fast. `memory` holds them, and may have more positions.
    """

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.memory: tuple[Tensor, ...] = ()

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = key_states[:, :, :0]
        self.values = value_states[:, :, :0]
        self.memory = (self.keys, self.values)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append the new positions, and return all of them with the room that follows."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        if end > self.keys.shape[2]:
            self.grow(end)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys, self.values

    def grow(self, capacity: int, rows: Tensor | None = None, room: int = 0) -> None:
        """Extend all rows, or select these and extend them, to `capacity` positions.

        New positions are zero. New memory has `room` positions at least.
        """
        if rows is None and capacity > self.memory[0].shape[2]:
            rows = torch.arange(len(self.keys), device=self.keys.device)
        if rows is not None:
            grown = []
            for old in (self.keys, self.values):
                new = old.new_zeros(len(rows), old.shape[1], max(capacity, room), old.shape[3])
                filled = old[:, :, : self.length]
                torch.index_select(filled, 0, rows, out=new[:, :, : self.length])
                grown.append(new)
            self.memory = tuple(grown)
        self.keys, self.values = (states[:, :, :capacity] for states in self.memory)

    def add_rows(self, count: int) -> None:
        """Append rows of zeros."""
        capacity = self.keys.shape[2]
        self.memory = tuple(F.pad(states, (0, 0, 0, 0, 0, 0, 0, count)) for states in self.memory)
        self.keys, self.values = (states[:, :, :capacity] for states in self.memory)

    def move(self, rows: Tensor, places: Tensor, count: int) -> None:
        """Move rows to these places, and keep the first `count` rows."""
        for states in (self.keys, self.values):
            states[places] = states[rows]
        self.keys = self.keys[:count]
        self.values = self.values[:count]
        self.memory = tuple(states[:count] for states in self.memory)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class GroupCache(Cache):
    """The caches of all layers for one decoding batch."""

    layers: list[GroupLayer]
    bias: Tensor
    """[B, capacity]: 0 for the positions that a row sees, else -inf."""
    room = 0
    """Positions that memory is allocated for, a multiple of 8, or 0 if it grows step by step."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GroupLayer)

    def append(self, longer: "GroupCache") -> None:
        """Add the rows of another cache, which has at least as many positions."""
        if not self.layers:
            self.layers = longer.layers
            return
        for layer, longer_layer in zip(self.layers, longer.layers, strict=True):
            layer.grow(longer_layer.length)
            layer.keys = torch.cat([layer.keys, longer_layer.keys])
            layer.values = torch.cat([layer.values, longer_layer.values])
            layer.memory = (layer.keys, layer.values)
            layer.length = longer_layer.length

    def start(self, rows: Tensor, lengths: Tensor, max_tokens: int = _GROWTH) -> None:
        """Select these rows, which may repeat, and make room for `max_tokens` tokens after each.

        The first `lengths` positions of the cache's rows are tokens, the others padding.
        """
        if lengths.is_cuda:
            self.room = -(-(self.get_seq_length() + max_tokens) // 8) * 8
        capacity = self._wider(self.get_seq_length())
        for layer in self.layers:
            layer.grow(capacity, rows, self.room)
        is_token = torch.arange(capacity, device=lengths.device) < lengths[rows, None]
        dtype = self.layers[0].keys.dtype
        self.bias = torch.full_like(is_token, -torch.inf, dtype=dtype).masked_fill_(is_token, 0)

    def open(self) -> Tensor:
        """Let every row see the position that comes next, and return the bias of all positions."""
        length = self.get_seq_length()
        self._make_room(length)
        self.bias[:, length] = 0
        return self.bias

    def put(self, places: Tensor, joining: "GroupCache", rows: int) -> None:
        """Put the rows of another cache into these places of `rows`, to go on with the others.

        Where it has more positions, those of the others are left empty.
        """
        length = joining.get_seq_length()
        self._make_room(length)
        added = rows - len(self.bias)
        if added > 0:
            self.bias = F.pad(self.bias, (0, 0, 0, added), value=-torch.inf)
            for layer in self.layers:
                layer.add_rows(added)
        self.bias[places] = -torch.inf
        self.bias[places, :length] = joining.bias[:, :length]
        for layer, joining_layer in zip(self.layers, joining.layers, strict=True):
            layer.keys[places, :, :length] = joining_layer.keys[:, :, :length]
            layer.values[places, :, :length] = joining_layer.values[:, :, :length]
            layer.length = max(layer.length, length)

    def _make_room(self, position: int) -> None:
        """Grow until there is room for this position."""
        capacity = self.bias.shape[1]
        if position >= capacity:
            wider = self._wider(position)
            for layer in self.layers:
                layer.grow(wider)
            self.bias = F.pad(self.bias, (0, wider - capacity), value=-torch.inf)

    def _wider(self, length: int) -> int:
        """Return a capacity beyond this number of positions."""
        if not self.room:
            return length + _GROWTH
        return min(self.room, (length // _SLAB + 1) * _SLAB)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, whose numbers are on the CPU, in this order.

        Rows that are already in their places are not copied.
        """
        places = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        sources = send(rows[places], self.bias.device)
        places = send(places, self.bias.device)
        self.bias[places] = self.bias[sources]
        self.bias = self.bias[: len(rows)]
        for layer in self.layers:
            layer.move(sources, places, len(rows))


def compacted(done_B: Tensor, count: int) -> Tensor:
    """Return the numbers of the `count` unfinished rows, in an order that moves few of them.

    Those among the first `count` keep their places, and the others fill those of finished rows.
    """
    rows = torch.arange(count, device=done_B.device)
    rows[done_B[:count]] = count + (~done_B[count:]).nonzero()[:, 0]
    return rows


class QuickLayers:
    """Computes the layers of a model with half the operations of its modules.

    Their overhead is most of the time of a small model's step on a CPU. The weights are the model's
    own, so they are always current.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        self.body = model.base_model
        self.head = model.get_output_embeddings()

    def logits(self, token_B: Tensor, position_B: Tensor, cache: GroupCache) -> Tensor:
        """Compute logits [B, V] after one more token a row at its own position."""
        B = len(token_B)
        mask = cache.open()[:, None, None]
        bias = mask.expand(-1, cache.layers[0].keys.shape[1], -1, -1).flatten(0, 1)
        hidden = F.embedding(token_B, self.body.embed_tokens.weight)
        is_half = torch.finfo(hidden.dtype).bits <= 16
        cos, sin = self.body.rotary_emb(hidden, position_B[:, None])
        D = cos.shape[-1]
        sin = torch.cat([-sin[..., : D // 2], sin[..., D // 2 :]], -1)
        for index, layer in enumerate(self.body.layers):
            attention = layer.self_attn
            normed = _norm(layer.input_layernorm, hidden)
            query = _linear(attention.q_proj, normed)
            key = _linear(attention.k_proj, normed)
            value = _linear(attention.v_proj, normed)
            heads = query.shape[1] // D
            kv_heads = key.shape[1] // D
            rotated = torch.cat([query, key], 1).view(B, -1, D)
            rotated = torch.addcmul(rotated * cos, rotated.roll(D // 2, -1), sin)
            keys, values = cache.update(
                rotated[:, heads:, None], value.view(B, kv_heads, 1, D), index
            )
            # Heads that share a key are queries of one matrix.
            queries = rotated[:, :heads].unflatten(1, (kv_heads, -1))
            if is_half:  # its kernel rounds no scores
                mixed = F.scaled_dot_product_attention(
                    queries, keys, values, attn_mask=mask, scale=attention.scaling
                )
            else:
                keys = keys.flatten(0, 1).transpose(1, 2)
                scores = torch.baddbmm(bias, queries.flatten(0, 1), keys, alpha=attention.scaling)
                mixed = torch.bmm(torch.softmax(scores, -1), values.flatten(0, 1))
            hidden = hidden + _linear(attention.o_proj, mixed.reshape(B, -1))
            mlp = layer.mlp
            normed = _norm(layer.post_attention_layernorm, hidden)
            gate = mlp.act_fn(_linear(mlp.gate_proj, normed))
            hidden = hidden + _linear(mlp.down_proj, gate.mul_(_linear(mlp.up_proj, normed)))
        return _linear(self.head, _norm(self.body.norm, hidden))


@torch.inference_mode()
def quick_layers(model: "PreTrainedModel") -> QuickLayers | None:
    """Return the quick layers of a model that has Llama's weights and no others.

    Return None if they do not give the model's own logits, and for any other model, which decodes
    through its modules.
    """
    layers = getattr(model.base_model, "layers", ())
    names = [{name for name, _ in layer.named_parameters()} - _BIASES for layer in layers]
    if not names or any(layer_names != _WEIGHTS for layer_names in names):
        return None
    candidate = QuickLayers(model)
    cache = GroupCache()
    device = model.device
    B, T = _TRIED
    vocab_size = len(candidate.head.weight)
    ids = torch.randint(vocab_size, (B, T), generator=torch.Generator().manual_seed(0)).to(device)
    rows = torch.arange(B, device=device)
    lengths = torch.full((B,), T - 1, device=device)
    try:
        model.base_model(input_ids=ids[:, :-1], past_key_values=cache, use_cache=True)
        cache.start(rows, lengths)
        logits = candidate.logits(ids[:, -1], lengths, cache)
        expected = model(input_ids=ids, use_cache=False).logits[:, -1]
    except Exception:  # whatever a model does with what it does not know
        return None
    numbers = torch.finfo(expected.dtype)
    tolerance = max(_TOLERANCE, _ROUNDINGS * numbers.eps)
    is_right_BV = (logits - expected).abs() <= tolerance * expected.abs().amax(-1, keepdim=True)
    share = float(is_right_BV.all(-1).float().mean())
    return candidate if share >= (1.0 if numbers.bits > 16 else _AGREEING) else None


def _linear(module: Linear, hidden: Tensor) -> Tensor:
    return F.linear(hidden, module.weight, module.bias)


def _norm(norm: Any, hidden: Tensor) -> Tensor:
    return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)
