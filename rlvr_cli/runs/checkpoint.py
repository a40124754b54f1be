"""Checkpoints: a plain Hugging Face model directory with the trainer's state in `trainer/` and
checksums of all files. No pickle: safetensors and JSON."""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.config import OF_A_MODEL, Config, as_yaml
from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import first_mistake, shown
from rlvr_cli.model.adapter import is_adapter, load_adapter, matrices, save_adapter_config
from rlvr_cli.model.loading import DEFAULTS_FILE, LoadedModel, step_directories
from rlvr_cli.model.pretrained import model_from_pretrained, stored_weights
from rlvr_cli.ranks.files import read_tensors, write_tensors
from rlvr_cli.ranks.group import by_the_first, is_first, spread
from rlvr_cli.runs.stored import StoredState, computing_settings
from rlvr_cli.training.state import State
from rlvr_cli.training.trainer import Trainer

_VALUES, _TENSORS = "trainer/state.json", "trainer/state.safetensors"
"""In `TRAINER_STATE`, which is no part of the model."""
_LARGEST_STATE = 1 << 30


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    step: int
    path: Path

    def integrity_error(self) -> str | None:
        """Describe what is wrong with its checksums, state or name; None if nothing is."""
        tensors = _TENSORS.replace(".", "*.")
        needed = (*files.weight_files(self.path), _VALUES, tensors)
        if reason := files.integrity_error(self.path, needed=needed):
            return reason
        try:
            self._values()
        except (OSError, ValueError) as error:
            return f"{_VALUES}: {error}"
        return None

    def load_state(self) -> State:
        """Read the state. Raises ValueError if it is invalid, or of another step."""
        return State(self._values(), read_tensors(self.path / _TENSORS))

    def _values(self) -> dict[str, Any]:
        text = files.read_regular(self.path / _VALUES, _LARGEST_STATE)
        values: dict[str, Any] = parse_json(text)
        try:
            StoredState.model_validate_json(text)
        except ValueError as error:
            raise ValueError(first_mistake(error)) from None
        if values["step"] != self.step:
            raise ValueError(f"it is of step {values['step']}")
        return values


def save_checkpoint(
    run: Path, step: int, policy: LoadedModel, config: Config, state: State
) -> Path:
    """Write `checkpoints/step-N` atomically; of several processes, which all come here, each its
    part of the files, of which it holds no more than one at a time.

    The settings that the policy was trained and measured with go along, so that `rlvr eval` on the
    run measures the same thing. So do the weights as they are, whatever type the start model came
    in: an update is often smaller than half a step of bfloat16, and rounded it would be undone.
    Raises OSError if it cannot be written.
    """
    has_adapter, model = config.lora.rank is not None, policy.model
    weights = matrices(model).items() if has_adapter else stored_weights(model)
    target = run / "checkpoints" / f"step-{step}"
    aside = files.partial_name(target)

    def begin() -> None:
        files.begin_directory(target)
        if has_adapter:
            model.config.save_pretrained(aside)
            save_adapter_config(model, policy.name, aside)
        else:
            model.save_pretrained(aside, state_dict={})
        policy.tokenizer.save_pretrained(aside)
        (aside / DEFAULTS_FILE).write_text(as_yaml(config, OF_A_MODEL), encoding="utf-8")
        (aside / _VALUES).parent.mkdir()
        (aside / _VALUES).write_text(json.dumps(state.values), encoding="utf-8")

    def end() -> None:
        manifest = {
            str(path.relative_to(aside)): checksums.get(path.name) or files.sha256(path)
            for path in sorted(aside.rglob("*"))
            if path.is_file()
        }
        (aside / files.MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        files.end_directory(aside, target)

    try:
        by_the_first(begin)
        name = files.ADAPTER_FILES[1] if has_adapter else "model.safetensors"
        checksums = write_tensors(aside / name, weights)
        checksums |= write_tensors(aside / _TENSORS, state.tensors.items())
        by_the_first(end)
    except BaseException:
        if is_first():
            shutil.rmtree(aside, ignore_errors=True)
        raise
    return target


def check_savable(policy: LoadedModel) -> None:
    """Save all but the weights once, aside. Raises UserError for a model that cannot be saved."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            policy.model.save_pretrained(directory, state_dict={})
            policy.tokenizer.save_pretrained(directory)
    except Exception as error:  # whatever transformers refuses to write
        reason = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        wrong = f"it cannot be saved again ({reason})"
        raise UserError(f"{policy.directory}: {wrong}; take another model") from None


def load_weights(checkpoint: Checkpoint, model: Any) -> None:
    """Copy weights or adapter into `model`, of one shape. Raises UserError if some are missing."""
    if is_adapter(checkpoint.path):
        load_adapter(model, checkpoint.path)
        return
    try:
        loaded = model_from_pretrained(type(model), checkpoint.path, dtype=model.dtype)
    except UserError as error:
        raise UserError(f"{checkpoint.path} cannot be loaded ({error})") from None
    own = model.state_dict()
    model.load_state_dict({k: spread(t, own.get(k)) for k, t in loaded.state_dict().items()})


def checkpoints(run: Path) -> list[Checkpoint]:
    """List the run's checkpoints, newest first, damaged ones included."""
    return [Checkpoint(*one) for one in step_directories(run)]


def whole_checkpoints(run: Path, warn: Callable[[str], None]) -> Iterator[Checkpoint]:
    """Yield the checkpoints that are whole, newest first, and warn of the others. Raises UserError
    where no further one is whole; ends at once where there never was one."""
    found = checkpoints(run)
    for checkpoint in found:
        if reason := checkpoint.integrity_error():
            warn(f"{checkpoint.path} is damaged: {reason}")
        else:
            yield checkpoint
    if found:
        raise UserError(f"{run}: no checkpoint is whole; start a new run")


def remove_checkpoints(run: Path, steps: Collection[int]) -> None:
    """Let the first process remove the checkpoints of those steps."""
    for checkpoint in checkpoints(run) if is_first() else ():
        if checkpoint.step in steps:
            files.remove_directory(checkpoint.path)


def prunable(steps: Collection[int], keep: int, best: int | None) -> set[int]:
    """Return the steps to remove: all but the newest `keep` and the best."""
    return set(sorted(steps)[:-keep]) - {best}


class OtherRunError(UserError):
    """A saved state is of a run with other problems, weights or settings."""


def state_of(trainer: Trainer) -> State:
    """Return the state at the end of a step, with what identifies its run."""
    identity = {
        "settings": computing_settings(trainer.config),
        "problems": trainer.problems_digest,
        "start": trainer.start_digest,
    }
    return State(identity, {}) | trainer.state_dict()


def restore(trainer: Trainer, state: State) -> None:
    """Restore a trainer from `state_of`'s state; its policy has its weights already. Raises
    OtherRunError if its problems, its reference policy or its settings are not those of the other,
    and whatever else a state that is none leads to."""
    config, then = trainer.config, state.values["settings"]
    now = computing_settings(config)
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            found = f"{key} is {shown(now.get(key))} there, and the run computes with"
            value = shown(then.get(key))
            raise OtherRunError(f"config.yaml was edited: {found} {value}; put it back")
    changed = None
    if state.values["problems"] != trainer.problems_digest:
        changed = f"the problems of {', '.join(config.data.sources)}, or prompts"
    elif state.values["start"] != trainer.start_digest:
        changed = f"the weights of {config.model}, the reference policy,"
    if changed is not None:
        remedy = "restore them, or start a new run"
        raise OtherRunError(f"{changed} are not those that the run began with; {remedy}")
    trainer.load_state_dict(state)
