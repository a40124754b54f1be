"""Keep what a step did, apart from the loop: seconds per phase, memory, metrics, throughput."""

import re
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.algorithm.group_filter import Batch, is_alike, trains, with_signal
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import TOKEN_FIGURES, Group
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.model.packing import attention_sizes
from rlvr_cli.ranks.group import is_first, sum_tensor, world
from rlvr_cli.setup.session import Session

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
_GROUPS, _TOKENS = 2, 4096
"""Whose tokens are kept, and how many of all their responses together."""
_LONGEST_CHARACTER = 4
"""Tokens, of a byte each."""
Watch = Callable[[str, int, int, int], None]
"""A callback within a step: its phase, the units done, of how many (0: unknown), their tokens."""


def counted(watch: Watch, phase: str, total: int) -> Callable[[int, int], None]:
    """Return what adds up the units and tokens of a phase for `watch`."""
    units = tokens = 0

    def advance(more_units: int, more_tokens: int) -> None:
        nonlocal units, tokens
        units, tokens = units + more_units, tokens + more_tokens
        watch(phase, units, total, tokens)

    return advance


@dataclass(frozen=True)
class StepResult:
    """One finished step: its metrics, all groups it sampled, the held-out ones if measured, and
    what the update saw of single tokens."""

    step: int
    metrics: dict[str, Any]
    sampled: Sequence[Group]
    held_out: Sequence[Group]
    tokens: Sequence[Mapping[str, Any]] = ()


class StepRecord:
    """Collects what one step did; `result` assembles it at the end."""

    def __init__(self, session: Session, watch: Watch) -> None:
        self.session, self.watch = session, watch
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.memory: dict[str, float] = {}
        self.rested = 0
        """Problems that were passed over because they rest."""
        self.scored = 0
        """Tokens that were passed before the update."""
        self.rejected_share: float | None = None
        """The share of the responses that the correction rejected; None where nothing rejects."""
        self.trained: Sequence[tuple[int, int]] = ()
        """The tokens of prompt and response of each row that trained."""
        self.update: Mapping[str, float] = {}
        self.tokens: Sequence[Mapping[str, Any]] = ()
        self.held_out: Sequence[Group] = ()
        self.held_out_metrics: Mapping[str, Any] = {}

    @contextmanager
    def phase(self, name: str, memory: str | None = None) -> Iterator[None]:
        """Add the time inside the block to `seconds_NAME`, less that of verdicts and rewards, which
        have names of their own (`clocks`), and note the GPU's memory at its end as `memory`."""
        self.watch(name, 0, 0, 0)
        started, clocks = time.perf_counter(), self.session.clocks
        before = {name: clock.seconds for name, clock in clocks.items()}
        try:
            yield
        finally:
            if self.session.device.type == "cuda":
                torch.cuda.synchronize()  # what was asked of it belongs to this phase
            passed = {name: clock.seconds - before[name] for name, clock in clocks.items()}
            own = time.perf_counter() - started - sum(passed.values())
            self.seconds[f"seconds_{name}"] += own
            for other, seconds in passed.items():
                if seconds:
                    self.seconds[f"seconds_{other}"] += seconds
            if memory is not None and self.session.device.type == "cuda":
                free, total = torch.cuda.mem_get_info()  # of all processes
                self.memory[f"memory_{memory}_gib"] = (total - free) / GIB

    def result(self, step: int, batch: Batch, carried: int, no_update: str | None) -> StepResult:
        """Return the step, its metrics as one flat row: what was sampled, what trained, how fast.
        `carried` groups wait for the next one."""
        plan, model, rests = self.session.plan, self.session.policy.model, dict[str, Any]()
        limit = plan.training.max_tokens
        if plan.config.data.rest:
            ignored = batch.weightless
            differ = [not is_alike(group, batch.algo, limit, ignored) for group in batch.sampled]
            rests = {"rested": self.rested, "groups_with_signal": mean(differ)}
        row = {
            "step": step,
            **rollout_metrics(batch.sampled, plan.answer_format != "any"),
            "tokens_scored": self.scored,
            "rejected_share": self.rejected_share,
            "gen_batches": batch.gen_batches,
            "groups_trained": 0 if no_update else len(batch.kept),
            "groups_carried": carried,
            "no_update": no_update,
            **rests,
            **self.update,
            **self.held_out_metrics,
            **self.seconds,
            "seconds_step": sum(self.seconds.values()),
        }
        row |= step_throughput(row, batch, limit, self.trained, model)
        # Of this process; macOS counts in bytes, other systems in kibibytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
        peak *= 1 if sys.platform == "darwin" else 1024
        row |= {**self.memory, "memory_peak_gib": max(self.memory.values(), default=peak)}
        return StepResult(step, row, batch.sampled, self.held_out, self.tokens)


def token_rows(batch: Batch, samples: Samples, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the responses of the step's first groups, mixed ones before others, by the numbers of
    their groups in the step, each with its tokens' texts and figures. All processes call it, and
    the first one gets them."""
    numbers = {id(group): number for number, group in enumerate(batch.sampled, 1)}
    places = [place for place, group in enumerate(batch.kept) if id(group) in numbers]
    first = sorted(places, key=lambda place: not batch.kept[place].is_mixed)[:_GROUPS]
    chosen = [row for row, place in enumerate(samples.group.tolist()) if place in first]
    most = _TOKENS // max(1, len(chosen))
    seen, rows = sum_tensor(samples.seen[chosen, :most].cpu()), []
    for row, figures in zip(chosen, seen, strict=True) if is_first() else ():
        ids = samples.response_ids[row][:most]
        values = figures[: len(ids)].double().round(decimals=4) + 0.0  # no -0
        if values.isfinite().all():
            group = numbers[id(batch.kept[int(samples.group[row])])]
            place = {"group": group, "sample": samples.sample[row]}
            columns = dict(zip(TOKEN_FIGURES, values.T.tolist(), strict=True))
            rows.append(place | {"text": token_texts(tokenizer, ids), "figures": columns})
    return rows


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the text that each token adds; a character of several tokens stands at its last."""
    texts: list[str] = []
    start = done = 0
    for end in range(1, len(ids) + 1):
        parts = [list(ids[start:done]), list(ids[start:end])]
        before, now = tokenizer.batch_decode(parts, skip_special_tokens=False)
        is_whole = not now.endswith("\N{REPLACEMENT CHARACTER}")
        if is_whole or end - done >= _LONGEST_CHARACTER or end == len(ids):
            texts.append(now[len(before) :])
            start, done = done, end
        else:
            texts.append("")
    return texts


def step_throughput(
    row: Mapping[str, Any], batch: Batch, limit: int, lengths: Sequence[tuple[int, int]], model: Any
) -> dict[str, float | None]:
    """Compute the throughput of one step, whose `row` has its tokens and seconds by phase, from
    what it sampled, of at most `limit` tokens, and the two lengths of each row that trained."""
    epochs, took = row.get("epochs", 1), row.get("seconds_update")
    might_train = [group for group in batch.sampled if trains(group, batch.algo)]
    signal = with_signal(might_train, batch.algo, limit, batch.weightless)
    is_cuda = model.device.type == "cuda"
    peak = peak_flops(torch.cuda.get_device_name(model.device) if is_cuda else "")
    figures = {
        "tokens_with_signal": sum(len(rollout.completion.token_ids) for rollout in signal),
        "tokens_updated": epochs * sum(tokens for _, tokens in lengths),
        "mfu": None,
    }
    if peak and took:
        bodies = 2 if batch.algo.critic and batch.algo.critic.kind == "own" else 1
        flops = update_flops(model, lengths, bodies)
        figures["mfu"] = epochs * flops / (took * peak * world())
    return {**figures, **_rates({**row, **figures})}


def peak_flops(name: str) -> float | None:
    """Look up the peak of a GPU by name; None if it is not in the table."""
    meant = (gpu for gpu in PEAK_FLOPS if re.search(rf"\b{gpu}\b(?! (NVL|Laptop))", name))
    return PEAK_FLOPS.get(next(meant, ""))


def update_flops(model: Any, lengths: Sequence[tuple[int, int]], bodies: int = 1) -> float:
    """Compute the operations of a forward and backward pass over responses and their prompts.

    6 a parameter and token, 4 where it is frozen and has no gradient of its own; the output layer
    for the responses alone, and causal attention; nothing is counted twice for being computed
    again. Every response counts its prompt, so that passing a shared prompt once, as the trainer
    does, shows as speed. A critic's own is another body. Chowdhery 2022, arXiv:2204.02311, app. B.
    """
    config = model.config.get_text_config()
    heads, _, head_dim = attention_sizes(config)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    outside = {id(embedding), id(head)}

    def flops(weight: torch.Tensor) -> int:
        return (6 if weight.requires_grad else 4) * weight.numel()

    body = sum(flops(weight) for weight in model.parameters() if id(weight) not in outside)
    width = 6 * config.num_hidden_layers * heads * head_dim
    return sum(
        bodies * (body * (prompt + tokens) + width * (prompt + tokens) ** 2) + flops(head) * tokens
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
