"""Weights, gradients and moments shared out over the processes, a slice of the rows each.

Stored as torch's FSDP2 stores them, a DTensor per parameter; put together for as long as a layer is
computed (`model.units`), all weights of a layer in one message, their gradients summed in another.
Without hooks on the model there is no state that a forward pass could leave behind.
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks.group import world

_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_SCATTER_SUM = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
"""By their names since torch 2.13, or those before."""


def shard(*modules: torch.nn.Module) -> None:
    """Share out the modules' parameters, each once. Raises UserError for one that cannot be."""
    if world() == 1:
        return
    made: dict[int, torch.nn.Parameter] = {}
    for part in (part for module in modules for part in module.modules()):
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False):
            if isinstance(parameter, DTensor):
                continue
            if not parameter.dim():
                raise UserError(
                    f"{type(part).__name__}.{name} is a single number, which several processes "
                    "cannot share out: leave --processes out"
                )
            if id(parameter) not in made:
                mesh = _mesh("cuda" if torch.cuda.is_available() else "cpu")
                own = distribute_tensor(parameter.detach(), mesh, [Shard(0)], src_data_rank=None)
                made[id(parameter)] = torch.nn.Parameter(own, parameter.requires_grad)
            part.register_parameter(name, made[id(parameter)])


@cache
def _mesh(device: str) -> DeviceMesh:
    return init_device_mesh(device, (world(),))


def is_shared(tensor: torch.Tensor) -> bool:
    """Return whether this process has only a slice of the tensor."""
    return isinstance(tensor, DTensor)


def reaches_all(tensor: torch.Tensor) -> bool:
    """Return whether the rows of a whole tensor are enough for each process to have some."""
    return -(-len(tensor) // world()) * (world() - 1) < len(tensor)


def own_slice(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this process has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor put together; all processes call it alike."""
    if not isinstance(tensor, DTensor):
        return tensor
    if not tensor.dim():
        return tensor.full_tensor()
    flat = _padded(tensor.to_local(), _numbers(tensor))
    return _rows(_end_to_end(flat), tensor)


def spread(tensor: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """Return a whole tensor in the way that `like` is stored, if they have one shape."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    device = tensor.to(like.device)
    return distribute_tensor(device, like.device_mesh, like.placements, src_data_rank=None)


def whole_copy(model: Any) -> Any:
    """Return a copy of the model with whole weights of its own; all processes call it alike."""
    weights = {id(one): one for one in model.parameters()}
    return deepcopy(
        model,
        {
            key: torch.nn.Parameter(whole(one.detach().clone()), one.requires_grad)
            for key, one in weights.items()
        },
    )


def gathered_weights(
    weights: Mapping[str, torch.Tensor], dtype: torch.dtype | None
) -> dict[str, torch.Tensor]:
    """Return whole weights in this type (None: their own), whose gradients go back to the slices
    summed over the processes; weights that are whole as they are."""
    found = dict(weights)
    kinds: dict[torch.dtype, list[str]] = {}
    for name, weight in weights.items():
        if isinstance(weight, DTensor):
            kinds.setdefault(weight.dtype, []).append(name)
    for kind, names in kinds.items():
        made = _Gathered.apply(dtype or kind, *(weights[name] for name in names))
        found |= dict(zip(names, made, strict=True))
    return found


class _Gathered(torch.autograd.Function):
    """All weights of a layer in one message. One function for all of them, so that it runs backward
    in every process, whichever weights were used there (the experts of a mixture)."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: DTensor) -> tuple[torch.Tensor, ...]:
        ctx.weights = weights
        flat = torch.cat([_padded(w.to_local().to(dtype), _numbers(w)) for w in weights])
        parts = _end_to_end(flat).view(world(), -1).split([_numbers(w) for w in weights], 1)
        return tuple(_rows(part, w) for part, w in zip(parts, weights, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[DTensor | None, ...]:
        trained = [index for index, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        weights = [ctx.weights[index] for index in trained]
        exact = torch.promote_types(weights[0].dtype, torch.float32)
        rows = [
            _padded(gradients[index].to(exact), world() * _numbers(w)).view(world(), -1)
            for index, w in zip(trained, weights, strict=True)
        ]
        flat = torch.cat(rows, 1).flatten()
        own = flat.new_empty(len(flat) // world())
        _SCATTER_SUM(own, flat)
        found: list[DTensor | None] = [None] * len(gradients)
        parts = own.split([_numbers(w) for w in weights])
        for index, w, part in zip(trained, weights, parts, strict=True):
            local = w.to_local()
            found[index] = DTensor.from_local(
                part[: local.numel()].view(local.shape).to(w.dtype),
                *(w.device_mesh, w.placements),
                run_check=False,
                shape=w.shape,
                stride=w.stride(),
            )
        return None, *found


def _numbers(weight: torch.Tensor) -> int:
    """Return the numbers of the largest slice."""
    return -(-len(weight) // world()) * math.prod(weight.shape[1:])


def _rows(numbers: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the weight of the numbers that all slices have, padded and end to end."""
    return numbers.reshape(-1, *weight.shape[1:])[: len(weight)]


def _end_to_end(flat: torch.Tensor) -> torch.Tensor:
    """Return the numbers of all processes in their order; each has equally many."""
    found = flat.new_empty(world() * len(flat))
    _GATHER(found, flat)
    return found


def _padded(tensor: torch.Tensor, numbers: int) -> torch.Tensor:
    return F.pad(tensor.flatten(), (0, numbers - tensor.numel()))
