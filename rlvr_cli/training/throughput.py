"""Measure how fast a step was, how near to the machine's limits, and the memory it took."""

import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import with_signal
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import Group, by_key
from rlvr_cli.ranks.group import world
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.training.roofline import (
    Lengths,
    generation_seconds,
    machine_peaks,
    model_shape,
    update_seconds,
)


class Throughput:
    """The throughput of each step of a run: arithmetic on lengths and seconds, and memory."""

    def __init__(self, model: Any, engine: Engine, algo: Algorithm) -> None:
        self.algo = algo
        self.engine, self.on_gpu = engine, model.device.type == "cuda"
        self.shape = model_shape(model, engine.itemsize)
        self.device = model.device
        self.peaks = self.first_peaks = machine_peaks(self.device).times(world())
        self.memory: dict[str, float] = {}

    def of_run(self, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Compute `run_throughput` with the peaks measured once more: the higher ones count."""
        self.peaks = self.peaks.best(machine_peaks(self.device).times(world()))
        flops = self.peaks.flops / self.first_peaks.flops
        return run_throughput(
            history, flops, max(flops, self.peaks.bandwidth / self.first_peaks.bandwidth)
        )

    def note_memory(self, when: str) -> None:
        """Record the GPU memory now in use by any process as `memory_WHEN_gib`."""
        if self.on_gpu:
            free, total = torch.cuda.mem_get_info()
            self.memory[f"memory_{when}_gib"] = (total - free) / GIB

    def of_step(
        self,
        sampled: Sequence[Group],
        trained: Lengths,
        scored: int,
        epochs: float,
        seconds: Mapping[str, float],
    ) -> dict[str, float | None]:
        """Compute the throughput of one step from the seconds of its phases, `seconds_PHASE`.

        `scored` counts the tokens of the forward passes before the update; `trained` are the
        lengths of what went through it, `epochs` times.
        In the least times only the policy's own work counts: a critic's shows as time.
        """
        sampled_lengths = _lengths(sampled)
        generated = [] if self.algo.reads_responses else sampled_lengths
        signal = with_signal(sampled, self.algo)
        row: dict[str, float | None] = {
            "tokens_with_signal": sum(len(rollout.completion.token_ids) for rollout in signal),
            "seconds_step": sum(seconds.values()),
            "least_seconds_rollout": generation_seconds(
                self.shape, generated, self._together(generated), self.peaks
            ),
            "least_seconds_update": epochs * update_seconds(self.shape, trained, self.peaks),
            "tokens_updated": epochs * _tokens(trained),
            "tokens_scored": scored,
        }
        peak = max(self.memory.values(), default=0.0) if self.on_gpu else _process_peak() / GIB
        shares = _shares({**row, **seconds, "tokens_sampled": _tokens(sampled_lengths)})
        return {**row, **shares, **self.memory, "memory_peak_gib": peak}

    def _together(self, lengths: Lengths) -> float:
        """Return how many responses of the mean length the engine can hold at once."""
        held = [prompt + tokens for prompt, group in lengths for tokens in group]
        fit = self.engine.kv_tokens * len(held) / max(1, sum(held))
        return max(1.0, world() * min(fit, self.engine.max_sequences))


def run_throughput(
    history: Sequence[Mapping[str, Any]], flops_gain: float = 1.0, most_gain: float = 1.0
) -> dict[str, Any]:
    """Compute the throughput over all steps: ratios of sums, never means of ratios.

    The least times are of peaks that have turned out higher since, those of matrix operations by
    `flops_gain` and either kind by `most_gain` at most: so they stay least times.
    """

    def values(key: str) -> list[float]:
        return [row[key] for row in history if row.get(key) is not None]

    added = (
        *(f"tokens_{of}" for of in ("sampled", "scored", "updated", "with_signal")),
        *(f"seconds_{of}" for of in ("step", "rollout", "verification", "logprobs")),
        *("seconds_update", "seconds_sync", "least_seconds_rollout", "least_seconds_update"),
    )
    totals: dict[str, Any] = {key: sum(values(key)) for key in added}
    totals["least_seconds_rollout"] /= most_gain
    totals["least_seconds_update"] /= flops_gain
    largest = {
        "mismatch_max": max(values("mismatch"), default=None),
        "memory_peak_gib": max(values("memory_peak_gib"), default=None),
    }
    return {**totals, **_shares(totals), **largest}


def _shares(row: Mapping[str, Any]) -> dict[str, float | None]:
    rollout, update = row.get("seconds_rollout"), row.get("seconds_update")
    step, least_rollout = row["seconds_step"], row["least_seconds_rollout"]
    least_update = row["least_seconds_update"]
    work = {
        "rollout": row["tokens_sampled"],
        "verification": row["tokens_sampled"],
        "logprobs": row["tokens_scored"],
        "update": row["tokens_updated"],
    }
    shares = {
        "roof_gen": _ratio(least_rollout, rollout),
        "mfu": _ratio(least_update, update),
        "roof_step": _ratio(least_rollout + least_update, step),
    }
    return {
        **{
            f"tokens_per_second_{phase}": _ratio(tokens, row.get(f"seconds_{phase}"))
            if tokens
            else None
            for phase, tokens in work.items()
        },
        "goodput": _ratio(row["tokens_with_signal"], step),
        "signal_share": _ratio(row["tokens_with_signal"], row["tokens_sampled"]),
        **{name: None if share and share > 1 else share for name, share in shares.items()},
        "machine_busy": any(share is not None and share > 1 for share in shares.values()),
    }


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


def trained_lengths(samples: Sequence[TrainingSample]) -> Lengths:
    """Return the lengths of the samples that train, by their prompts."""
    by_prompt = by_key(samples, lambda sample: tuple(sample.prompt_ids))
    return [(len(ids), [len(s.response_ids) for s in part]) for ids, part in by_prompt.items()]


def _lengths(groups: Sequence[Group]) -> Lengths:
    return [
        (len(group.prompt.token_ids), [len(r.completion.token_ids) for r in group.rollouts])
        for group in groups
    ]


def _tokens(lengths: Lengths) -> int:
    return sum(sum(group) for _, group in lengths)


def _process_peak() -> int:
    """Return the peak memory in bytes; macOS reports bytes, other systems kibibytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
