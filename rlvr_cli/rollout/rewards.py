"""Call reward functions of one's own in workers beside the sampling, and pay responses."""

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

from rlvr_cli.algorithm.reward import BUILT_IN, Reward, RewardConfig, pay
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import Group, Problem
from rlvr_cli.rollout.functions import answering
from verifiers import Verdict
from verifiers.workers.pool import Pool, WorkerLostError


@dataclass(frozen=True)
class Call:
    """A function at work on some responses of a group."""

    reward: Reward
    samples: Sequence[int]
    running: Future[dict[str, Any]]


class Rewarder:
    """Pays responses the weighted sum of the rewards asked for. Use as a context manager. Raises
    UserError for a function that cannot be loaded, or is not the one of `reward.sources`."""

    def __init__(self, asked: RewardConfig | None = None, max_tokens: int = 1) -> None:
        self.asked, self._max_tokens = asked or RewardConfig(), max_tokens
        self.own = [term for term in self.asked.terms if term.is_own]
        self.sources: dict[str, str] = {}
        """SHA-256 of the file of each function."""
        self.seconds = 0.0
        """Spent on waiting for functions since the start."""
        self._takes_batch: list[bool] = []
        if not self.own:
            return
        specs = [term.spec for term in self.own]
        self._pool = Pool(
            workers=self.asked.workers,
            timeout=self.asked.timeout,
            memory_mb=self.asked.memory_mb,
            judge=json.dumps([answering.__module__, os.getcwd(), specs]),
        )
        self._threads = ThreadPoolExecutor(self.asked.workers, thread_name_prefix="rewards")
        try:
            loaded = self._pool.put({})
        except WorkerLostError as error:
            loaded = {"error": f"{' '.join(specs)}: {error}"}
        if "error" in loaded:
            self.__exit__()
            is_unknown = "no such reward" in loaded["error"]
            known = f" (built in are {', '.join(BUILT_IN)})" if is_unknown else ""
            raise UserError(f"--reward {printable(loaded['error'])}{known}")
        names = [term.name for term in self.own]
        self.sources = dict(zip(names, loaded["sources"], strict=True))
        self._takes_batch = loaded["batches"]
        if self.asked.sources not in ({}, self.sources):
            self.__exit__()
            raise self._changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.own:
            self._pool.close()
            self._threads.shutdown(cancel_futures=True)

    def call(self, problem: Problem, texts: Sequence[str]) -> list[Call]:
        """Let the functions begin on the responses to a problem."""
        own = {"id": problem.id, "problem": problem.problem, "answer": problem.answer}
        calls = []
        for number, takes_batch in enumerate(self._takes_batch):
            every = range(len(texts))
            for samples in [every] if takes_batch else [[sample] for sample in every]:
                rows = [problem.extra | own] * len(samples)
                responses = [texts[sample] for sample in samples]
                question = {"function": number, "rows": rows, "responses": responses}
                running = self._threads.submit(self._pool.put, question, len(responses))
                calls.append(Call(self.own[number], samples, running))
        return calls

    def paid(self, group: Group, calls: Sequence[Call]) -> Group:
        """Return a judged group with its rewards; waits for its calls. A slow function makes its
        response a `timeout`. Raises UserError for a function that fails."""
        own: list[dict[str, float]] = [{} for _ in group.rollouts]
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
                own[sample][call.reward.name] = value
        self.seconds += time.perf_counter() - started
        rollouts = []
        for sample, rollout in enumerate(group.rollouts):
            found = rollout.verification
            if found is not None and sample in late:
                found = replace(found, verdict=Verdict.TIMEOUT, reason=late[sample])
            length = len(rollout.completion.token_ids) / self._max_tokens
            reward, values = pay(self.asked, found, length, own[sample])
            rewards = {} if self.asked.functions == ("math",) else values
            rollouts.append(replace(rollout, verification=found, reward=reward, rewards=rewards))
        return replace(group, rollouts=tuple(rollouts))

    def _changed(self) -> UserError:
        files = ", ".join(term.spec for term in self.own)
        return UserError(
            f"--reward {files}: not the source that the run began with; put it back, or begin a "
            "new run with rlvr train --from"
        )
