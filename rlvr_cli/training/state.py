"""Flatten weights and moments to named tensors, for safetensors and JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.model.adapter import layers
from rlvr_cli.ranks.group import shard_as
from rlvr_cli.training.optimizer import moment_shapes


@dataclass(frozen=True)
class State:
    """The state that a part of a run resumes from: JSON values, and tensors by name."""

    values: JsonObject
    tensors: dict[str, Tensor]

    def __or__(self, other: "State") -> "State":
        return State(self.values | other.values, self.tensors | other.tensors)


@dataclass(frozen=True)
class TrainerValues:
    """The values of a trainer's state. Version 0.2 had neither `resting` nor `mismatch`."""

    step: int
    weight_version: int
    kl_coef: float
    cursor: int
    carried: list[JsonObject]
    """Groups that wait for the next step (`groups_as_json`)."""
    mismatch: float | None = None
    resting: list[tuple[int, int, int]] = field(default_factory=list)
    """Problems that rest: number, passes of the rest, first pass after it."""
    open: list[JsonObject] = field(default_factory=list)
    """Groups whose turn has not come (`open_groups_as_json`), in a run with partial rollouts."""
    ahead: JsonObject | None = None
    """The batch of the next step (`batch_as_json`), in a run with `rollout.ahead`."""


@dataclass(frozen=True)
class UpdaterValues:
    """The values of an updater's state."""

    optimizer: list[JsonObject]
    """The settings of its groups of parameters."""
    loss_scale: JsonObject = field(default_factory=dict)
    """GradScaler's. Only runs in float16 have it."""


TRAINER_VALUES = TypeAdapter(TrainerValues)
UPDATER_VALUES = TypeAdapter(UpdaterValues)
"""They take what they know out of the values of a run."""


def module_state(name: str, module: Module) -> State:
    """Return the parameters by name, tied ones once. With an adapter, leave out the frozen ones."""
    return State({}, {f"{name}.{key}": p.detach() for key, p in _changing(module)})


def load_module(name: str, module: Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the parameters of `module_state`. Raises ValueError if a shape differs."""
    stored = part(name, tensors)
    with torch.no_grad():
        for key, parameter in _changing(module):
            if stored[key].shape != parameter.shape:
                raise ValueError(f"{name}.{key} has another shape")
            parameter.copy_(shard_as(stored[key], parameter))


def _changing(module: Module) -> Iterator[tuple[str, Parameter]]:
    has_adapter = bool(layers(module))
    for key, parameter in module.named_parameters():
        if not has_adapter or parameter.requires_grad or ".lora_" in key:
            yield key, parameter


def part(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors called `NAME.…`, by the rest of their names."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}


def optimizer_state(optimizer: Optimizer) -> State:
    """Return moments by number of parameter."""
    state = optimizer.state_dict()
    tensors = {
        f"optimizer.{number}.{name}": tensor
        for number, moments in state["state"].items()
        for name, tensor in moments.items()
    }
    return State({"optimizer": state["param_groups"]}, tensors)


def load_optimizer(optimizer: Optimizer, state: State) -> None:
    """Load what `optimizer_state` returned, after the model's weights were loaded. Raises
    ValueError if settings or shapes differ."""
    groups: list[JsonObject] = optimizer.param_groups
    stored_groups = UPDATER_VALUES.validate_python(state.values).optimizer
    if _outline(groups) != _outline(stored_groups):
        raise ValueError("the optimizer's settings are not those of this run")
    parameters = [parameter for group in groups for parameter in group["params"]]
    stored: dict[int, dict[str, Tensor]] = {}
    for key, tensor in part("optimizer", state.tensors).items():
        index, _, name = key.partition(".")
        number = int(index)
        parameter = parameters[number]
        device = parameter.device
        if name == "step":
            device = tensor.device
        elif tensor.shape != moment_shapes(optimizer, parameter).get(name):
            raise ValueError(f"optimizer.{number}: moments of another shape")
        # Copied, because a stored tensor is mapped from its file.
        moment = shard_as(tensor, parameter).to(device, copy=True)
        stored.setdefault(number, {})[name] = moment
    optimizer.load_state_dict({"state": stored, "param_groups": stored_groups})


def _outline(groups: list[JsonObject]) -> list[Any]:
    """Return the names of each group's settings, and the number of its parameters."""
    return [(set(group), len(group["params"])) for group in groups]
