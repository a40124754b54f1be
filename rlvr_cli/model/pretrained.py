"""The only access to files of a model directory or the hub.

None of its code is run, nothing in it is without a bound, and weights are there or refused.
"""

import json
import re
import stat
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import is_too_deep
from rlvr_cli.core.versions import installed_version

_LONGEST_FILE = 256 << 20
"""Bytes of a file that is not weights."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")
_PARAMETERS_PER_BYTE = 16
"""More than any quantization packs: beyond it configuration and weights do not match."""
_SIZES = {
    **dict.fromkeys(("layers", "n_layer", "num_blocks", "depth"), 1_000),
    **dict.fromkeys(("heads", "n_head", "head_dim"), 1 << 16),
    **dict.fromkeys(("experts", "num_local_experts"), 1 << 14),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), 1 << 20),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "d_ff"), 1 << 24),
    "vocab_size": 1 << 24,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 1 << 31),
}
"""The largest value of every setting whose name ends like this."""
_NEVER_0 = (
    *("num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "num_key_value_heads"),
    *("hidden_size", "n_embd", "vocab_size", "max_position_embeddings", "n_positions"),
)
_FILES_OF_A_TOKENIZER = ("vocab", "merges", "gguf_file")
"""Settings that transformers would open wherever they lie."""
_SHOWN = 3
_LAYER = re.compile(r".*?\.\d+\.")
"""The part of a weight's name that those of one layer share."""


def from_pretrained(kind: Any, source: Path | str, **options: Any) -> Any:
    """Call `kind.from_pretrained(source)` without asking for or running code found there."""
    return kind.from_pretrained(source, trust_remote_code=False, **options)


def model_from_pretrained(kind: Any, source: Path | str, **options: Any) -> Any:
    """Load a model. Raises UserError if a weight is missing from its files: transformers would have
    initialized it at random.

    The attention is ours where the model's code lets one choose, else its plainest: a configuration
    may name one of the hub's, which is code.
    """
    from rlvr_cli.model.packing import ATTENTION

    options |= {"output_loading_info": True}
    try:
        model, report = from_pretrained(kind, source, attn_implementation=ATTENTION, **options)
    except ValueError as error:
        if "attention implementation" not in str(error):
            raise
        model, report = from_pretrained(kind, source, attn_implementation="eager", **options)
    if lost := sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}):
        shown = ", ".join([*lost[:_SHOWN], *(["…"] if len(lost) > _SHOWN else [])])
        raise UserError(
            f"{len(lost)} of its weights are missing or of another shape ({shown}); take a "
            "directory that holds the whole model"
        )
    return model


def stored_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the weights by their names in the files of a model directory, tied ones once, put
    together a layer at a time; all processes call it alike."""
    from transformers.core_model_loading import revert_weight_conversion

    from rlvr_cli.ranks.group import whole

    own, names = model.state_dict(keep_vars=True), dict[int, str]()
    for name in sorted(own, key=lambda name: name in model.all_tied_weights_keys):
        if name not in (model._keys_to_ignore_on_save or ()):
            names.setdefault(id(own[name]), name)
    kept = (name for name in own if names.get(id(own[name])) == name)
    for _, of_layer in groupby(kept, lambda name: (_LAYER.match(name) or [name])[0]):
        weights = {name: whole(own[name].detach()) for name in of_layer}
        weights = revert_weight_conversion(model, weights)
        for name in list(weights):
            yield name, weights.pop(name)


def described_model(config: Any) -> Any:
    """Return the model that a configuration describes, without its numbers."""
    import torch
    import transformers

    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", trust_remote_code=False
        )


def check_settings(directory: Path) -> None:
    """Raise UserError, before anything is built, for a kind of model that transformers lacks, an
    impossible configuration, generation settings that cannot be read (transformers would drop
    them), a tokenizer that lies elsewhere."""
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
        for key in _FILES_OF_A_TOKENIZER:
            if isinstance(settings.get(key), str):
                raise UserError(f"{name}: {key} must not name a file")


def check_files(directory: Path) -> None:
    """Raise UserError for files that cannot be read to their end or whose name leads outside the
    directory: pipes, devices, endless text, an index of weights elsewhere."""
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


def check_weights(directory: Path, config: Any) -> Any:
    """Return the model that a configuration describes, without its numbers. Raises UserError if
    those are far more than the files can hold."""
    held = sum(path.stat().st_size for path in directory.iterdir() if path.suffix in _WEIGHTS)
    outline = described_model(config)
    if held and outline.num_parameters() > _PARAMETERS_PER_BYTE * held:
        raise UserError(
            f"config.json describes {outline.num_parameters():,} parameters, but the files of "
            f"weights have only {held:,} bytes"
        )
    return outline


def _check_sizes(config: dict[str, Any]) -> None:
    """Check the sizes of a configuration and of its parts."""
    for name, value in config.items():
        if isinstance(value, dict):
            _check_sizes(value)
        most = next((most for end, most in _SIZES.items() if name.endswith(end)), None)
        if most is None or value is None or isinstance(value, list | dict):
            continue
        least = int(name in _NEVER_0)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise UserError(
                f"config.json: {name} must be from {least} to {most}, not {value!r:.40}"
            )


def read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or is_too_deep(value):
        raise UserError(f"{path.name} is not a JSON object")
    return value
