"""Keep the records of one step, apart from the loop: seconds per phase, memory, counts, metrics."""

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.algorithm.group_filter import Batch
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import Group
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.rollout.session import Session
from rlvr_cli.training.throughput import step_throughput

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
        self.scored = 0
        """Tokens that were passed before the update."""
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
        has_format = self.session.plan.answer_format != "any"
        row = {
            "step": step,
            **rollout_metrics(batch.sampled, has_format),
            "tokens_scored": self.scored,
            "gen_batches": batch.gen_batches,
            "groups_trained": 0 if no_update else len(batch.kept),
            "groups_carried": carried,
            "no_update": no_update,
            **self.update,
            **self.held_out_metrics,
            **self.seconds,
            "seconds_step": sum(self.seconds.values()),
        }
        row |= step_throughput(row, batch, self.trained, self.session.policy.model)
        # Of this process; macOS counts in bytes, other systems in kibibytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
        peak *= 1 if sys.platform == "darwin" else 1024
        row |= {**self.memory, "memory_peak_gib": max(self.memory.values(), default=peak)}
        return StepResult(step, row, batch.sampled, self.held_out, self.tokens)
