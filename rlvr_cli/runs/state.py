"""What a trainer knows beside its weights, as JSON and tensors: enough to go on bit for bit."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlvr_cli.core.text import shown
from rlvr_cli.core.types import Completion, Group, Prompt, Rollout, UserError
from rlvr_cli.runs.checkpoint import State
from rlvr_cli.runs.stored import computing_settings
from rlvr_cli.training.trainer import Trainer
from verifiers import Verdict, Verification


class OtherRunError(UserError):
    """A state that is of a run with other problems, weights or settings."""


def state_of(trainer: Trainer) -> State:
    """The state at the end of a step. Tensors are the trainer's own: save them before the next
    update."""
    updater, critic = trainer.updater, trainer.updater.critic
    values = {
        "step": trainer.step,
        "settings": computing_settings(trainer.config),
        "problems": trainer.problems_digest,
        "start": trainer.start_digest,
        "cursor": trainer.cursor.position,
        "weight_version": trainer.weight_version,
        "carried": groups_as_json(trainer.collector.carried, trainer.prompts),
        "kl_coef": trainer.objective.kl_coef,
    }
    tensors = {"torch_rng": torch.get_rng_state()}
    _store_optimizer(updater.optimizer, values, tensors)
    if critic is not None:
        _store_module("critic", critic, tensors)
    if trainer.reference is not None and trainer.config.algorithm.renewal:
        _store_module("reference", trainer.reference.model, tensors)
    return State(values, tensors)


def restore(trainer: Trainer, state: State) -> None:
    """Put a new trainer where another was when `state_of` was taken; weights are not part of it.

    Raises OtherRunError if its problems, its reference policy or its settings are not those of the
    other, and whatever else a state that is none leads to.
    """
    values, updater, critic = state.values, trainer.updater, trainer.updater.critic
    _check_same(trainer, values)
    trainer.cursor.position = values["cursor"]
    trainer.weight_version = values["weight_version"]
    trainer.collector.carried = groups_from_json(values["carried"], trainer.prompts)
    trainer.objective.kl_coef = values["kl_coef"]
    torch.set_rng_state(state.tensors["torch_rng"])
    _load_optimizer(updater.optimizer, state)
    if critic is not None:
        _load_module("critic", critic, state.tensors)
    if trainer.reference is not None and trainer.config.algorithm.renewal:
        _load_module("reference", trainer.reference.model, state.tensors)


def _check_same(trainer: Trainer, values: Mapping[str, Any]) -> None:
    config, then = trainer.config, values["settings"]
    now = computing_settings(config)
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            raise OtherRunError(
                f"config.yaml was edited: {key} is {shown(now.get(key))} there, and the run "
                f"computes with {shown(then.get(key))}; put it back, or start a new run"
            )
    for name, own, changed in (
        ("problems", trainer.problems_digest, f"the problems of {config.data.source}, or prompts"),
        ("start", trainer.start_digest, f"the weights of {config.model}, the reference policy,"),
    ):
        if values[name] != own:
            raise OtherRunError(
                f"{changed} are not those that the run began with; restore them, or start a new run"
            )


def groups_as_json(groups: Sequence[Group], prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    """Groups of these prompts; floats keep every bit in JSON."""
    index = {id(prompt): number for number, prompt in enumerate(prompts)}
    return [
        {
            "prompt": index[id(group.prompt)],
            "weight_version": group.weight_version,
            "rollouts": [
                {
                    "text": rollout.text,
                    "completion": vars(rollout.completion),
                    "verification": rollout.verification and vars(rollout.verification),
                    "reward": rollout.reward,
                }
                for rollout in group.rollouts
            ],
        }
        for group in groups
    ]


def groups_from_json(rows: Sequence[dict[str, Any]], prompts: Sequence[Prompt]) -> list[Group]:
    """The inverse of `groups_as_json`."""
    return [
        Group(
            prompts[row["prompt"]],
            tuple(
                _rollout(prompts[row["prompt"]], sample, found)
                for sample, found in enumerate(row["rollouts"])
            ),
            row["weight_version"],
        )
        for row in rows
    ]


def _rollout(prompt: Prompt, sample: int, row: dict[str, Any]) -> Rollout:
    verification = row["verification"]
    if verification is not None:
        verdict = Verdict(verification["verdict"])
        verification = Verification(**{**verification, "verdict": verdict})
    completion = Completion(**row["completion"])
    return Rollout(prompt, sample, completion, row["text"], verification, row["reward"])


def _store_module(name: str, module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """The parameters; tied ones once."""
    tensors |= {f"{name}.{key}": value.detach() for key, value in module.named_parameters()}


def _load_module(name: str, module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    found = _part(name, tensors)
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if found[key].shape != parameter.shape:
                raise ValueError(f"{name}.{key} has another shape")
            parameter.copy_(found[key])


def _store_optimizer(
    optimizer: torch.optim.Optimizer, values: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    state = optimizer.state_dict()
    values["optimizer"] = state["param_groups"]
    for parameter, entries in state["state"].items():
        tensors |= {f"optimizer.{parameter}.{key}": value for key, value in entries.items()}


def _load_optimizer(optimizer: torch.optim.Optimizer, state: State) -> None:
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
