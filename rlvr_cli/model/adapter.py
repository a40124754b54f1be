"""LoRA: low-rank matrices added to frozen weights (Hu et al. 2022), in place, through peft."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from transformers.pytorch_utils import Conv1D

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import ADAPTER_FILES
from rlvr_cli.core.libraries import library
from rlvr_cli.model.pretrained import read_object
from rlvr_cli.model.quantized import NF4Linear
from rlvr_cli.ranks.group import full_tensor, shard_as

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ALL_LINEAR = "all-linear"
"""Every linear layer except the output layer."""
_CONFIG, _WEIGHTS = ADAPTER_FILES
LINEAR = (Linear, Conv1D)
_ROOT = "base_model.model."
"""The prefix of all names in peft's files."""


def add_adapter(
    model: "PreTrainedModel", rank: int, alpha: int, targets: str | Sequence[str], seed: int
) -> None:
    """Freeze the model and add matrices A and B, in float32, to its linear layers.

    Their output gains alpha / rank times B A x, which is 0 at first. Raises UserError for a name or
    a rank that no layer has.
    """
    peft = library("peft", f"--lora {rank}")
    modules = dict(model.named_modules())
    head = model.get_output_embeddings()
    linear = {n: m for n, m in modules.items() if isinstance(m, LINEAR) and m is not head}
    highest = max((min(module.weight.shape) for module in linear.values()), default=0)
    if rank > highest:
        raise UserError(
            f"--lora {rank}: no linear layer of this model has a rank above {highest}; take a "
            "lower one (32 is usual), or train all weights without --lora"
        )
    names = [targets] if isinstance(targets, str) else list(targets)
    for target in names:
        matches = {name for name in modules if f".{name}".endswith(f".{target}")}
        is_linear = bool(matches) and matches <= linear.keys()
        if not is_linear and targets != ALL_LINEAR:
            choices = sorted({name.rpartition(".")[2] for name in linear})
            raise UserError(
                f"lora.targets {target}: not a linear layer of {type(model).__name__} that can "
                f"have an adapter; choose from {ALL_LINEAR}, {', '.join(choices)}"
            )
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=ALL_LINEAR if targets == ALL_LINEAR else names,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(config, model)
    for parameter in trained(model):  # peft has frozen the others
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))


def layers(model: Module) -> list[Any]:
    """Return the layers that have an adapter."""
    return [module for module in model.modules() if hasattr(module, "lora_A")]


def trained(model: Module) -> list[Parameter]:
    """Return the parameters that are trained: the adapter's, or all of them."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@contextmanager
def switched_off(model: Module) -> Iterator[None]:
    """Run the model without its adapter, as it was before training.

    What trains stays marked so, because FSDP2 asks for it in its first pass, which may be this one.
    """
    parameters = trained(model)
    for layer in layers(model):
        layer.enable_adapters(False)
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for layer in layers(model):
            layer.enable_adapters(True)


def merged_parameters(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the full parameters by their names without an adapter, one at a time.

    What an adapter adds is merged into them, in float32 at least. Quantized weights come
    dequantized.
    """
    adapted = {name: layer for name, layer in model.named_modules() if hasattr(layer, "lora_A")}
    for name, tensor in _full_weights(model):
        if adapted and ".lora_" in name:
            continue
        place, _, rest = name.partition(".base_layer.")
        if rest == "weight":
            layer: Any = adapted[place]
            a = full_tensor(layer.lora_A["default"].weight.detach())
            b = full_tensor(layer.lora_B["default"].weight.detach())
            delta = (b @ a).T if layer.fan_in_fan_out else b @ a
            tensor = tensor.to(delta.dtype) + delta * layer.scaling["default"]
        yield name.replace(".base_layer.", ".", 1), tensor


def _full_weights(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all parameters in their order, quantized weights as dequantized numbers."""
    shared = set[int]()
    for place, module in model.named_modules():
        if isinstance(module, NF4Linear):
            yield f"{place}.weight", module.weight
        for name, parameter in module.named_parameters(place, recurse=False):
            if id(parameter) not in shared:
                shared.add(id(parameter))
                yield name, full_tensor(parameter.detach())


def adapter_parameters(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the full matrices of the adapter by their names in the model."""
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            yield name, full_tensor(parameter.detach())


def save_adapter_config(model: "PreTrainedModel", base: str, directory: Path) -> None:
    """Write the adapter's settings in peft's format. `base` names the model it belongs to."""
    config = copy(model.peft_config["default"])
    config.base_model_name_or_path = base
    # peft's set has another order in each process, and a resumed run writes the same bytes.
    config.target_modules = sorted(config.target_modules)
    config.inference_mode = True
    config.save_pretrained(directory)


def load_adapter(model: "PreTrainedModel", directory: Path) -> None:
    """Copy a checkpoint's matrices into the adapter. Raises ValueError if they do not fit it."""
    stored = load_file(directory / _WEIGHTS)
    parameters = matrices(model)
    stored_shapes = {key: tensor.shape for key, tensor in stored.items()}
    if stored_shapes != {key: tensor.shape for key, tensor in parameters.items()}:
        raise ValueError(f"{_WEIGHTS} is not of this model")
    for key, tensor in parameters.items():
        tensor.copy_(shard_as(stored[key], tensor))


def is_adapter(directory: Path | str) -> bool:
    """Return whether a model directory holds an adapter instead of all weights."""
    return isinstance(directory, Path) and (directory / _CONFIG).is_file()


def base_of(directory: Path) -> str:
    """Return the name of an adapter's model. Raises UserError if its files do not name one."""
    base = read_object(directory / _CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise UserError(f"{_CONFIG} names no model in base_model_name_or_path")
    return base


@torch.no_grad()
def merge(model: "PreTrainedModel", directory: Path) -> None:
    """Add the adapter of a directory to the weights of its model, in float32 with any type.

    Raises UserError if the two do not belong together.
    """
    settings = read_object(directory / _CONFIG)
    stored = load_file(directory / _WEIGHTS)
    try:
        scale = settings["lora_alpha"] / settings["r"]
        for key in stored:
            if not key.endswith(".lora_A.weight"):
                continue
            name = key.removesuffix(".lora_A.weight")
            layer = model.get_submodule(name.removeprefix(_ROOT))
            delta = stored[f"{name}.lora_B.weight"] @ stored[key]
            if not isinstance(layer, Linear):  # GPT-2's Conv1D
                delta = delta.T
            delta = delta.mul_(scale).reshape(layer.weight.shape).to(layer.weight.device)
            layer.weight.copy_(layer.weight + shard_as(delta, layer.weight))
    except (KeyError, TypeError, ZeroDivisionError, AttributeError, RuntimeError) as error:
        raise UserError(f"its adapter does not fit {base_of(directory)} ({error})") from None


def matrices(model: Module) -> dict[str, Tensor]:
    """Return the adapter's matrices by their names in peft's files."""
    return {
        f"{_ROOT}{name.replace('.default', '')}": parameter.detach()
        for name, parameter in model.named_parameters()
        if ".lora_" in name
    }
