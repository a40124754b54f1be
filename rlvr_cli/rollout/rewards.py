"""Reward verified groups, by functions of one's own in workers beside the sampling."""

import json
import os
import time
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

from rlvr_cli.algorithm.reward_config import (
    BUILT_IN,
    Reward,
    RewardConfig,
    built_in_reward,
    parse_rewards,
    weighted_sum,
)
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import Group, Rollout
from rlvr_cli.rollout.functions import answering
from verifiers import Verdict
from verifiers.workers.pool import Pool, WorkerLostError


@dataclass(frozen=True)
class _Call:
    """The values of one function for some responses of a group, as they come."""

    reward: Reward
    samples: Sequence[int]
    running: Future[dict[str, Any]]


class Rewarder:
    """Gives responses the weighted sum of the rewards asked for. Use as a context manager. Raises
    UserError for a function that cannot be loaded, or is not the one of `reward.sources`."""

    def __init__(self, asked: RewardConfig | None = None, max_tokens: int = 1) -> None:
        reward = self.reward = asked or RewardConfig()
        self._max_tokens = max_tokens
        self._values = (reward.correct, reward.wrong, reward.format)
        self.rewards = parse_rewards(reward.functions)
        self.own = [one for one in self.rewards if one.is_own]
        self.sources: dict[str, str] = {}
        """SHA-256 of the file of each function."""
        self.seconds = 0.0
        """Spent on waiting for functions since the start."""
        self._batches: list[bool] = []
        self._pool: Pool | None = None
        if self.own:
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.close()
            self._threads.shutdown(cancel_futures=True)

    def _start(self) -> None:
        specs = [one.spec for one in self.own]
        self._pool = Pool(
            workers=self.reward.workers,
            timeout=self.reward.timeout,
            memory_mb=self.reward.memory_mb,
            judge=json.dumps([answering.__module__, os.getcwd(), specs]),
        )
        self._threads = ThreadPoolExecutor(self.reward.workers, thread_name_prefix="rewards")
        try:
            loaded = self._pool.put({})
        except WorkerLostError as error:
            loaded = {"error": f"{' '.join(specs)}: {error}"}
        if "error" in loaded:
            self.__exit__()
            known = f" (built in are {', '.join(BUILT_IN)})" * ("no such reward" in loaded["error"])
            raise UserError(f"--reward {printable(loaded['error'])}{known}")
        names = [one.name for one in self.own]
        self.sources = dict(zip(names, loaded["sources"], strict=True))
        self._batches = loaded["batches"]
        if self.reward.sources not in ({}, self.sources):
            self.__exit__()
            raise self._changed()

    def rewarded(self, groups: Generator[tuple[int, Group]]) -> Generator[tuple[int, Group]]:
        """Yield (prompt index, its group with rewards) as values come, while the next are sampled.
        Raises UserError for a function that fails; a slow one makes its response a `timeout`."""
        waiting: deque[tuple[int, Group, list[_Call]]] = deque()
        with closing(groups):
            try:
                for index, group in groups:
                    waiting.append((index, group, self._calls(group)))
                    while waiting and all(call.running.done() for call in waiting[0][2]):
                        yield self._finished(*waiting.popleft())
                while waiting:
                    yield self._finished(*waiting.popleft())
            finally:
                for *_, calls in waiting:
                    for call in calls:
                        call.running.cancel()

    def _calls(self, group: Group) -> list[_Call]:
        problem = group.prompt.problem
        of_problem = {"id": problem.id, "problem": problem.problem, "answer": problem.answer}
        row = problem.extra | of_problem
        calls = []
        for number, reward in enumerate(self.own):
            every = range(len(group.rollouts))
            for samples in [list(every)] if self._batches[number] else [[n] for n in every]:
                texts = [group.rollouts[sample].text for sample in samples]
                rows = [row] * len(samples)
                question = {"function": number, "rows": rows, "responses": texts}
                assert self._pool is not None
                running = self._threads.submit(self._pool.put, question, len(samples))
                calls.append(_Call(reward, samples, running))
        return calls

    def _finished(self, index: int, group: Group, calls: Sequence[_Call]) -> tuple[int, Group]:
        """Return the prompt's index and its group with rewards; waits for the calls."""
        values: list[dict[str, float]] = [{} for _ in group.rollouts]
        late: dict[int, str] = {}
        started = time.perf_counter()
        for call in calls:
            try:
                reply = call.running.result()
            except WorkerLostError as error:
                late |= dict.fromkeys(call.samples, f"reward {call.reward.name}: {error}")
                continue
            if "error" in reply:
                raise UserError(
                    f"reward {call.reward.spec}: {printable(reply['error'])} (problem "
                    f"{printable(group.prompt.problem.id):.60})"
                )
            if reply["source"] != self.sources[call.reward.name]:
                raise self._changed()
            for sample, value in zip(call.samples, reply["rewards"], strict=True):
                values[sample][call.reward.name] = value
        self.seconds += time.perf_counter() - started
        rollouts = (
            self._with(rollout, values[sample], late.get(sample))
            for sample, rollout in enumerate(group.rollouts)
        )
        return index, replace(group, rollouts=tuple(rollouts))

    def _with(self, rollout: Rollout, own: dict[str, float], late: str | None) -> Rollout:
        found = rollout.verification
        if found is not None and late is not None:
            found = replace(found, verdict=Verdict.TIMEOUT, reason=late)
        length = len(rollout.completion.token_ids) / self._max_tokens
        values = {
            one.name: own.get(one.name)
            if one.is_own
            else built_in_reward(one.name, found, length, self._values)
            for one in self.rewards
        }
        known = {name: value for name, value in values.items() if value is not None}
        return replace(
            rollout,
            verification=found,
            reward=weighted_sum(self.rewards, values),
            rewards={} if self.reward.functions == ("math",) else known,
        )

    def _changed(self) -> UserError:
        files = ", ".join(one.spec for one in self.own)
        return UserError(
            f"--reward {files}: not the source that the run began with; put it back, or begin a "
            "new run with rlvr train --from"
        )
