"""Predict the memory that training needs, by part and phase, and find how much there is."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.model.packing import attention_sizes
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
_WORKSPACE = GIB
"""Of vLLM, and of torch's kernels beside it."""


@dataclass(frozen=True)
class Need:
    """The bytes needed, by part: at any time, and in the two phases."""

    always: dict[str, int]
    sampling: dict[str, int]
    updating: dict[str, int]

    @property
    def peak(self) -> int:
        """Return the bytes of the larger phase."""
        phases = (sum(part.values()) for part in (self.sampling, self.updating))
        return sum(self.always.values()) + max(phases)

    @property
    def resident(self) -> int:
        """Return the bytes that do not depend on the batch."""
        return sum(self.always.values()) + self.updating.get("gradients", 0)


def memory_needed(model: Any, config: Config, engine_has_own: bool, teacher: Any = None) -> Need:
    """Predict what training needs on the model's device; model and teacher may be descriptions
    without weights (meta). `engine_has_own`: keys and values are not ours to find room for."""
    optim, algo, rank = config.optim, config.algorithm, config.lora.rank
    shape = model.config.get_text_config()
    vocabulary, hidden = model.get_output_embeddings().weight.shape[0], shape.hidden_size
    on_cpu, shared_out = optim.offload == "all", is_shared_out(optim)
    # What there is a parameter: weights, AdamW's moments and gradients of policy and critic.
    size = _HALF if optim.weights == "bfloat16" else _FLOAT
    count = sum(parameter.numel() for parameter in model.parameters())
    trained, of_trained = count, size
    if rank is not None:
        trained, of_trained = _adapter_numbers(model, rank, config.lora.targets), _FLOAT
    moments = {"full": 2 * of_trained, "8bit": 2 * _BYTE}[optim.moments]
    critic = algo.critic is not None and algo.critic.kind == "own"
    copies, own, trained_here = 1 + critic, size * count // world(), trained // world()
    reference = 0 if rank is not None and algo.renewal is None else own
    if teacher is not None:
        reference = size * sum(parameter.numel() for parameter in teacher.parameters()) // world()
    always = {
        "weights": own,
        "responses of a step": responses_memory(config),
        "AdamW": int(copies * moments * trained_here),
        "adapter": 0 if rank is None else copies * _FLOAT * trained_here,
        "reference policy": reference if algo.has_reference_model else 0,
        "critic": own if critic else 0,
    }
    if on_cpu:
        always = {"responses of a step": responses_memory(config)}
    # What the layers keep of the tokens of a micro-batch for the backward pass: all of it, or their
    # inputs and what one layer takes beyond the logits, which are gone by then.
    rows = min(chunk_rows(vocabulary, model.device), optim.micro_tokens)
    logits = _LOGITS * _FLOAT * vocabulary * rows
    number = _HALF if optim.precision == "bfloat16" else _FLOAT
    sizes, inner = attention_sizes(shape), getattr(shape, "intermediate_size", None) or 4 * hidden
    layer = _KEPT_HIDDEN * hidden + _KEPT_HEADS * sizes.heads * sizes.head_dim + _KEPT_INNER * inner
    if rank is not None:
        layer += _KEPT_RANK * rank - _KEPT_NORMS * hidden
    layers, numbers = shape.num_hidden_layers, number * optim.micro_tokens
    kept = numbers * layers * layer
    if optim.checkpointing == "on":
        kept = numbers * layers * hidden + max(0, numbers * layer - logits)
    # Shared out, weights are put together at times: those outside of the layers, and two layers.
    outside = 2 * vocabulary * hidden
    together = number * (outside + 2 * max(0, count - outside) // layers) if shared_out else 0
    merged = size * count if (rank is not None or shared_out) and not engine_has_own else 0
    sampling = {
        "keys and values": 0 if engine_has_own else config.rollout.kv_budget_mb << 20,
        "merged weights": merged,
    }
    updating = {
        # Shared out they wait whole, in float32, for the last micro-batch.
        "gradients": 0 if on_cpu else copies * (_FLOAT if shared_out else of_trained) * trained,
        "merged weights": merged,
        "weights put together": together,
        "forward and backward": kept,
        "logits": logits,
    }
    return Need(*({k: v for k, v in part.items() if v} for part in (always, sampling, updating)))


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


def responses_memory(config: Config) -> int:
    """Estimate the bytes of one step's responses at full length while they wait for the update."""
    rollout = config.rollout
    return rollout.prompts * rollout.samples * rollout.max_tokens * _TOKEN


def check_gpu(
    described: Any, config: Config, training: bool, total: int, teacher: Any = None
) -> None:
    """Raise UserError if a model, as its configuration describes it, does not fit a GPU of `total`
    bytes beside its teacher and vLLM, which takes `gpu_share` of it for weights in bfloat16, keys
    and values.

    In evaluation the weights stay beside vLLM in float32; in training all that does not depend on
    the batch, where gradients have the whole GPU while vLLM sleeps.
    """
    count = sum(parameter.numel() for parameter in described.parameters())
    beside = updating = _FLOAT * count
    if training:
        need = memory_needed(described, config, engine_has_own=True, teacher=teacher)
        beside, updating = sum(need.always.values()), need.resident
    share = config.rollout.gpu_share
    lent, within = int(share * total), _HALF * count + _WORKSPACE
    if within <= lent and beside <= total - lent and updating <= total - _WORKSPACE:
        return
    raise UserError(
        f"--model {config.model}: {'training' if training else 'sampling'} {count / 1e9:.2g} "
        f"billion parameters beside vLLM does not fit a GPU of {total / GIB:.0f} GiB with "
        f"rollout.gpu_share {share:g}: vLLM needs {within / GIB:.1f} GiB in its share, the model "
        f"{beside / GIB:.1f} beside it and {updating / GIB:.1f} while it sleeps; take a smaller "
        "model, a larger GPU, another rollout.gpu_share, --lora 32 or --engine transformers"
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


def memory_free(device: torch.device, lent_share: float) -> int:
    """Return the bytes still available on the device: on the GPU, where the engine returns
    `lent_share` while the policy is updated, or of this machine or container."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return free + int(lent_share * total)
    found, group = [], Path("/sys/fs/cgroup")
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable"))
        found.append(int(line.split()[1]) << 10)
    with suppress(OSError, ValueError):  # no limit is the word max
        limit = int((group / "memory.max").read_text(encoding="utf-8"))
        found.append(limit - int((group / "memory.current").read_text(encoding="utf-8")))
    return min(found, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
