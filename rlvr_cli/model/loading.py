"""Find and load a model: `tiny`, a directory, a run, or a hub id."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from unittest.mock import patch

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import MANIFEST, integrity_error, read_regular
from rlvr_cli.core.yaml_text import load_yaml
from rlvr_cli.model.pretrained import (
    check_files,
    check_settings,
    check_weights,
    described_model,
    from_pretrained,
    model_from_pretrained,
)
from rlvr_cli.model.tokenizer import BUILT_IN, load_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

M = TypeVar("M", bound="torch.nn.Module")

TINY = "tiny"
DEFAULTS_FILE = "rlvr.yaml"
"""A model directory may hold training settings of its own under this name."""
TRAINER_STATE = "trainer"
"""The folder of a checkpoint that only a resumed run reads."""
STEP = re.compile(r"step-(\d{1,9})", re.ASCII)
"""The name of a checkpoint's directory."""
_LARGEST_SETTINGS = 1 << 20
"""Bytes of a checkpoint's settings."""
_FALLBACK_CONTEXT = 4096
_TEXT = "What is 1 + 1?"
_GPU = Path("/dev/nvidia0")


def model_directory(name: str) -> Path | str:
    """Return the directory of a model, or its name if that is a hub id.

    The name of a run means its newest checkpoint. Raises UserError if a path holds no model.
    """
    if name == TINY:
        return BUILT_IN
    path = Path(name)
    if (path / "config.json").is_file():
        return path
    for _, checkpoint in step_directories(path):
        if (checkpoint / "config.json").is_file():
            return checkpoint
    if path.exists():
        raise UserError(f"--model {name}: no config.json and no checkpoints/step-N in it")
    if name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1:
        raise UserError(f"--model {name}: no such directory")
    return name


def step_directories(run: Path) -> list[tuple[int, Path]]:
    """List the checkpoints of a run by their steps, newest first."""
    directories = []
    for path in run.glob("checkpoints/step-*"):
        match = STEP.fullmatch(path.name)
        if match is not None:
            directories.append((int(match[1]), path))
    return sorted(directories, reverse=True)


def settings_file(name: str) -> Path:
    """Return the path of the settings that a model directory may have: its prompts, and more."""
    return Path(model_directory(name)) / DEFAULTS_FILE


def model_files(name: str) -> Path:
    """Return the directory that holds a model's files, which may be in the hub's cache.

    Raises UserError if the files of a hub id cannot be fetched.
    """
    directory = model_directory(name)
    if isinstance(directory, Path):
        return directory

    from transformers.utils import cached_file

    with _loading(name):
        return Path(cached_file(directory, "config.json")).parent


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode (no dropout), its tokenizer and stop tokens."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    stop_ids: tuple[int, ...]
    """Every end token that the model, its generation settings or the tokenizer names."""
    context: int
    """The longest prompt and response together, in tokens."""
    directory: Path | str

    @property
    def name(self) -> str:
        """Return a name that finds the model again from any working directory."""
        if self.directory == model_directory(TINY):
            return TINY
        return str(self.directory.resolve()) if isinstance(self.directory, Path) else self.directory


def read_config(name: str) -> "PreTrainedConfig":
    """Read a model's configuration alone. Raises UserError if it is missing or bad."""
    directory = model_directory(name)

    import transformers

    with _loading(name):
        files = model_files(name)
        check_files(files)
        check_settings(files)
        return from_pretrained(transformers.AutoConfig, directory)


def model_outline(name: str) -> "PreTrainedModel":
    """Return the model without its weights.

    Raises UserError as `read_config` does, and if the files cannot hold that many weights.
    """
    from rlvr_cli.model import adapter

    directory = model_directory(name)
    config = read_config(name)
    with _loading(name):
        if isinstance(directory, Path) and not adapter.is_adapter(directory):
            return check_weights(directory, config)
        return described_model(config)


def default_device() -> str:
    """Return the device that models are loaded on, which is the GPU if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def unused_gpu() -> str:
    """Say why torch cannot use the GPU of this machine. Return "" if it can, or without a GPU."""
    import torch

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or not _GPU.exists() or torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()
        reason = "unknown"
    except (RuntimeError, AssertionError) as error:  # an old driver; a torch without CUDA
        reason = str(error).split(". ")[0].split("\n")[0]
    return f"; the GPU that is there is not used: {reason}"


def load_model(
    name: str, on_cpu: bool = False, dtype: str = "float32", full_base: bool = False
) -> LoadedModel:
    """Load the model in this type, on the GPU if there is one, unless `on_cpu`.

    An adapter is merged into the weights that it was trained on, which may be those of a quantized
    base, or with `full_base` into those that were quantized. Of several processes with the model
    `on_cpu`, each keeps its shard of every weight alone (`keeping_shards`). Raises UserError if
    loading fails.
    """
    from rlvr_cli.model import adapter

    directory = model_directory(name)
    if isinstance(directory, Path) and (directory / MANIFEST).exists():
        reason = integrity_error(directory, lambda path: path.split("/")[0] != TRAINER_STATE)
        if reason:
            raise UserError(
                f"--model {name}: {directory} is damaged: {reason}; take another checkpoint"
            )
    if adapter.is_adapter(directory):
        return _load_merged(name, Path(directory), on_cpu, dtype, full_base)
    config = read_config(name)

    import torch
    import transformers

    from rlvr_cli.model.policy import decoder_layers
    from rlvr_cli.ranks.group import gather_in_passes

    transformers.utils.logging.disable_progress_bar()
    with _loading(name):
        if isinstance(directory, Path):
            check_weights(directory, config)
        tokenizer = load_tokenizer(directory, model_files(name))
        known_ids = set(tokenizer.encode(_TEXT, add_special_tokens=False))
        known_ids.discard(tokenizer.unk_token_id)
        if not tokenizer.decode(sorted(known_ids), skip_special_tokens=True).strip():
            raise UserError("its tokenizer keeps nothing of a text; is tokenizer.json missing?")
        with _one_weight_at_a_time() if on_cpu else nullcontext():
            model = model_from_pretrained(
                transformers.AutoModelForCausalLM, directory, dtype=getattr(torch, dtype)
            )
        stop_ids = _stop_ids(model, tokenizer)
        # Other published generation settings are not used here, and some cannot be saved.
        published = model.generation_config
        model.generation_config = type(published)(
            eos_token_id=getattr(published, "eos_token_id", None),
            pad_token_id=getattr(published, "pad_token_id", None),
            bos_token_id=getattr(published, "bos_token_id", None),
        )
    if on_cpu:
        gather_in_passes(model, decoder_layers(model))
    model.eval().to("cpu" if on_cpu else default_device())
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return LoadedModel(model, tokenizer, stop_ids, longest or _FALLBACK_CONTEXT, directory)


def cast(model: M, dtype: "torch.dtype") -> M:
    """Cast the weights of a model, but not its buffers.

    Rotary frequencies in 16 bits would be off by whole radians after a thousand tokens.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


@contextmanager
def _one_weight_at_a_time() -> Iterator[None]:
    """Keep the shards of weights, which transformers would read in threads ahead of their use.

    A process alone keeps whole weights.
    """
    from rlvr_cli.ranks.group import keeping_shards, world

    if world() == 1:
        yield
        return
    with patch.dict(os.environ, {"HF_DEACTIVATE_ASYNC_LOAD": "1"}), keeping_shards():
        yield


def has_quantized_base(directory: Path) -> bool:
    """Return whether a checkpoint's adapter was trained on a base in NF4."""
    try:
        settings = load_yaml(read_regular(directory / DEFAULTS_FILE, _LARGEST_SETTINGS).decode())
        return bool(settings["lora"]["base"] == "nf4")
    except (OSError, ValueError, LookupError, TypeError):  # it says nothing of a base
        return False


def _load_merged(
    name: str, directory: Path, on_cpu: bool, dtype: str, full_base: bool
) -> LoadedModel:
    """Load the model that a checkpoint's adapter belongs to, and merge the adapter into it."""
    import torch

    from rlvr_cli.model import adapter
    from rlvr_cli.model.quantized import dequantize, quantize

    if not (directory / MANIFEST).exists():
        raise UserError(
            f"--model {name}: it holds an adapter, not a model: merge the two first (peft's "
            "merge_and_unload) and save the result"
        )
    with _loading(name):
        check_files(directory)
        base = adapter.base_of(directory)
        if adapter.is_adapter(model_directory(base)):
            raise UserError(f"the model of its adapter, {base}, is an adapter itself")
        is_quantized = has_quantized_base(directory) and not full_base
        # The codes are those of the weights in float32, as training made them.
        loaded = load_model(base, on_cpu, "float32" if is_quantized else dtype)
        if is_quantized:
            quantize(loaded.model)
            with _one_weight_at_a_time() if on_cpu else nullcontext():
                dequantize(loaded.model)
        adapter.merge(loaded.model, directory)
        if is_quantized:
            cast(loaded.model, getattr(torch, dtype))
    return replace(loaded, directory=directory)


def _stop_ids(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Return every named end token that can be sampled.

    Raises UserError if no such token exists, or if tokenizer and output layer do not match.
    """
    from rlvr_cli.model import adapter

    if adapter.layers(model):
        raise UserError("it is an adapter of another model; merge the two first")
    head = model.get_output_embeddings()
    if head is None:
        raise UserError(f"{type(model).__name__} has no output layer to sample from")
    rows = head.weight.shape[0]
    vocab_size = 1 + max(tokenizer.get_vocab().values(), default=0)
    if vocab_size > rows:
        raise UserError(
            f"the tokenizer has {vocab_size} tokens and the output layer {rows}: the two are not "
            "of one model"
        )
    ids: list[object] = []
    for source in (model.generation_config, model.config.get_text_config(), tokenizer):
        end = source.eos_token_id
        if isinstance(end, list):
            ids += end
        elif end is not None:
            ids.append(end)
    stop_ids = set()
    for token in ids:
        if not isinstance(token, int) or isinstance(token, bool):
            raise UserError(f"eos_token_id must be a number or a list of them, not {token!r}")
        if 0 <= token < rows:
            stop_ids.add(token)
    if stop_ids:
        return tuple(sorted(stop_ids))
    raise UserError("neither model nor tokenizer names an end token that the model can give")


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Raise UserError in one line for any failure."""
    try:
        yield
    except Exception as error:  # whatever a file or a hub may hold
        if isinstance(error, UserError) and str(error).startswith(f"--model {name}: "):
            raise  # from a load within this one
        lines = [line.strip() for line in str(error).strip().split("\n")]
        reason = " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])
        if isinstance(error, LookupError | AttributeError | TypeError):
            reason = f"{type(error).__name__}: {reason}"
        is_directory = Path(name).is_dir() or name == TINY
        hint = "" if is_directory else "no such directory, and as a hub id it "
        raise UserError(f"--model {name}: {hint}cannot be loaded ({reason})") from None
