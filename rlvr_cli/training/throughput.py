"""Compute how fast a step and a run were: tokens per second, and the share of the GPU's peak."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.algorithm.group_filter import GroupBatch, trains, with_signal
from rlvr_cli.core.types import History, Metrics
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
"""Dense bfloat16 operations a second by the makers' data sheets. The first name that is a part of
the device's own counts, except for its kin with other numbers (NVL, laptops)."""
TOKEN_KINDS = ("sampled", "scored", "updated", "with_signal")
PHASES = ("step", "rollout", "verification", "logprobs", "update", "sync")
PHASE_TOKENS = {
    "rollout": "sampled",
    "verification": "sampled",
    "logprobs": "scored",
    "update": "updated",
}
"""The kind of tokens that each phase works on."""
Lengths = Sequence[tuple[int, int]]
"""The tokens of prompt and response of each row that the update passed, once a pass."""


def step_throughput(
    row: Metrics, batch: GroupBatch, max_tokens: int, lengths: Lengths, model: Any
) -> dict[str, float | None]:
    """Compute the throughput of one step, whose `row` has its tokens and seconds by phase."""
    algo = batch.algo
    groups = [group for group in batch.sampled if trains(group, algo)]
    signal = with_signal(groups, algo, max_tokens, batch.weightless)
    seconds = row.get("seconds_update")
    is_cuda = model.device.type == "cuda"
    peak = peak_flops(torch.cuda.get_device_name(model.device) if is_cuda else "")
    mfu = None
    if peak and seconds:
        bodies = 2 if algo.critic and algo.critic.kind == "own" else 1
        mfu = update_flops(model, lengths, bodies) / (seconds * peak * world())
    figures = {
        "tokens_with_signal": sum(len(rollout.completion.token_ids) for rollout in signal),
        "tokens_updated": sum(response for _, response in lengths),
        "mfu": mfu,
    }
    return {**figures, **_rates({**row, **figures})}


def peak_flops(name: str) -> float | None:
    """Look up the peak of a GPU by name. Return None if it is not in the table."""
    for gpu, peak in PEAK_FLOPS.items():
        if re.search(rf"\b{gpu}\b(?! (NVL|Laptop))", name):
            return peak
    return None


def update_flops(model: Any, lengths: Lengths, bodies: int = 1) -> float:
    """Compute the operations of a forward and backward pass over responses and their prompts.

    A parameter costs 6 operations a token, 4 if it is frozen and has no gradient of its own. The
    output layer counts for the responses alone, attention is causal, and nothing counts twice for
    being recomputed. Every response counts its prompt, so passing a shared prompt only once, as the
    trainer does, shows as speed. A critic with a body of its own is another one of `bodies`.
    Chowdhery 2022, arXiv:2204.02311, appendix B.
    """
    config = model.config.get_text_config()
    heads, _, head_dim = attention_sizes(config)
    head = model.get_output_embeddings().weight
    not_body = {id(model.get_input_embeddings().weight), id(head)}

    def flops(weight: Tensor) -> int:
        return (6 if weight.requires_grad else 4) * weight.numel()

    body = sum(flops(weight) for weight in model.parameters() if id(weight) not in not_body)
    width = 6 * config.num_hidden_layers * heads * head_dim
    total = 0
    for prompt, response in lengths:
        length = prompt + response
        total += bodies * (body * length + width * length**2) + flops(head) * response
    return total


def run_throughput(history: History) -> Metrics:
    """Compute the throughput over all steps: ratios of sums, never means of ratios."""

    def values(key: str) -> list[float]:
        return [row[key] for row in history if row.get(key) is not None]

    names = [f"tokens_{kind}" for kind in TOKEN_KINDS] + [f"seconds_{phase}" for phase in PHASES]
    totals = {name: sum(values(name)) for name in names}
    measured = [row for row in history if row.get("mfu") is not None]
    peak_seconds = sum(row["mfu"] * row["seconds_update"] for row in measured)
    return {
        **totals,
        **_rates(totals),
        "mfu": _ratio(peak_seconds, sum(row["seconds_update"] for row in measured)),
        "mismatch_max": max(values("mismatch"), default=None),
        "memory_peak_gib": max(values("memory_peak_gib"), default=None),
    }


def _rates(row: Metrics) -> dict[str, float | None]:
    rates = {}
    for phase, kind in PHASE_TOKENS.items():
        # A phase that passed no tokens has no rate, however long it took.
        tokens = row[f"tokens_{kind}"] or None
        rates[f"tokens_per_second_{phase}"] = _ratio(tokens, row.get(f"seconds_{phase}"))
    rates["goodput"] = _ratio(row["tokens_with_signal"], row["seconds_step"])
    rates["signal_share"] = _ratio(row["tokens_with_signal"], row["tokens_sampled"])
    return rates


def _ratio(part: float | None, total: float | None) -> float | None:
    return part / total if part is not None and total else None
