"""How a model's layers are computed: in which type, from weights that lie where, and whether what
they keep for the backward pass is kept or computed again."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rlvr_cli.ranks.shards import gathered_weights


@dataclass(frozen=True)
class Way:
    """How layers are computed, where it is not as they stand."""

    dtype: torch.dtype | None = None
    """Type of all numbers but sums; None: that of the weights. Gradients have the weights' own."""
    device: torch.device | None = None
    """Where weights are copied for as long as their layer is computed; None: they stay."""
    gathers: bool = False
    """Weights are shared out over processes: they are put together while a layer computes."""
    recomputes: bool = False
    """Only the input of a layer is kept: the backward pass computes the layer again."""


AS_IT_STANDS = Way()
_active: ContextVar[Way] = ContextVar("way", default=AS_IT_STANDS)


@contextmanager
def computed(way: Way) -> Iterator[None]:
    """Compute the layers of models prepared by `in_units` this way."""
    token = _active.set(way)
    try:
        yield
    finally:
        _active.reset(token)


def in_units(model: torch.nn.Module) -> None:
    """Let `computed` decide how the model's layers, and what stands outside of them, are computed.

    Names, types and weights stay as they are. transformers' own gradient checkpointing does nothing
    in evaluation mode, and drops the cache.
    """
    for unit in [*decoder_layers(model), *outside(model)]:
        if not isinstance(unit, _Unit):
            kind: Any = type(unit)
            unit.__class__ = _unit_class(kind)


def decoder_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the model's decoder layers; none where its code does not tell."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def outside(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules with own weights in no layer: embeddings, last norm, output layer."""
    inside = {id(part) for layer in decoder_layers(model) for part in layer.modules()}
    return [
        module
        for module in model.modules()
        if id(module) not in inside and next(module.parameters(recurse=False), None) is not None
    ]


class _Unit:
    """Mixed into the class of a layer."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        way = _active.get()
        if way == AS_IT_STANDS:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]

        def run(*args: Any, **kwargs: Any) -> Any:
            own = dict(self.named_parameters())  # type: ignore[attr-defined]
            weights = {
                name: weight.to(way.device, way.dtype, non_blocking=True)
                for name, weight in gathered_weights(own, way.dtype).items()
            }
            with computed(AS_IT_STANDS):
                return functional_call(self, weights, args, kwargs)  # type: ignore[arg-type]

        is_layer = isinstance(self, GradientCheckpointingLayer)
        if way.recomputes and torch.is_grad_enabled() and is_layer:
            return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
        return run(*args, **kwargs)


@cache
def _unit_class(kind: Any) -> type:
    return type(kind.__name__, (_Unit, kind), {"__module__": kind.__module__})
