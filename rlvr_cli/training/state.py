"""Weights and moments as flat tensors with names, so that safetensors and JSON hold a state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class State:
    """What a part of a run needs to go on: JSON values, and tensors by name."""

    values: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    def __or__(self, other: "State") -> "State":
        return State(self.values | other.values, self.tensors | other.tensors)


def module_state(name: str, module: torch.nn.Module) -> State:
    """Name the parameters; tied ones once."""
    found = module.named_parameters()
    return State({}, {f"{name}.{key}": value.detach() for key, value in found})


def load_module(name: str, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy what `module_state` named. Raises ValueError for another shape."""
    found = _part(name, tensors)
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if found[key].shape != parameter.shape:
                raise ValueError(f"{name}.{key} has another shape")
            parameter.copy_(found[key])


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Name the moments by the parameter's number."""
    state = optimizer.state_dict()
    tensors = {
        f"optimizer.{parameter}.{key}": value
        for parameter, entries in state["state"].items()
        for key, value in entries.items()
    }
    return State({"optimizer": state["param_groups"]}, tensors)


def load_optimizer(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Load what `optimizer_state` named. Raises ValueError for other settings or shapes."""
    entries: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in _part("optimizer", state.tensors).items():
        parameter, _, entry = key.partition(".")
        entries.setdefault(int(parameter), {})[entry] = tensor
    groups = state.values["optimizer"]
    if [group.keys() for group in groups] != [group.keys() for group in optimizer.param_groups]:
        raise ValueError("the optimizer's settings are not those of this run")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, found in entries.items():
        for entry, tensor in found.items():
            if tensor.dim() and tensor.shape != parameters[number].shape:
                raise ValueError(f"optimizer.{number}.{entry} has another shape")
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _part(name: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors called `NAME.…`, by the rest of their names."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
