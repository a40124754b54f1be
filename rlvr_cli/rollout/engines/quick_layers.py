"""Decode a token a row through layers of Llama's build, without the cost of their modules."""

from typing import Any

import torch
import torch.nn.functional as F

from rlvr_cli.rollout.engines.kv_cache import GroupCache

_LINEAR = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
_WEIGHTS = {f"{name}.weight" for name in (*_LINEAR, "input_layernorm", "post_attention_layernorm")}
_BIASES = {f"{name}.bias" for name in _LINEAR}
_OFF = 1e-4
"""The part of the largest logit that may be due to another order of summation."""


class QuickLayers:
    """The layers of a model in half the operations that its modules take, which are what a step
    of a small model costs on a CPU. Weights are read where they are: they are always current."""

    def __init__(self, model: Any) -> None:
        self.body, self.head = model.base_model, model.get_output_embeddings()

    def logits(
        self, token_B: torch.Tensor, position_B: torch.Tensor, cache: GroupCache
    ) -> torch.Tensor:
        """Compute logits [B, V] after one more token a row at its own position."""
        B = len(token_B)
        bias = cache.open()[:, None, None].expand(-1, cache.layers[0].keys.shape[1], -1, -1)
        bias = bias.flatten(0, 1)
        hidden = F.embedding(token_B, self.body.embed_tokens.weight)
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
            queries = turned[:, :heads].reshape(B * kv_heads, -1, D)
            keys = keys.flatten(0, 1).transpose(1, 2)
            scores = torch.baddbmm(bias, queries, keys, alpha=attention.scaling)
            found = torch.bmm(torch.softmax(scores, -1), values.flatten(0, 1)).view(B, -1)
            hidden = hidden + _linear(attention.o_proj, found)
            normed, mlp = _normed(layer.post_attention_layernorm, hidden), layer.mlp
            gate = mlp.act_fn(_linear(mlp.gate_proj, normed))
            hidden = hidden + _linear(mlp.down_proj, gate.mul_(_linear(mlp.up_proj, normed)))
        return _linear(self.head, _normed(self.body.norm, hidden))


def quick_layers(model: Any) -> QuickLayers | None:
    """Return the layers of a model on a CPU whose weights are those of Llama's build and no more,
    if they give its own logits; None of any other, which decodes through its modules."""
    layers = getattr(model.base_model, "layers", ())
    weights = [{name for name, _ in layer.named_parameters()} - _BIASES for layer in layers]
    if model.device.type != "cpu" or not weights or any(names != _WEIGHTS for names in weights):
        return None
    quick, cache = QuickLayers(model), GroupCache()
    ids = torch.tensor([[1, 2, 3, 2], [3, 0, 1, 1]])
    try:
        with torch.inference_mode():
            model.base_model(input_ids=ids[:, :-1], past_key_values=cache, use_cache=True)
            cache.start(torch.arange(2), torch.tensor([3, 3]))
            found = quick.logits(ids[:, -1], torch.tensor([3, 3]), cache)
            own = model(input_ids=ids, use_cache=False).logits[:, -1]
    except Exception:  # whatever a model does with what it does not know
        return None
    is_right = (found - own).abs() <= _OFF * own.abs().max()
    return quick if bool(is_right.all()) else None


def _linear(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    return F.linear(hidden, module.weight, module.bias)


def _normed(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)
