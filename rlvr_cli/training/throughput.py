"""Compute how fast a step and a run were: tokens per second, and the share of the GPU's peak."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.algorithm.group_filter import GroupBatch, trains, with_signal
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import History, Rates, Seconds, TokenUse, Value, values_of
from rlvr_cli.model.packing import attention_sizes
from rlvr_cli.model.quantized import quantized_layers
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
Lengths = Sequence[tuple[int, int]]
"""The tokens of prompt and response of each row that the update passed, once a pass."""


@dataclass(frozen=True)
class TokenCounts:
    """The tokens of a step or a run by kind."""

    sampled: float
    scored: float
    updated: float
    with_signal: float


@dataclass(frozen=True)
class RunThroughput:
    """The throughput over all steps of a run."""

    tokens: TokenCounts
    seconds: Seconds
    rates: Rates
    mfu: float | None
    mismatch_max: float | None
    memory_peak_gib: float | None

    @property
    def row(self) -> JsonObject:
        """Return it as summary.json has it."""
        return {
            "tokens_sampled": self.tokens.sampled,
            "tokens_scored": self.tokens.scored,
            "tokens_updated": self.tokens.updated,
            "tokens_with_signal": self.tokens.with_signal,
            "seconds_step": self.seconds.step,
            "seconds_rollout": self.seconds.rollout,
            "seconds_verification": self.seconds.verification,
            "seconds_logprobs": self.seconds.logprobs,
            "seconds_update": self.seconds.update,
            "seconds_sync": self.seconds.sync,
            **vars(self.rates),
            "mfu": self.mfu,
            "mismatch_max": self.mismatch_max,
            "memory_peak_gib": self.memory_peak_gib,
        }


def step_throughput(
    sampled: int,
    scored: int,
    seconds: Seconds,
    batch: GroupBatch,
    max_tokens: int,
    lengths: Lengths,
    model: Any,
) -> tuple[TokenUse, Rates]:
    """Compute what of the tokens of a step was of use, and how fast it was.

    `sampled` and `scored` are its tokens of these kinds.
    """
    algo = batch.algo
    groups = [group for group in batch.sampled if trains(group, algo)]
    signal = with_signal(groups, algo, max_tokens, batch.weightless)
    is_cuda = model.device.type == "cuda"
    peak = peak_flops(torch.cuda.get_device_name(model.device) if is_cuda else "")
    mfu = None
    if peak and seconds.update:
        bodies = 2 if algo.critic and algo.critic.kind == "own" else 1
        mfu = update_flops(model, lengths, bodies) / (seconds.update * peak * world())
    signal_tokens = sum(len(rollout.completion.token_ids) for rollout in signal)
    updated = sum(response for _, response in lengths)
    tokens = TokenCounts(sampled, scored, updated, signal_tokens)
    return TokenUse(signal_tokens, updated, mfu), _rates(tokens, seconds)


def peak_flops(name: str) -> float | None:
    """Look up the peak of a GPU by name. Return None if it is not in the table."""
    for gpu, peak in PEAK_FLOPS.items():
        if re.search(rf"\b{gpu}\b(?! (NVL|Laptop))", name):
            return peak
    return None


def update_flops(model: Any, lengths: Lengths, bodies: int = 1) -> float:
    """Compute the operations of a forward and backward pass over responses and their prompts.

    A parameter costs 6 operations a token, 4 if it is frozen and has no gradient of its own, as a
    quantized one is. The output layer counts for the responses alone, attention is causal, and
    nothing counts twice for being recomputed. Every response counts its prompt, so passing a shared
    prompt only once, as the trainer does, shows as speed. A critic with a body of its own is
    another one of `bodies`.
    Chowdhery 2022, arXiv:2204.02311, appendix B.
    """
    config = model.config.get_text_config()
    heads, _, head_dim = attention_sizes(config)
    head = model.get_output_embeddings().weight
    not_body = {id(model.get_input_embeddings().weight), id(head)}

    def flops(weight: Tensor) -> int:
        return (6 if weight.requires_grad else 4) * weight.numel()

    body = sum(flops(weight) for weight in model.parameters() if id(weight) not in not_body)
    body += sum(4 * layer.in_features * layer.out_features for _, layer in quantized_layers(model))
    width = 6 * config.num_hidden_layers * heads * head_dim
    total = 0
    for prompt, response in lengths:
        length = prompt + response
        total += bodies * (body * length + width * length**2) + flops(head) * response
    return total


def run_throughput(history: History) -> RunThroughput:
    """Compute the throughput over all steps: ratios of sums, never means of ratios."""

    def total(value: Value) -> float:
        return sum(values_of(history, value))

    tokens = TokenCounts(
        sampled=total(lambda figures: figures.tokens_decoded),
        scored=total(lambda figures: figures.batch.tokens_scored),
        updated=total(lambda figures: figures.use.tokens_updated),
        with_signal=total(lambda figures: figures.use.tokens_with_signal),
    )
    seconds = Seconds(
        step=total(lambda figures: figures.seconds.step),
        rollout=total(lambda figures: figures.seconds.rollout),
        verification=total(lambda figures: figures.seconds.verification),
        logprobs=total(lambda figures: figures.seconds.logprobs),
        update=total(lambda figures: figures.seconds.update),
        sync=total(lambda figures: figures.seconds.sync),
    )
    measured = [
        (figures.use.mfu, figures.seconds.update)
        for figures in history
        if figures.use.mfu is not None and figures.seconds.update is not None
    ]
    peak_seconds = sum(mfu * update for mfu, update in measured)
    mismatches = values_of(history, lambda figures: figures.update.mismatch)
    peaks = values_of(history, lambda figures: figures.memory.peak)
    return RunThroughput(
        tokens=tokens,
        seconds=seconds,
        rates=_rates(tokens, seconds),
        mfu=_ratio(peak_seconds, sum(update for _, update in measured)),
        mismatch_max=max(mismatches, default=None),
        memory_peak_gib=max(peaks, default=None),
    )


def _rates(tokens: TokenCounts, seconds: Seconds) -> Rates:
    # A phase that passed no tokens has no rate, however long it took.
    return Rates(
        tokens_per_second_rollout=_ratio(tokens.sampled or None, seconds.rollout),
        tokens_per_second_verification=_ratio(tokens.sampled or None, seconds.verification),
        tokens_per_second_logprobs=_ratio(tokens.scored or None, seconds.logprobs),
        tokens_per_second_update=_ratio(tokens.updated or None, seconds.update),
        goodput=_ratio(tokens.with_signal, seconds.step),
        signal_share=_ratio(tokens.with_signal, tokens.sampled),
    )


def _ratio(part: float | None, total: float | None) -> float | None:
    return part / total if part is not None and total else None
