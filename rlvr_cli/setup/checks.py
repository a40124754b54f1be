"""Refuse a command that cannot go well: before its models are loaded, or right after."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.core.versions import installed_version
from rlvr_cli.model.adapter import is_adapter, merged_parameters
from rlvr_cli.model.forward import Sample, largest_activation
from rlvr_cli.model.loading import LoadedModel, model_directory
from rlvr_cli.model.quantized import NF4, check_library, check_quantizable
from rlvr_cli.setup.memory import Memory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def check_architecture(config: Config, outline: "PreTrainedModel") -> None:
    """Raise UserError if vLLM is the engine and does not know the architecture of the model."""
    if config.engine != "vllm":
        return
    from rlvr_cli.rollout.engines.vllm_engine import known_architectures

    architectures = outline.config.architectures or [type(outline.config).__name__]
    if set(architectures).isdisjoint(known_architectures()):
        raise UserError(
            f"--model {config.model}: vLLM {installed_version('vllm')} does not know the "
            f"architecture {architectures[0]}; --engine transformers may"
        )


def check_adapter(config: Config) -> None:
    """Raise UserError for an adapter that would be trained on a model that has one."""
    rank = config.lora.rank
    if rank is not None and is_adapter(model_directory(config.model)):
        raise UserError(
            f"--lora {rank}: {config.model} has an adapter already: merge it with rlvr export and "
            "train on that, go on with --resume, or train all weights of it with --set "
            "lora.rank=null"
        )


def check_quantization(config: Config, outline: "PreTrainedModel") -> None:
    """Raise UserError if the library that quantizes is missing, or a model unfit for it."""
    if config.lora.base == "nf4":
        check_quantizable(outline)
        check_library(NF4)
    if config.optim.moments == "8bit":
        check_library("optim.moments 8bit")


def check_memory(memory: Memory, config: Config) -> None:
    """Raise UserError for a model that does not fit the machine, however short the responses."""
    host = memory.machine.host
    if host is not None and not memory.fits_host(config):
        host_need = sum(memory.needed_on_host(config).values())
        raise UserError(
            f"--model {config.model}: about {host_need / GIB:.1f} GiB of the host's memory are "
            f"needed for each process, and {host / GIB:.1f} GiB are free: take a smaller model, "
            "or a machine with more memory"
        )
    need = memory.needed(config)
    free = memory.machine.free
    if need.resident > free:
        raise UserError(f"--model {config.model}: {need.shortage(free)}: {memory.advice(config)}")


def check_vocabulary(teacher: LoadedModel, policy: LoadedModel, name: str) -> None:
    """Raise UserError if a token of the teacher is another one of the policy's."""
    if teacher.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise UserError(
            f"--teacher {name}: its tokens are not those of the policy {policy.name} "
            f"({len(teacher.tokenizer)} tokens and {len(policy.tokenizer)}), so it cannot judge "
            "them; take a teacher with the policy's tokenizer"
        )


def check_range(
    name: str, model: "PreTrainedModel", sample: Sample, config: Config, training: bool
) -> None:
    """Raise UserError if a model is to compute in float16 and its activations leave the range."""
    settings = {"rollout.precision": config.rollout.precision}
    if training:
        settings["optim.precision"] = config.optim.precision
    if "float16" not in settings.values():
        return
    layer, size = largest_activation(model, sample)
    if size > torch.finfo(torch.float16).max:
        remedy = " ".join(f"--set {setting}=float32" for setting in settings)
        raise UserError(
            f"--model {name}: it cannot compute in float16, whose numbers end at 65504: "
            f"{layer} has {size:.3g}; take {remedy}"
        )


def check_teacher(teacher: LoadedModel, policy: LoadedModel, name: str | None) -> None:
    """Raise UserError if the teacher has the policy's own weights."""
    missing = ("", torch.empty(0))
    pairs = zip_longest(
        merged_parameters(policy.model), merged_parameters(teacher.model), fillvalue=missing
    )
    if all(
        policy_name == teacher_name
        and weight.shape == teacher_weight.shape
        and torch.equal(weight, teacher_weight.to(weight))
        for (policy_name, weight), (teacher_name, teacher_weight) in pairs
    ):
        raise UserError(
            f"--teacher {name}: it is the policy itself, which has nothing to learn from it; take "
            "another model"
        )


@contextmanager
def naming_the_teacher() -> Iterator[None]:
    """Name `--teacher` in place of `--model` in the errors of the block."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("--model", "--teacher", 1)) from None
