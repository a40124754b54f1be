"""Keep the records of one step, apart from the loop: seconds per phase, memory, counts, metrics."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rlvr_cli.algorithm.group_filter import Batch
from rlvr_cli.core.types import Group
from rlvr_cli.evaluation.metrics import rollout_metrics
from rlvr_cli.rollout.rewards import Rewarder
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.training.throughput import Throughput

Watch = Callable[[str, int, int, int], None]
"""A callback within a step: its phase, the units done, of how many (0: unknown), their tokens."""


def counted(watch: Watch, total: int) -> Callable[[int], None]:
    """Return what adds up the tokens of an update for `watch`."""
    done = 0

    def advance(tokens: int) -> None:
        nonlocal done
        done += tokens
        watch("update", done, total, done)

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
    """Collects what one step did; `metrics` assembles it at the end."""

    def __init__(
        self, clocks: Mapping[str, Sampler | Rewarder], throughput: Throughput, watch: Watch
    ) -> None:
        self.clocks, self.throughput, self.watch = clocks, throughput, watch
        self.seconds: defaultdict[str, float] = defaultdict(float)
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
        started = time.perf_counter()
        before = {name: clock.seconds for name, clock in self.clocks.items()}
        try:
            yield
        finally:
            passed = {name: clock.seconds - before[name] for name, clock in self.clocks.items()}
            own = time.perf_counter() - started - sum(passed.values())
            self.seconds[f"seconds_{name}"] += own
            for other, seconds in passed.items():
                if seconds:
                    self.seconds[f"seconds_{other}"] += seconds
            if memory is not None:
                self.throughput.note_memory(memory)

    def counter(self, total: int) -> Callable[[Group], None]:
        """Return what counts the responses of a round, of `total`, for who watches."""
        responses = tokens = 0

        def count(group: Group) -> None:
            nonlocal responses, tokens
            responses += len(group.rollouts)
            tokens += sum(len(one.completion.token_ids) for one in group.rollouts)
            self.watch("rollout", responses, total, tokens)

        return count

    def metrics(
        self,
        step: int,
        batch: Batch,
        carried: int,
        no_update: str | None,
        has_format: bool,
        scored: int,
    ) -> dict[str, Any]:
        """Return the step as one flat row: what was sampled, what trained, how fast.

        `carried` groups wait for the next step; `scored` tokens were passed before the update.
        """
        row = {
            "step": step,
            **rollout_metrics(batch.sampled, has_format),
            "tokens_scored": scored,
            "gen_batches": batch.gen_batches,
            "groups_trained": 0 if no_update else len(batch.kept),
            "groups_carried": carried,
            "no_update": no_update,
            **self.update,
            **self.held_out_metrics,
            **self.seconds,
            "seconds_step": sum(self.seconds.values()),
        }
        return row | self.throughput.of_step(row, batch.sampled, self.trained)
