"""Save and restore checkpoints: a Hugging Face model directory, the trainer's state in `trainer/`,
and the checksums of all files. It has only safetensors and JSON, never pickle."""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlvr_cli.config import MODEL_SETTINGS, Config, as_yaml, flat_settings, setting_at
from rlvr_cli.core import files
from rlvr_cli.core.carried import CarriedGroup, StoredOpenGroup
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, parse_json
from rlvr_cli.core.settings import CUSTOM, FORMER_CUSTOM
from rlvr_cli.core.stored import Count, Finite, Stored
from rlvr_cli.core.text import first_mistake, format_value, one_line
from rlvr_cli.model.adapter import is_adapter, load_adapter, matrices, save_adapter_config
from rlvr_cli.model.loading import DEFAULTS_FILE, LoadedModel, step_directories
from rlvr_cli.model.pretrained import model_from_pretrained, stored_weights
from rlvr_cli.ranks.group import by_the_first, full_tensor, is_first, shard_as
from rlvr_cli.runs.summary import Progress
from rlvr_cli.training.ahead import StoredBatch
from rlvr_cli.training.state import State
from rlvr_cli.training.trainer import Trainer

_VALUES = "trainer/state.json"
_TENSORS = "trainer/state.safetensors"
_LARGEST_STATE = 1 << 30
"""Bytes of a state.json at most."""
_LARGEST_FILE = 4 << 30
"""Bytes of a file of tensors at most, unless a single tensor has more."""


class StoredState(Stored):
    """The state.json of a checkpoint."""

    step: Count
    settings: JsonObject
    """`computing_settings` of the run."""
    problems: str
    start: str
    cursor: Count
    resting: list[Annotated[list[Count], Field(min_length=3, max_length=3)]] = Field([])
    """Problems that rest: number, passes of the rest, first pass after it. States of version 0.2
    and before have neither these nor the mismatch, and can still be read."""
    weight_version: Count
    carried: list[CarriedGroup]
    open: list[StoredOpenGroup] = Field([])
    """Groups whose turn has not come. Only runs with partial rollouts have any."""
    ahead: StoredBatch | None = Field(None)
    """The batch of the next step. Only runs with `rollout.ahead` have one."""
    kl_coef: Finite
    mismatch: Finite | None = None
    optimizer: list[JsonObject]
    loss_scale: JsonObject = Field({})
    """GradScaler's. Only runs in float16 have it."""
    progress: Progress
    torch: str | None = Field(None)
    """The version of torch that computed it. States of version 0.2 and before do not have it."""


@dataclass(frozen=True)
class RunValues:
    """The values of a run's state that its trainer does not have."""

    step: int
    settings: JsonObject
    """`computing_settings` of the run."""
    problems: str
    start: str
    progress: Progress
    torch: str | None = None


RUN_VALUES = TypeAdapter(RunValues)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    step: int
    path: Path

    def integrity_error(self) -> str | None:
        """Describe what is wrong with the checksums, the state or the step. Return None if nothing
        is."""
        tensors = _TENSORS.replace(".", "*.")  # one file or several
        needed = (*files.weight_files(self.path), _VALUES, tensors)
        reason = files.integrity_error(self.path, needed=needed)
        if reason is not None:
            return reason
        try:
            self._values()
        except (OSError, ValueError) as error:
            return f"{_VALUES}: {error}"
        return None

    def load_state(self) -> State:
        """Read the state. Raises ValueError if it is invalid or belongs to another step."""
        return State(self._values(), read_tensors(self.path / _TENSORS))

    def _values(self) -> JsonObject:
        text = files.read_regular(self.path / _VALUES, _LARGEST_STATE)
        values: JsonObject = parse_json(text)
        try:
            stored = StoredState.model_validate_json(text)
        except ValueError as error:
            raise ValueError(first_mistake(error)) from None
        if stored.step != self.step:
            raise ValueError(f"it is of step {stored.step}")
        return values


def save_checkpoint(
    run: Path, step: int, policy: LoadedModel, config: Config, state: State
) -> Path:
    """Write `checkpoints/step-N` atomically. All processes must call it, and the first one writes.

    The checkpoint has the settings that the policy was trained and measured with, so that `rlvr
    eval` on the run measures the same thing. Weights keep the type in which they were trained, not
    that of the start model: an update is often smaller than half a step of bfloat16, and rounding
    would undo it. Raises OSError if it cannot be written.
    """
    model = policy.model
    has_adapter = config.lora.rank is not None
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
        files.write_new(aside / DEFAULTS_FILE, as_yaml(config, MODEL_SETTINGS))
        (aside / _VALUES).parent.mkdir()
        files.write_new(aside / _VALUES, json.dumps(state.values))

    def end() -> None:
        manifest = {
            str(path.relative_to(aside)): checksums.get(path.name) or files.sha256(path)
            for path in sorted(aside.rglob("*"))
            if path.is_file()
        }
        files.write_new(aside / files.MANIFEST, json.dumps(manifest, indent=2))
        files.end_directory(aside, target)

    try:
        by_the_first(begin)
        name = files.ADAPTER_FILES[1] if has_adapter else "model.safetensors"
        checksums = write_tensors(aside / name, weights)
        checksums.update(write_tensors(aside / _TENSORS, state.tensors.items()))
        by_the_first(end)
    except BaseException:
        if is_first():
            shutil.rmtree(aside, ignore_errors=True)
        raise
    return target


def write_tensors(path: Path, tensors: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Write tensors as one safetensors file, or as several with the hub's index if they are large.

    All processes must call it with the same names: they gather each tensor from its shards, and the
    first process writes it. No process holds more than one file at a time. Return the checksums by
    file name, in the first process only. Raises OSError in all processes if writing fails.
    """
    writer = _TensorWriter(path)
    failure: OSError | None = None
    for name, shards in tensors:
        # Gathering goes on after a failure: the other processes do not know of it yet.
        tensor = full_tensor(shards.detach())
        if is_first() and failure is None:
            try:
                writer.add(name, tensor)
            except OSError as error:
                failure = error

    def finish() -> None:
        if failure is not None:
            raise failure
        writer.finish()

    by_the_first(finish)
    return writer.checksums


class _TensorFile(NamedTuple):
    """A file of tensors that does not have its name yet: that says how many files there are."""

    path: Path
    tensors: list[str]
    checksum: str


class _TensorWriter:
    """Writes tensors to files of at most `_LARGEST_FILE` bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checksums: dict[str, str] = {}
        self._files: list[_TensorFile] = []
        self._pending: dict[str, Tensor] = {}
        self._pending_bytes = 0
        self._total_bytes = 0

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor to the current file, or to the next if it does not fit."""
        if self._pending and self._pending_bytes + tensor.nbytes > _LARGEST_FILE:
            self._write_pending()
        self._pending[name] = tensor.cpu().contiguous()
        self._pending_bytes += tensor.nbytes
        self._total_bytes += tensor.nbytes

    def finish(self) -> None:
        """Write the last file, name all files, and write the index if there are several."""
        self._write_pending()
        path = self.path
        count = len(self._files)
        places = {}
        for number, file in enumerate(self._files, 1):
            name = f"{path.stem}-{number:05d}-of-{count:05d}{path.suffix}"
            target = path if count == 1 else path.with_name(name)
            file.path.replace(target)
            self.checksums[target.name] = file.checksum
            places.update(dict.fromkeys(file.tensors, target.name))
        if count > 1:
            path.unlink(missing_ok=True)
            index = {"metadata": {"total_size": self._total_bytes}, "weight_map": places}
            name = f"{path.name}.index.json"
            files.write_atomically(path.with_name(name), json.dumps(index, indent=2))

    def _write_pending(self) -> None:
        path = self.path.with_name(f"{self.path.stem}-{len(self._files)}.partial")
        try:
            save_file(self._pending, path, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(0, str(error), str(self.path)) from None
        files.sync(path)
        self._files.append(_TensorFile(path, list(self._pending), files.sha256(path)))
        self._pending.clear()
        self._pending_bytes = 0


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read what `write_tensors` wrote. The files are mapped: only rows that a process copies enter
    its memory."""
    tensors = {}
    for file in sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}")) or [path]:
        tensors.update(load_file(file))
    return tensors


def check_savable(policy: LoadedModel) -> None:
    """Save all but the weights to a temporary directory. Raises UserError if that fails."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            policy.model.save_pretrained(directory, state_dict={})
            policy.tokenizer.save_pretrained(directory)
    except Exception as error:  # whatever transformers refuses to write
        raise UserError(
            f"{policy.directory}: it cannot be saved again ({type(error).__name__}: "
            f"{one_line(error)}); take another model"
        ) from None


def load_weights(checkpoint: Checkpoint, model: Any) -> None:
    """Copy the weights or the adapter of a checkpoint into a model of the same kind. Raises
    UserError if some are missing."""
    if is_adapter(checkpoint.path):
        load_adapter(model, checkpoint.path)
        return
    try:
        loaded = model_from_pretrained(type(model), checkpoint.path, dtype=model.dtype)
    except UserError as error:
        raise UserError(f"{checkpoint.path} cannot be loaded ({error})") from None
    present = model.state_dict()
    model.load_state_dict(
        {name: shard_as(tensor, present.get(name)) for name, tensor in loaded.state_dict().items()}
    )


def checkpoints(run: Path) -> list[Checkpoint]:
    """List the run's checkpoints, newest first, with the damaged ones."""
    return [Checkpoint(step, path) for step, path in step_directories(run)]


def intact_checkpoints(run: Path, warn: Callable[[str], None]) -> Iterator[Checkpoint]:
    """Yield the checkpoints that are not damaged, newest first, and warn of the others.

    Raises UserError after the last one, since a caller that asks for more could not use any of
    them. Yields nothing for a run without checkpoints.
    """
    stored = checkpoints(run)
    for checkpoint in stored:
        reason = checkpoint.integrity_error()
        if reason is None:
            yield checkpoint
        else:
            warn(f"{checkpoint.path} is damaged: {reason}")
    if stored:
        raise UserError(f"{run}: every checkpoint is damaged; start a new run")


def remove_checkpoints(run: Path, steps: Collection[int]) -> None:
    """Remove the checkpoints of these steps, in the first process."""
    if not is_first():
        return
    for checkpoint in checkpoints(run):
        if checkpoint.step in steps:
            files.remove_directory(checkpoint.path)


def prune_checkpoints(run: Path, keep: int, best: int | None) -> None:
    """Remove all checkpoints except the newest `keep` and the best, in the first process."""
    remove_checkpoints(run, {checkpoint.step for checkpoint in checkpoints(run)[keep:]} - {best})


class OtherRunError(UserError):
    """A saved state belongs to a run with other problems, weights or settings."""


def computing_settings(config: Config) -> JsonObject:
    """Return the settings that determine a run's results, by `section.key`, as JSON values.

    Paths, and settings that a resumed run may change, are left out. So are empty mappings and
    lists: a setting of a later version makes a difference only once it is used.
    """
    values = flat_settings(config)
    fixed = set()
    for key in values:
        setting = setting_at(key)
        if setting is None or setting.use.on_resume == "fixed":
            fixed.add(key)
    if config.optim.schedule != "constant":
        fixed.add("steps")
    return {key: value for key, value in values.items() if key in fixed and value not in ({}, [])}


def state_of(trainer: Trainer, progress: Progress) -> State:
    """Return the trainer's state at the end of a step, with what identifies its run."""
    identity = {
        "settings": computing_settings(trainer.config),
        "problems": trainer.problems_digest,
        "start": trainer.start_digest,
        "torch": torch.__version__,
    }
    reached = {"progress": progress.model_dump(by_alias=True)}
    return State(identity, {}) | trainer.state_dict() | State(reached, {})


def other_torch(state: State) -> str | None:
    """Describe that another version of torch computed the state. Return None if it was this one, or
    if the state does not say."""
    version = RUN_VALUES.validate_python(state.values).torch
    if version is None or version == torch.__version__:
        return None
    return f"torch {version} computed it, and torch {torch.__version__} goes on: bits may differ"


def restore(trainer: Trainer, state: State) -> None:
    """Restore a trainer from the state of `state_of`. Its policy must have its weights already.

    Raises OtherRunError if settings, problems or the reference policy are not those of the state.
    Errors of an invalid state pass through.
    """
    config = trainer.config
    settings = computing_settings(config)
    stored = RUN_VALUES.validate_python(state.values)
    for key in dict.fromkeys([*settings, *stored.settings]):
        pair = (_value_in(settings, key), _value_in(stored.settings, key))
        if pair[0] != pair[1] and pair != (CUSTOM, FORMER_CUSTOM):
            raise OtherRunError(_edited(key, settings, stored.settings))
    prompts = f"the problems of {', '.join(config.data.sources)}, or prompts"
    if config.data.date is not None:
        date = f"{config.data.date:%Y-%m-%d}"
        prompts += f" (their template writes {date}; --set data.date=… is another)"
    model = config.teacher or config.model
    weights = f"the weights of {model}, the reference policy,"
    _check_digest(stored.problems, trainer.problems_digest, prompts)
    _check_digest(stored.start, trainer.start_digest, weights)
    trainer.load_state_dict(state)


def _value_in(settings: JsonObject, key: str) -> Any:
    """Return a setting of a run, which one of an older version may not have."""
    if key in settings:
        return settings[key]
    setting = setting_at(key)
    return None if setting is None else setting.use.in_old_runs


def _edited(key: str, settings: JsonObject, stored: JsonObject) -> str:
    """Describe that a setting of config.yaml is not the one that the run computes with."""
    text = f"config.yaml was edited: {key} is {format_value(settings.get(key))} there, and the run"
    if key not in stored:
        return (
            f"{text} did not have it; remove it, or, where an earlier version of rlvr made the "
            "run, begin a new one with rlvr train --from"
        )
    return f"{text} computes with {format_value(stored[key])}; put it back"


def _check_digest(stored: str, actual: str, name: str) -> None:
    """Raise OtherRunError if a checksum is not that of the run's beginning."""
    if stored != actual:
        raise OtherRunError(
            f"{name} are not those that the run began with; restore them, or start a new run"
        )
