"""Flatten weights and moments to named tensors, for safetensors and JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.model.adapter import layers
from rlvr_cli.ranks.group import spread


@dataclass(frozen=True)
class State:
    """The state that a part of a run resumes from: JSON values, and tensors by name."""

    values: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    def __or__(self, other: "State") -> "State":
        return State(self.values | other.values, self.tensors | other.tensors)


def module_state(name: str, module: torch.nn.Module) -> State:
    """Return the parameters by name, tied ones once; beside an adapter not the frozen ones."""
    return State({}, {f"{name}.{key}": p.detach() for key, p in _changing(module)})


def load_module(name: str, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy the parameters of `module_state`. Raises ValueError if a shape differs."""
    found = part(name, tensors)
    with torch.no_grad():
        for key, parameter in _changing(module):
            if found[key].shape != parameter.shape:
                raise ValueError(f"{name}.{key} has another shape")
            parameter.copy_(spread(found[key], parameter))


def _changing(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    is_whole = not layers(module)
    for key, parameter in module.named_parameters():
        if is_whole or parameter.requires_grad or ".lora_" in key:
            yield key, parameter


def part(name: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors called `NAME.…`, by the rest of their names."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
