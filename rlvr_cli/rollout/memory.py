"""Predict the memory that training needs, by part and phase, and find how much there is."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlvr_cli.config import Config, OptimConfig
from rlvr_cli.model.attention import attention_sizes
from rlvr_cli.model.policy import chunk_rows, decoder_layers
from rlvr_cli.ranks.group import world
from rlvr_cli.rollout.plan import is_shared_out

_FLOAT, _HALF, _BYTE = 4, 2, 1.02
"""Bytes of a number; of 8 bits with the scale that 256 of them share."""
_KEPT_HIDDEN, _KEPT_HEADS, _KEPT_INNER, _KEPT_RANK = 7, 4, 4, 7
"""Vectors a token that one layer keeps for the backward pass, of each of its widths."""
_KEPT_NORMS = 2
"""Those of the hidden width that only the gradients of its norms need, which LoRA leaves out."""
_LOGITS = 4
"""Copies of one chunk of logits: scaled, log-softmax, and their gradients (model/policy.py)."""
_TOKEN = 100
"""Bytes of one sampled token with its log-probability, as Python keeps them."""


@dataclass(frozen=True)
class Need:
    """The bytes needed, by part: at any time, and in the two phases."""

    always: dict[str, int]
    sampling: dict[str, int]
    updating: dict[str, int]

    @property
    def peak(self) -> int:
        """Return the bytes of the larger phase."""
        return sum(self.always.values()) + max(
            sum(self.sampling.values()), sum(self.updating.values())
        )

    @property
    def resident(self) -> int:
        """Return the bytes that do not depend on the batch."""
        return sum(self.always.values()) + self.updating.get("gradients", 0)


def memory_needed(model: Any, config: Config, engine_has_own: bool) -> Need:
    """Predict what training needs on the model's device; the model may be a description without
    weights (meta). `engine_has_own`: keys and values are not ours to find room for."""
    optim, algo, lora = config.optim, config.algorithm, config.lora.rank
    size = _FLOAT if optim.weights != "bfloat16" else _HALF
    weights = sum(parameter.numel() for parameter in model.parameters())
    trained = weights if lora is None else _adapter_numbers(model, lora, config.lora.targets)
    frozen_copy = size * weights
    of_trained = size if lora is None else _FLOAT
    moments = {"full": 2 * of_trained, "8bit": 2 * _BYTE}[optim.moments]
    critic = algo.critic is not None and algo.critic.kind == "own"
    copies = 1 + critic
    shares_reference = lora is not None and algo.renewal is None
    on_cpu, shared_out = optim.offload == "all", is_shared_out(optim)
    own, trained_here = frozen_copy // world(), trained // world()
    always = {
        "weights": 0 if on_cpu else own,
        "responses of a step": responses_memory(config),
        "AdamW": 0 if on_cpu else int(copies * moments * trained_here),
        "adapter": 0 if lora is None or on_cpu else copies * _FLOAT * trained_here,
        "reference policy": own if algo.has_reference_model and not shares_reference else 0,
        "critic": own if critic else 0,
    }
    if on_cpu:
        always |= {"reference policy": 0, "critic": 0}
    merged = (lora is not None or shared_out) and not engine_has_own
    sampling = {
        "keys and values": 0 if engine_has_own else config.rollout.kv_budget_mb << 20,
        "merged weights": frozen_copy if merged else 0,
    }
    rows = min(chunk_rows(_vocabulary(model), model.device), optim.micro_tokens)
    logits = _LOGITS * _FLOAT * _vocabulary(model) * rows
    updating = {
        # Shared out they wait whole, in float32, for the last micro-batch.
        "gradients": 0 if on_cpu else copies * (_FLOAT if shared_out else of_trained) * trained,
        "merged weights": sampling["merged weights"],
        "weights put together": _put_together(model, weights, optim) if shared_out else 0,
        "forward and backward": _activations(model, config, lora, logits),
        "logits": logits,
    }
    return Need(*({k: v for k, v in part.items() if v} for part in (always, sampling, updating)))


def _put_together(model: Any, weights: int, optim: OptimConfig) -> int:
    """Predict the weights that are whole at a time: those outside of the layers, and two layers."""
    shape = model.config.get_text_config()
    outside = 2 * _vocabulary(model) * shape.hidden_size
    size = _HALF if optim.precision == "bfloat16" else _FLOAT
    layers = 2 * max(0, weights - outside) // shape.num_hidden_layers
    return size * (outside + layers)


def _activations(model: Any, config: Config, rank: int | None, logits: int) -> int:
    """Predict what the layers keep for the backward pass: all of it, or their inputs and what one
    layer takes beyond the logits, which are gone by then."""
    optim, shape = config.optim, model.config.get_text_config()
    size = _HALF if optim.precision == "bfloat16" else _FLOAT
    inner = getattr(shape, "intermediate_size", None) or 4 * shape.hidden_size
    sizes = attention_sizes(shape)
    heads = _KEPT_HEADS * sizes.heads * sizes.head_dim
    layer = _KEPT_HIDDEN * shape.hidden_size + heads + _KEPT_INNER * inner
    if rank is not None:
        layer += _KEPT_RANK * rank - _KEPT_NORMS * shape.hidden_size
    layers, numbers = shape.num_hidden_layers, size * optim.micro_tokens
    if optim.checkpointing != "on":
        return numbers * layers * layer
    return numbers * layers * shape.hidden_size + max(0, numbers * layer - logits)


def _vocabulary(model: Any) -> int:
    return model.get_output_embeddings().weight.shape[0]


def _adapter_numbers(model: Any, rank: int, targets: Any) -> int:
    """Count the numbers of an adapter: rank times both widths of each linear layer that has one."""
    head = model.get_output_embeddings()
    return sum(
        rank * sum(layer.weight.shape)
        for name, layer in model.named_modules()
        if getattr(layer, "weight", None) is not None
        and layer.weight.dim() == 2
        and not isinstance(layer, torch.nn.Embedding)
        and layer is not head
        and ".lora_" not in name
        and (targets == "all-linear" or name.removesuffix(".base_layer").endswith(tuple(targets)))
    )


def smaller(config: Config, model: Any) -> Iterator[tuple[str, Config]]:
    """Yield settings that need less memory, cheapest first, each beside those before it."""
    changes: list[tuple[str, str, Any]] = [
        ("optim", "checkpointing", "on"),
        ("optim", "micro_tokens", max(1, config.optim.micro_tokens // 4)),
        ("rollout", "kv_budget_mb", max(1, config.rollout.kv_budget_mb // 4)),
        ("optim", "weights", "bfloat16"),
        ("lora", "rank", 32),
    ]
    if model.device.type == "cuda":
        changes += [("optim", "offload", "all")]
    said = []
    for section, key, value in changes:
        part = getattr(config, section)
        if getattr(part, key) == value or (key == "checkpointing" and not decoder_layers(model)):
            continue
        config = config.model_copy(update={section: part.model_copy(update={key: value})})
        said.append("--lora 32" if section == "lora" else f"--set {section}.{key}={value}")
        yield " ".join(said), config


def responses_memory(config: Config) -> int:
    """Estimate the bytes of one step's responses at full length while they wait for the update."""
    rollout = config.rollout
    return rollout.prompts * rollout.samples * rollout.max_tokens * _TOKEN


def memory_free(device: torch.device, lent_share: float) -> int:
    """Return the bytes still available on the device: on the GPU, where the engine returns
    `lent_share` while the policy is updated, or of this machine or container."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return free + int(lent_share * total)
    return min(_machine_free(), _container_free())


def _machine_free() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _container_free() -> int:
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text(encoding="utf-8"))
        return limit - int((group / "memory.current").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 1 << 62
