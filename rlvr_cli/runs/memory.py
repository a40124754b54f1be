"""Estimate how much memory training needs, and find how much there is."""

import os
from pathlib import Path
from typing import Any

import torch

from rlvr_cli.config import Config

_FLOAT = 4
_GRADIENT_AND_ADAM = 3
"""Copies of the trained weights beside themselves: the gradient and AdamW's two moments."""
_KEPT_HIDDEN, _KEPT_INNER = 8, 4
"""Vectors a token that one layer keeps for the backward pass, of its two widths."""
OF_WEIGHTS = ("gradient and AdamW", "reference policy", "critic")
"""The parts whose size does not depend on the batch."""
_TOKEN = 100
"""Bytes of one sampled token with its log-probability, as Python keeps them."""
_LOGITS_MB = 256
"""One chunk of logits, its log-softmax and its gradient (policy.py)."""


def memory_needed(model: Any, config: Config, engine_has_own: bool) -> dict[str, int]:
    """Estimate the bytes needed beside the loaded weights, by purpose.

    `engine_has_own`: keys and values are not ours to find room for.
    """
    weights = _FLOAT * model.num_parameters()
    shape = model.config.get_text_config()
    inner = getattr(shape, "intermediate_size", None) or 4 * shape.hidden_size
    kept = _KEPT_HIDDEN * shape.hidden_size + _KEPT_INNER * inner
    activations = _FLOAT * kept * shape.num_hidden_layers * config.optim.micro_tokens
    critic = config.algorithm.critic
    own_critic = critic is not None and critic.kind == "own"
    needed = {
        "responses of a step": responses_memory(config),
        "gradient and AdamW": _GRADIENT_AND_ADAM * weights,
        "reference policy": weights if config.algorithm.has_reference_model else 0,
        "critic": (1 + _GRADIENT_AND_ADAM) * weights if own_critic else 0,
        "forward and backward": activations + (_LOGITS_MB << 20),
        "keys and values": 0 if engine_has_own else config.rollout.kv_budget_mb << 20,
    }
    return {name: size for name, size in needed.items() if size}


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
