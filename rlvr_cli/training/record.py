"""Keep what a step did, apart from the loop: seconds per phase, memory, metrics."""

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import (
    BatchFigures,
    HeldOut,
    MemoryFigures,
    PartialFigures,
    RestFigures,
    Seconds,
    StepFigures,
    UpdateFigures,
)
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import Group, Response
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.setup.session import Session
from rlvr_cli.training.ahead import SampledBatch
from rlvr_cli.training.throughput import step_throughput

Watch = Callable[[str, int, int, int], None]
"""A callback within a step: its phase, the units done, their total (0: unknown), their tokens."""


def unwatched(phase: str, completed: int, total: int, tokens: int) -> None:
    """Watch nothing."""


def counter(watch: Watch, phase: str, total: int) -> Callable[[int, int], None]:
    """Return a function that adds units and tokens to those of a phase, and tells `watch`."""
    units = tokens = 0

    def advance(more_units: int, more_tokens: int) -> None:
        nonlocal units, tokens
        units += more_units
        tokens += more_tokens
        watch(phase, units, total, tokens)

    return advance


@dataclass(frozen=True)
class StepResult:
    """One finished step."""

    step: int
    figures: StepFigures
    sampled: Sequence[Group]
    """All groups that it sampled."""
    held_out: Sequence[Response]
    """The responses to the held-out problems, if they were measured."""
    tokens: Sequence[JsonObject] = ()
    """The figures that the update computed of single tokens (`token_rows`)."""


class StepRecord:
    """Collects what one step did, for `result` to assemble at the end."""

    def __init__(self, session: Session, watch: Watch) -> None:
        self.session = session
        self.watch = watch
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.processor_seconds = 0.0
        """Of all threads of this process, which other processes beside it hardly change."""
        self.memory: dict[str, float] = {}
        self.partial: PartialFigures | None = None
        """How responses went on. None in a run without partial rollouts."""
        self.scored = 0
        """Tokens that were passed before the update."""
        self.rejected_share: float | None = None
        """The share of the responses that the correction rejected. None if it never rejects any."""
        self.passed: Sequence[tuple[int, int]] = ()
        """The tokens of prompt and response of each row that the update passed, once a pass."""
        self.update = UpdateFigures()
        self.tokens: Sequence[JsonObject] = ()
        self.held_out: Sequence[Response] = ()
        self.held_out_sets: Mapping[str, HeldOut] = {}

    @contextmanager
    def phase(self, name: str, memory: str | None = None, judges: bool = False) -> Iterator[None]:
        """Add the time inside the block to the phase's seconds, and note the GPU's memory at its
        end as `memory`. In a phase that `judges`, the time of verdicts and rewards has names of its
        own (`Session.clocks`). During another phase it does not count.
        """
        self.watch(name, 0, 0, 0)
        clocks = self.session.clocks if judges else {}
        starts = {key: clock.seconds for key, clock in clocks.items()}
        start = time.perf_counter()
        processor_start = time.process_time()
        try:
            yield
        finally:
            self.processor_seconds += time.process_time() - processor_start
            if self.session.device.type == "cuda":
                torch.cuda.synchronize()  # its queued work belongs to this phase
            seconds = time.perf_counter() - start
            clock_seconds = {key: clock.seconds - starts[key] for key, clock in clocks.items()}
            self.seconds[name] += seconds - sum(clock_seconds.values())
            for key, seconds in clock_seconds.items():
                if seconds:
                    self.seconds[key] += seconds
            if memory is not None and self.session.device.type == "cuda":
                free, total = torch.cuda.mem_get_info()  # of all processes
                self.memory[memory] = (total - free) / GIB

    def result(self, step: int, sampled_batch: SampledBatch, no_signal: str | None) -> StepResult:
        """Return the step with its figures: what was sampled, what trained, how fast."""
        batch = sampled_batch.groups
        plan = self.session.plan
        rest = None
        if plan.config.data.rest:
            has_signal = [not is_uniform for is_uniform in sampled_batch.uniform]
            rest = RestFigures(rested=sampled_batch.rested, groups_with_signal=mean(has_signal))
        sampled = rollout_metrics(batch.sampled, plan.answer_format != "any")
        seconds = Seconds(
            **self.seconds, step=sum(self.seconds.values()), processor=self.processor_seconds
        )
        tokens = sampled.tokens_sampled or 0
        if self.partial is not None:
            tokens = self.partial.tokens_decoded
        use, rates = step_throughput(
            sampled=tokens,
            scored=self.scored,
            seconds=seconds,
            batch=batch,
            max_tokens=plan.training.max_tokens,
            lengths=self.passed,
            model=self.session.policy.model,
        )
        # Of this process; macOS counts in bytes, other systems in kibibytes.
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB
        figures = StepFigures(
            step=step,
            sampled=sampled,
            batch=BatchFigures(
                tokens_scored=self.scored,
                rejected_share=self.rejected_share,
                gen_batches=batch.gen_batches,
                groups_trained=0 if no_signal else len(batch.groups),
                groups_carried=sampled_batch.n_carried,
                no_update=no_signal,
            ),
            rest=rest,
            partial=self.partial,
            update=self.update,
            held_out=self.held_out_sets,
            seconds=seconds,
            use=use,
            rates=rates,
            memory=MemoryFigures(**self.memory, peak=max(self.memory.values(), default=peak)),
        )
        return StepResult(step, figures, batch.sampled, self.held_out, self.tokens)
