"""Compute how fast a step was, in tokens and as a share of the GPU's peak."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlvr_cli.algorithm.group_filter import Batch, with_signal
from rlvr_cli.model.packing import attention_sizes
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


def step_throughput(
    row: Mapping[str, Any], batch: Batch, lengths: Sequence[tuple[int, int]], model: Any
) -> dict[str, float | None]:
    """Compute the throughput of one step, whose `row` has its tokens and seconds by phase, from
    what it sampled and the tokens of prompt and response of each row that trained."""
    epochs, took = row.get("epochs", 1), row.get("seconds_update")
    signal = with_signal(batch.sampled, batch.algo)
    is_cuda = model.device.type == "cuda"
    peak = peak_flops(torch.cuda.get_device_name(model.device) if is_cuda else "")
    found = {
        "tokens_with_signal": sum(len(rollout.completion.token_ids) for rollout in signal),
        "tokens_updated": epochs * sum(tokens for _, tokens in lengths),
        "mfu": None,
    }
    if peak and took:
        found["mfu"] = epochs * update_flops(model, lengths) / (took * peak * world())
    return {**found, **_rates({**row, **found})}


def peak_flops(name: str) -> float | None:
    """Look up the peak of a GPU by name; None if it is not in the table."""
    for known, flops in PEAK_FLOPS.items():
        if re.search(rf"\b{known}\b(?! (NVL|Laptop))", name):
            return flops
    return None


def update_flops(model: Any, lengths: Sequence[tuple[int, int]]) -> float:
    """Compute the operations of a forward and backward pass over responses and their prompts.

    6 a parameter and token, the output layer for the responses alone, and causal attention;
    nothing is counted twice for being computed again. Every response counts its prompt, so that
    passing a shared prompt once, as the trainer does, shows as speed. Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B.
    """
    config = model.config.get_text_config()
    heads, _, head_dim = attention_sizes(config)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    outside = {id(weight): weight.numel() for weight in (embedding, head)}
    body = sum(parameter.numel() for parameter in model.parameters()) - sum(outside.values())
    width = config.num_hidden_layers * heads * head_dim
    return 6 * sum(
        body * (prompt + tokens) + head.numel() * tokens + width * (prompt + tokens) ** 2
        for prompt, tokens in lengths
    )


def run_throughput(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute the throughput over all steps: ratios of sums, never means of ratios."""

    def values(key: str) -> list[float]:
        return [row[key] for row in history if row.get(key) is not None]

    tokens = [f"tokens_{of}" for of in ("sampled", "scored", "updated", "with_signal")]
    phases = ("step", "rollout", "verification", "logprobs", "update", "sync")
    totals = {name: sum(values(name)) for name in (*tokens, *(f"seconds_{of}" for of in phases))}
    shares = [(row["mfu"], row["seconds_update"]) for row in history if row.get("mfu") is not None]
    return {
        **totals,
        **_rates(totals),
        "mfu": _ratio(sum(share * took for share, took in shares), sum(took for _, took in shares)),
        "mismatch_max": max(values("mismatch"), default=None),
        "memory_peak_gib": max(values("memory_peak_gib"), default=None),
    }


def _rates(row: Mapping[str, Any]) -> dict[str, float | None]:
    work = {"rollout": "sampled", "verification": "sampled"}
    work |= {"logprobs": "scored", "update": "updated"}
    rates = {
        f"tokens_per_second_{phase}": _ratio(row[f"tokens_{of}"], row.get(f"seconds_{phase}"))
        if row[f"tokens_{of}"]
        else None
        for phase, of in work.items()
    }
    return {
        **rates,
        "goodput": _ratio(row["tokens_with_signal"], row["seconds_step"]),
        "signal_share": _ratio(row["tokens_with_signal"], row["tokens_sampled"]),
    }


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None
