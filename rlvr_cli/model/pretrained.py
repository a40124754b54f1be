"""The only access to files of a model directory or the hub.

No code found there is run, everything that is read has a bound, and a missing weight is an error.
"""

import json
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import is_too_deep
from rlvr_cli.core.versions import installed_version

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

_LONGEST_FILE = 256 << 20
"""Bytes of a file that is not weights."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")
_PARAMETERS_PER_BYTE = 16
"""More than any quantization packs: beyond it configuration and weights do not match."""
_LARGEST = {
    ("layers", "n_layer", "num_blocks", "depth"): 1_000,
    ("heads", "n_head", "head_dim"): 1 << 16,
    ("experts", "num_local_experts"): 1 << 14,
    ("hidden_size", "n_embd", "d_model"): 1 << 20,
    ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "vocab_size"): 1 << 24,
    ("max_position_embeddings", "n_positions", "n_ctx"): 1 << 31,
}
"""The largest value of the settings whose names end like this."""
_NEVER_0 = {
    "num_hidden_layers",
    "n_layer",
    "num_attention_heads",
    "n_head",
    "num_key_value_heads",
    "hidden_size",
    "n_embd",
    "vocab_size",
    "max_position_embeddings",
    "n_positions",
}
_TOKENIZER_FILES = ("vocab", "merges", "gguf_file")
"""Settings that name a file, which transformers would open wherever it is."""
_SHOWN = 3
_LAYER = re.compile(r".*?\.\d+\.")
"""The part of a name that all weights of one layer share."""


def from_pretrained(kind: Any, source: Path | str, **options: object) -> Any:
    """Call `kind.from_pretrained(source)` without fetching or running code found there."""
    return kind.from_pretrained(source, trust_remote_code=False, **options)


def model_from_pretrained(kind: Any, source: Path | str, **options: object) -> "PreTrainedModel":
    """Load a model, with our attention if the model's code allows a choice, else with eager.

    A configuration may name an attention of the hub, which is code. Raises UserError if a weight is
    missing from the files, because transformers would have initialized it at random.
    """
    from rlvr_cli.model.packing import ATTENTION

    options["output_loading_info"] = True
    try:
        model, report = from_pretrained(kind, source, attn_implementation=ATTENTION, **options)
    except ValueError as error:
        if "attention implementation" not in str(error):
            raise
        model, report = from_pretrained(kind, source, attn_implementation="eager", **options)
    missing = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    if missing:
        raise UserError(
            f"{len(missing)} of its weights are missing or of another shape "
            f"({first_names(missing)}); take a directory that holds the whole model"
        )
    return model


def first_names(names: Iterable[str]) -> str:
    """Join the first few of these names, sorted."""
    ordered = sorted(names)
    if len(ordered) > _SHOWN:
        ordered = [*ordered[:_SHOWN], "…"]
    return ", ".join(ordered)


def stored_weights(model: "PreTrainedModel") -> Iterator[tuple[str, "Tensor"]]:
    """Yield the full weights by their names in the files of a model directory, tied ones once.

    Shards are gathered a layer at a time, so all processes must call it alike.
    """
    from transformers.core_model_loading import revert_weight_conversion

    from rlvr_cli.ranks.group import full_tensor

    state = model.state_dict(keep_vars=True)
    names: dict[int, str] = {}
    for name in sorted(state, key=lambda name: name in model.all_tied_weights_keys):
        if name not in (model._keys_to_ignore_on_save or ()):
            names.setdefault(id(state[name]), name)
    stored_names = (name for name in state if names.get(id(state[name])) == name)
    for _, layer_names in groupby(stored_names, lambda name: (_LAYER.match(name) or [name])[0]):
        weights = {name: full_tensor(state[name].detach()) for name in layer_names}
        weights = revert_weight_conversion(model, weights)
        for name in list(weights):
            yield name, weights.pop(name)


def described_model(config: "PreTrainedConfig") -> "PreTrainedModel":
    """Return the model that a configuration describes, without the values of its weights."""
    import torch
    import transformers

    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", trust_remote_code=False
        )


def check_settings(directory: Path) -> None:
    """Check the settings of a model directory before anything is built.

    Raises UserError for a kind of model that transformers lacks, an impossible configuration,
    generation settings that cannot be read (transformers would drop them), and a tokenizer whose
    files are elsewhere.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_object(directory / "config.json")
    kind = config.get("model_type")
    has_code = "auto_map" in config  # which transformers refuses to run, and says so
    if isinstance(kind, str) and kind not in CONFIG_MAPPING and not has_code:
        raise UserError(
            f"transformers {installed_version('transformers')} has no model of the type "
            f"{kind!r:.40}; a newer one may: pip install --upgrade transformers"
        )
    _check_sizes(config)
    for name in ("generation_config.json", "tokenizer_config.json"):
        settings = read_object(directory / name) if (directory / name).exists() else {}
        for key in _TOKENIZER_FILES:
            if isinstance(settings.get(key), str):
                raise UserError(f"{name}: {key} must not name a file")


def check_files(directory: Path) -> None:
    """Raise UserError for files that cannot be read to their end, or lead outside the directory.

    These are pipes, devices, endless text, and an index of weights elsewhere.
    """
    for path in sorted(directory.iterdir()):
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path.name}: {error.strerror}") from None
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path.name} is not a regular file")
        if path.suffix not in _WEIGHTS and status.st_size > _LONGEST_FILE:
            raise UserError(f"{path.name} is larger than {_LONGEST_FILE >> 20} MB")
        if path.name.endswith(".index.json"):
            names = read_object(path).get("weight_map")
            if not isinstance(names, dict):
                raise UserError(f"{path.name}: it has no weight_map of file names")
            for name in names.values():
                if not isinstance(name, str) or name != Path(name).name:
                    raise UserError(
                        f"{path.name} names {name!r:.80}, which is not a file beside it"
                    )


def check_weights(directory: Path, config: "PreTrainedConfig") -> "PreTrainedModel":
    """Return the model that a configuration describes, without the values of its weights.

    Raises UserError if it has far more weights than the files can hold.
    """
    size = sum(path.stat().st_size for path in directory.iterdir() if path.suffix in _WEIGHTS)
    outline = described_model(config)
    if size and outline.num_parameters() > _PARAMETERS_PER_BYTE * size:
        raise UserError(
            f"config.json describes {outline.num_parameters():,} parameters, but the files of "
            f"weights have only {size:,} bytes"
        )
    return outline


def _check_sizes(config: JsonObject) -> None:
    """Check the sizes of a configuration and of its parts."""
    for name, value in config.items():
        if isinstance(value, dict):
            _check_sizes(value)
        largest = next((number for ends, number in _LARGEST.items() if name.endswith(ends)), None)
        if largest is None or value is None or isinstance(value, list | dict):
            continue
        smallest = 1 if name in _NEVER_0 else 0
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not smallest <= value <= largest:
            raise UserError(
                f"config.json: {name} must be from {smallest} to {largest}, not {value!r:.40}"
            )


def read_object(path: Path) -> JsonObject:
    """Read a file that holds a JSON object. Raises UserError if it does not."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or is_too_deep(value):
        raise UserError(f"{path.name} is not a JSON object")
    return value
