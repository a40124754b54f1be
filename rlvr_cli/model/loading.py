"""Finding and loading a model: `tiny`, a directory, a run, or a hub id."""

import re
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from rlvr_cli.core.files import MANIFEST, damage
from rlvr_cli.core.types import UserError

TINY = "tiny"
DEFAULTS_FILE = "rlvr.yaml"
"""A model directory may hold training settings of its own under this name."""
TRAINER_STATE = "trainer"
"""The folder of a checkpoint that only a resumed run reads."""
_STEP = re.compile(r"step-(\d+)")
_FALLBACK_CONTEXT = 4096


def model_directory(name: str) -> Path | str:
    """The directory behind a model's name, or the name itself where it is a hub id.

    A run stands for its newest checkpoint. Raises UserError if a path holds no model.
    """
    if name == TINY:
        return Path(str(resources.files("rlvr_cli") / "tiny"))
    path = Path(name)
    if (path / "config.json").is_file():
        return path
    checkpoints = [
        (int(match[1]), directory)
        for directory in path.glob("checkpoints/step-*")
        if (match := _STEP.fullmatch(directory.name)) and (directory / "config.json").is_file()
    ]
    if checkpoints:
        return max(checkpoints)[1]
    if path.exists():
        raise UserError(f"--model {name}: no config.json and no checkpoints/step-N in it")
    if name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1:
        raise UserError(f"--model {name}: no such directory")
    return name


def model_files(name: str) -> Path:
    """The directory that holds the files of a model, which the hub's cache may do.

    Raises UserError if the files of a hub id are not here.
    """
    directory = model_directory(name)
    if isinstance(directory, Path):
        return directory

    from transformers.utils import cached_file

    try:
        return Path(cached_file(directory, "config.json")).parent
    except Exception as error:  # whatever a hub may answer
        raise _not_loaded(name, error) from None


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode (no dropout), with what sampling needs to know."""

    model: Any
    tokenizer: Any
    stop_ids: tuple[int, ...]
    """Every end token that the model, its generation settings or the tokenizer names."""
    context: int
    """The longest prompt and response together, in tokens."""
    directory: Path | str


def read_config(name: str) -> Any:
    """The model's configuration, without its weights. Raises UserError if there is none."""
    import transformers

    try:
        return transformers.AutoConfig.from_pretrained(model_directory(name))
    except Exception as error:  # whatever a file or a hub may hold
        raise _not_loaded(name, error) from None


def parameter_count(config: Any) -> int:
    """Of the model that the configuration describes, which takes no memory for it."""
    import torch
    import transformers

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return int(model.num_parameters())


def default_device() -> str:
    """Where models are loaded: the GPU if there is one. Once loaded, ask the model."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def load_model(name: str) -> LoadedModel:
    """Load in float32 on the GPU if there is one. Raises UserError if that cannot be done."""
    directory = model_directory(name)
    if isinstance(directory, Path):
        _refuse_damaged(name, directory)

    import transformers

    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        model = _load_weights(directory)
    except Exception as error:  # whatever a file or a hub may hold
        raise _not_loaded(name, error) from None
    model.to(default_device()).eval()
    config = model.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None) or _FALLBACK_CONTEXT
    _refuse_unusable(name, model, tokenizer)
    stop_ids = _stop_ids(model, tokenizer)
    if not stop_ids:
        raise UserError(f"--model {name}: neither model nor tokenizer names an end token")
    return LoadedModel(model, tokenizer, stop_ids, context, directory)


def _load_weights(directory: Path | str) -> Any:
    """The model in float32, with our attention where its code lets one choose."""
    import torch
    import transformers

    from rlvr_cli.model.attention import ATTENTION

    load = partial(
        transformers.AutoModelForCausalLM.from_pretrained, directory, dtype=torch.float32
    )
    try:
        return load(attn_implementation=ATTENTION)
    except ValueError as error:
        if "attention implementation" not in str(error):
            raise
        return load(attn_implementation="eager")


def _refuse_unusable(name: str, model: Any, tokenizer: Any) -> None:
    """Raise UserError where tokenizer and output layer do not fit together."""
    head = model.get_output_embeddings()
    if head is None:
        raise UserError(
            f"--model {name}: {type(model).__name__} has no output layer to sample from"
        )
    known, given = head.weight.shape[0], len(tokenizer)
    if given > known:
        raise UserError(
            f"--model {name}: the tokenizer has {given} tokens and the output layer {known}: the "
            "two are not of one model"
        )


def _refuse_damaged(name: str, directory: Path) -> None:
    """A checkpoint of ours has checksums. Raises UserError where they differ."""
    if not (directory / MANIFEST).exists():
        return
    if reason := damage(directory, spared=(TRAINER_STATE,)):
        raise UserError(
            f"--model {name}: {directory} is damaged: {reason}; take another checkpoint"
        )


def _not_loaded(name: str, error: Exception) -> UserError:
    """The mistake in one line; a name that is no directory here was taken for a hub id."""
    reason = str(error).strip().split("\n")[0]
    here = "" if Path(name).is_dir() or name == TINY else "no such directory, and as a hub id it "
    return UserError(f"--model {name}: {here}cannot be loaded ({reason})")


def _stop_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ids: set[int] = set()
    for named in (
        model.generation_config.eos_token_id,
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    ):
        ids.update([named] if isinstance(named, int) else named or [])
    return tuple(sorted(ids))
