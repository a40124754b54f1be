"""What a trainer knows beside its weights, as JSON and tensors: enough to go on bit for bit."""

from collections.abc import Sequence
from typing import Any

import torch

from rlvr_cli.checkpoint import State
from rlvr_cli.trainer import Trainer
from rlvr_cli.types import Completion, Group, Prompt, Rollout
from verifiers import Verdict, Verification


def state_of(trainer: Trainer) -> State:
    """The state at the end of a step. Tensors are the trainer's own: save them before the next
    update."""
    updater = trainer.updater
    values = {
        "problems": trainer.problems_digest,
        "cursor": trainer.cursor.position,
        "weight_version": trainer.weight_version,
        "rng": trainer.rng.getstate(),
        "carried": groups_as_json(trainer.collector.carried, trainer.prompts),
        "schedule": updater.schedule.state_dict(),
    }
    tensors = {"torch_rng": torch.get_rng_state()}
    _store_optimizer("optimizer", updater.optimizer, values, tensors)
    return State(values, tensors)


def restore(trainer: Trainer, state: State) -> None:
    """Put a new trainer where another was when `state_of` was taken; weights are not part of it."""
    values, updater = state.values, trainer.updater
    trainer.cursor.position = values["cursor"]
    trainer.weight_version = values["weight_version"]
    version, internal, gauss = values["rng"]
    trainer.rng.setstate((version, tuple(internal), gauss))
    trainer.collector.carried = groups_from_json(values["carried"], trainer.prompts)
    updater.schedule.load_state_dict(values["schedule"])
    torch.set_rng_state(state.tensors["torch_rng"])
    _load_optimizer("optimizer", updater.optimizer, state)


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


def _store_optimizer(
    name: str,
    optimizer: torch.optim.Optimizer,
    values: dict[str, Any],
    tensors: dict[str, torch.Tensor],
) -> None:
    state = optimizer.state_dict()
    values[name] = state["param_groups"]
    for parameter, entries in state["state"].items():
        tensors |= {f"{name}.{parameter}.{key}": value for key, value in entries.items()}


def _load_optimizer(name: str, optimizer: torch.optim.Optimizer, state: State) -> None:
    entries: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in state.tensors.items():
        if key.startswith(f"{name}."):
            parameter, _, entry = key.removeprefix(f"{name}.").partition(".")
            entries.setdefault(int(parameter), {})[entry] = tensor
    optimizer.load_state_dict({"state": entries, "param_groups": state.values[name]})
