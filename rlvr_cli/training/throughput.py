"""Compute how fast a step was, in tokens and as a share of the GPU's peak, and its memory."""

import re
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import with_signal
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import Group
from rlvr_cli.model.attention import attention_sizes
from rlvr_cli.ranks.group import world

PEAK_FLOPS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
}
"""Dense bfloat16 operations a second by the makers' data sheets; the first name that stands in the
device's own as a whole counts, kin with other numbers (NVL, laptops) left out."""
_TOKENS = ("sampled", "scored", "updated", "with_signal")
_SECONDS = ("step", "rollout", "verification", "logprobs", "update", "sync")


class Throughput:
    """The throughput of each step of a run: arithmetic on lengths and seconds, and memory."""

    def __init__(self, model: Any, algo: Algorithm) -> None:
        self.algo, self.model = algo, model
        self.on_gpu = model.device.type == "cuda"
        name = torch.cuda.get_device_name(model.device) if self.on_gpu else ""
        self.peak_flops = peak_flops(name)
        self.memory: dict[str, float] = {}

    def note_memory(self, when: str) -> None:
        """Record the GPU memory now in use by any process as `memory_WHEN_gib`."""
        if self.on_gpu:
            free, total = torch.cuda.mem_get_info()
            self.memory[f"memory_{when}_gib"] = (total - free) / GIB

    def of_step(
        self,
        row: Mapping[str, Any],
        sampled: Sequence[Group],
        lengths: Sequence[tuple[int, int]],
    ) -> dict[str, float | None]:
        """Compute the throughput of one step, whose `row` has its tokens and seconds by phase, from
        what it sampled and the tokens of prompt and response of each row that trained."""
        epochs, took = row.get("epochs", 1), row.get("seconds_update")
        signal = with_signal(sampled, self.algo)
        found = {
            "tokens_with_signal": sum(len(rollout.completion.token_ids) for rollout in signal),
            "tokens_updated": epochs * sum(tokens for _, tokens in lengths),
            "mfu": None,
        }
        if self.peak_flops and took:
            flops = epochs * update_flops(self.model, lengths)
            found["mfu"] = flops / (took * self.peak_flops * world())
        peak = max(self.memory.values(), default=0.0) if self.on_gpu else _process_peak() / GIB
        return {**found, **_rates({**row, **found}), **self.memory, "memory_peak_gib": peak}


def peak_flops(name: str) -> float | None:
    """Look up the peak of a GPU by name; None if it is not in the table."""
    found = (
        flops
        for known, flops in PEAK_FLOPS.items()
        if re.search(rf"\b{known}\b(?! (NVL|Laptop))", name)
    )
    return next(found, None)


def update_flops(model: Any, lengths: Sequence[tuple[int, int]]) -> float:
    """Compute the operations of a forward and backward pass over responses and their prompts.

    6 a parameter and token, the output layer for the responses alone, and causal attention;
    nothing is counted twice for being computed again. Every response counts its prompt, so that
    passing a shared prompt once, as the trainer does, shows as speed. Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B.
    """
    config = model.config.get_text_config()
    sizes = attention_sizes(config)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    outside = {id(weight): weight.numel() for weight in (embedding, head)}
    body = sum(parameter.numel() for parameter in model.parameters()) - sum(outside.values())
    width = config.num_hidden_layers * sizes.heads * sizes.head_dim
    return 6 * sum(
        body * (prompt + tokens) + head.numel() * tokens + width * (prompt + tokens) ** 2
        for prompt, tokens in lengths
    )


def run_throughput(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute the throughput over all steps: ratios of sums, never means of ratios."""

    def values(key: str) -> list[float]:
        return [row[key] for row in history if row.get(key) is not None]

    names = [f"tokens_{of}" for of in _TOKENS] + [f"seconds_{of}" for of in _SECONDS]
    totals = {name: sum(values(name)) for name in names}
    shares = [(row["mfu"], row["seconds_update"]) for row in history if row.get("mfu") is not None]
    return {
        **totals,
        **_rates(totals),
        "mfu": _ratio(sum(share * took for share, took in shares), sum(took for _, took in shares)),
        "mismatch_max": max(values("mismatch"), default=None),
        "memory_peak_gib": max(values("memory_peak_gib"), default=None),
    }


def _rates(row: Mapping[str, Any]) -> dict[str, float | None]:
    work = {
        "rollout": row["tokens_sampled"],
        "verification": row["tokens_sampled"],
        "logprobs": row["tokens_scored"],
        "update": row["tokens_updated"],
    }
    rates = {
        f"tokens_per_second_{phase}": _ratio(tokens, row.get(f"seconds_{phase}"))
        if tokens
        else None
        for phase, tokens in work.items()
    }
    return {
        **rates,
        "goodput": _ratio(row["tokens_with_signal"], row["seconds_step"]),
        "signal_share": _ratio(row["tokens_with_signal"], row["tokens_sampled"]),
    }


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


def _process_peak() -> int:
    """Return the peak memory in bytes; macOS reports bytes, other systems kibibytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
