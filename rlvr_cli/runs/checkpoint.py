"""Checkpoints: a plain Hugging Face model directory, the trainer's state in `trainer/`, checksums
of all files. No pickle: safetensors and JSON."""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rlvr_cli.config import OF_A_MODEL, Config, as_yaml, setting_at
from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.text import first_mistake, format_value
from rlvr_cli.core.types import Completion
from rlvr_cli.model.adapter import is_adapter, load_adapter, matrices, save_adapter_config
from rlvr_cli.model.loading import DEFAULTS_FILE, LoadedModel, step_directories
from rlvr_cli.model.pretrained import model_from_pretrained, stored_weights
from rlvr_cli.ranks.group import by_the_first, full_tensor, gather, is_first, shard_as, world
from rlvr_cli.ranks.process import rank
from rlvr_cli.runs.run_dir import Count, Finite, Stored
from rlvr_cli.training.state import State
from rlvr_cli.training.trainer import Trainer
from verifiers import Verification

_VALUES, _TENSORS = "trainer/state.json", "trainer/state.safetensors"
_LARGEST_STATE = 1 << 30
_LARGEST_FILE = 4 << 30
"""Bytes of a file of tensors, unless a single tensor has more."""


class _Rollout(Stored):
    text: str
    completion: Completion
    verification: Verification | None
    reward: float | None
    rewards: dict[str, float] = Field({})


class _Group(Stored):
    prompt: Count
    weight_version: Count
    rollouts: list[_Rollout]


class _Measured(Stored):
    model_config = ConfigDict(extra="allow")

    pass_at_1: Finite | None = Field(alias="pass@1")
    by_level: dict[str, Finite | None] = Field({})


class _Best(Stored):
    step: Count
    pass_at_1: Finite = Field(alias="pass@1")


class _Progress(Stored):
    before: _Measured | None
    best: _Best | None
    seconds: Annotated[Finite, Field(ge=0)]


class StoredState(Stored):
    """The state.json of a checkpoint."""

    step: Count
    settings: dict[str, Any]
    """`computing_settings` of the run."""
    problems: str
    start: str
    cursor: Count
    resting: list[Annotated[list[Count], Field(min_length=3, max_length=3)]] = Field([])
    """Problems that rest: number, passes of the rest, first pass after it. Like the mismatch, it is
    not in the states of version 0.2 and before, which are read all the same."""
    weight_version: Count
    carried: list[_Group]
    kl_coef: Finite
    mismatch: Finite | None = None
    optimizer: list[dict[str, Any]]
    progress: _Progress
    torch: str | None = Field(None)
    """The version of torch that computed it. Not in the states of version 0.2 and before."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk."""

    step: int
    path: Path

    def integrity_error(self) -> str | None:
        """Describe what is wrong with the checksums, the state or the step; None if nothing is."""
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
    """Write `checkpoints/step-N` atomically. All processes call it; each writes its part of the
    files and holds no more than one file at a time.

    The checkpoint has the settings that the policy was trained and measured with, so that `rlvr
    eval` on the run measures the same thing. Weights are stored as they are, whatever type the
    start model came in: an update is often smaller than half a step of bfloat16, and rounding would
    undo it. Raises OSError if it cannot be written.
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


def write_tensors(path: Path, tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, str]:
    """Write tensors, each put together as it comes, into one file, or several with the hub's index,
    which the processes write in turn; all must call it with the same names. Return the checksums by
    the files' names. Raises OSError in all if one cannot write."""
    processes, own = world(), rank() % world()
    parts: list[list[str]] = [[]]
    held: dict[str, torch.Tensor] = {}
    sums: dict[int, str] = {}
    written = size = 0
    failure: OSError | None = None

    def partial(number: int) -> Path:
        return path.with_name(f"{path.stem}-{number}.partial")

    def write() -> None:
        """Write the file of this round that is this process's, if there are tensors for it."""
        nonlocal failure
        number = (len(parts) - 1) // processes * processes + own
        if number < len(parts) and failure is None:
            try:
                save_file(held, partial(number), metadata={"format": "pt"})
                files.sync(partial(number))
                sums[number] = files.sha256(partial(number))
            except OSError as error:
                failure = error
            except SafetensorError as error:
                failure = OSError(0, str(error), str(path))
        held.clear()

    for name, slices in tensors:
        tensor = full_tensor(slices.detach())
        if parts[-1] and size + tensor.nbytes > _LARGEST_FILE:
            if len(parts) % processes == 0:  # each has one to write: all at once
                write()
            parts.append([])
            size = 0
        parts[-1].append(name)
        size, written = size + tensor.nbytes, written + tensor.nbytes
        if (len(parts) - 1) % processes == own:
            held[name] = tensor.cpu().contiguous()
    write()
    count = len(parts)
    names = [
        path.name if count == 1 else f"{path.stem}-{n:05d}-of-{count:05d}{path.suffix}"
        for n in range(1, count + 1)
    ]
    own_sums = [(names[number], digest) for number, digest in sums.items()]
    checksums = dict(pair for pairs in gather(own_sums, failure) for pair in pairs)

    def rename() -> None:
        for number, name in enumerate(names):
            partial(number).replace(path.with_name(name))
        if count > 1:
            path.unlink(missing_ok=True)
            pairs = zip(names, parts, strict=True)
            places = {tensor: file for file, tensors in pairs for tensor in tensors}
            index = {"metadata": {"total_size": written}, "weight_map": places}
            path.with_name(f"{path.name}.index.json").write_text(json.dumps(index, indent=2))

    by_the_first(rename)
    return checksums


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what `write_tensors` wrote, mapped: only rows that a process copies enter memory."""
    parts = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}")) or [path]
    return {name: tensor for file in parts for name, tensor in load_file(file).items()}


def check_savable(policy: LoadedModel) -> None:
    """Save all but the weights to a temporary directory. Raises UserError if that fails."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            policy.model.save_pretrained(directory, state_dict={})
            policy.tokenizer.save_pretrained(directory)
    except Exception as error:  # whatever transformers refuses to write
        reason = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        raise UserError(
            f"{policy.directory}: it cannot be saved again ({reason}); take another model"
        ) from None


def load_weights(checkpoint: Checkpoint, model: Any) -> None:
    """Copy weights or an adapter into a model like it. Raises UserError if some are missing."""
    if is_adapter(checkpoint.path):
        load_adapter(model, checkpoint.path)
        return
    try:
        loaded = model_from_pretrained(type(model), checkpoint.path, dtype=model.dtype)
    except UserError as error:
        raise UserError(f"{checkpoint.path} cannot be loaded ({error})") from None
    own = model.state_dict()
    model.load_state_dict({k: shard_as(t, own.get(k)) for k, t in loaded.state_dict().items()})


def checkpoints(run: Path) -> list[Checkpoint]:
    """List the run's checkpoints, newest first, damaged ones included."""
    return [Checkpoint(step, path) for step, path in step_directories(run)]


def whole_checkpoints(run: Path, warn: Callable[[str], None]) -> Iterator[Checkpoint]:
    """Yield the undamaged checkpoints, newest first, and warn of damaged ones. Raises UserError
    where no further one is whole; yields nothing where there is no checkpoint at all."""
    stored = checkpoints(run)
    for checkpoint in stored:
        if reason := checkpoint.integrity_error():
            warn(f"{checkpoint.path} is damaged: {reason}")
        else:
            yield checkpoint
    if stored:
        raise UserError(f"{run}: no checkpoint is whole; start a new run")


def remove_checkpoints(run: Path, steps: Collection[int]) -> None:
    """Remove the checkpoints of those steps, by the first process."""
    for checkpoint in checkpoints(run) if is_first() else ():
        if checkpoint.step in steps:
            files.remove_directory(checkpoint.path)


def prune_checkpoints(run: Path, keep: int, best: int | None) -> None:
    """Remove all checkpoints but the newest `keep` and the best, by the first process."""
    remove_checkpoints(run, {checkpoint.step for checkpoint in checkpoints(run)[keep:]} - {best})


class OtherRunError(UserError):
    """A saved state is of a run with other problems, weights or settings."""


def computing_settings(config: Config) -> dict[str, Any]:
    """Return the settings that determine a run's results, by `section.key`, as JSON values: all but
    paths and those that a resumed run may change."""
    flat = dict(leaves(config.model_dump(mode="json")))
    settings = {key: setting_at(key) for key in flat}
    fixed = {key for key, at in settings.items() if at is None or at.use.on_resume == "fixed"}
    if config.optim.schedule != "constant":
        fixed.add("steps")
    return {key: value for key, value in flat.items() if key in fixed and value not in ({}, [])}


def state_of(trainer: Trainer) -> State:
    """Return the trainer's state at the end of a step, with what identifies its run."""
    identity = {
        "settings": computing_settings(trainer.config),
        "problems": trainer.problems_digest,
        "start": trainer.start_digest,
        "torch": torch.__version__,
    }
    return State(identity, {}) | trainer.state_dict()


def other_torch(state: State) -> str | None:
    """Describe that another version of torch computed the state. Return None if it was this one, or
    if the state does not say."""
    then = state.values.get("torch")
    if then is None or then == torch.__version__:
        return None
    return f"torch {then} computed it, and torch {torch.__version__} goes on: bits may differ"


def restore(trainer: Trainer, state: State) -> None:
    """Restore a trainer, whose policy has its weights already, from the state of `state_of`. Raises
    OtherRunError if settings, problems or the reference policy are not those of the state; errors
    of an invalid state pass through."""
    now, then = computing_settings(trainer.config), state.values["settings"]
    for key in dict.fromkeys([*now, *then]):
        if now.get(key) != then.get(key):
            text = (
                f"config.yaml was edited: {key} is {format_value(now.get(key))} there, and the run"
            )
            if key not in then:
                raise OtherRunError(
                    f"{text} did not have it; remove it, or, where an earlier version of rlvr made "
                    "the run, begin a new one with rlvr train --from"
                )
            raise OtherRunError(f"{text} computes with {format_value(then[key])}; put it back")
    data, model = trainer.config.data, trainer.config.teacher or trainer.config.model
    prompts = f"the problems of {', '.join(data.sources)}, or prompts"
    if data.date is not None:
        prompts += f" (their template writes {data.date:%Y-%m-%d}; --set data.date=… is another)"
    for digest, own, name in (
        ("problems", trainer.problems_digest, prompts),
        ("start", trainer.start_digest, f"the weights of {model}, the reference policy,"),
    ):
        if state.values[digest] != own:
            raise OtherRunError(
                f"{name} are not those that the run began with; restore them, or start a new run"
            )
    trainer.load_state_dict(state)
