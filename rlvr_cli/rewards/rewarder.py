"""Reward judged responses, by the verdict and by the user's functions, which run in workers."""

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, Self

from rlvr_cli.algorithm.reward import BUILT_IN, RewardConfig, combine_rewards
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import Group, Problem
from rlvr_cli.rewards.functions import answering
from verifiers import Verdict
from verifiers.workers.pool import Pool, WorkerLostError


class Scores(NamedTuple):
    """What one function gave some samples of a group."""

    name: str
    values: dict[int, float | str]
    """The reward of each sample, or a text that says why it has no reward."""


Pending = Future[Scores]
"""A function that is running on some responses of a group."""


class Rewarder:
    """Rewards responses with the weighted sum of the configured rewards. Use as a context manager.

    Raises UserError if a function cannot be loaded, or if its source is not the one that
    `reward.sources` names.
    """

    def __init__(self, config: RewardConfig | None = None, max_tokens: int = 1) -> None:
        self.config = config or RewardConfig()
        self.user_rewards = [term for term in self.config.terms if term.is_user_code]
        self.sources: dict[str, str] = {}
        """SHA-256 of the file of each function."""
        self.seconds = 0.0
        """Time spent waiting for functions since the start."""
        self._max_tokens = max_tokens
        self._takes_batch: list[bool] = []
        if not self.user_rewards:
            return
        specs = [term.spec for term in self.user_rewards]
        self._pool = Pool(
            workers=self.config.workers,
            timeout=self.config.timeout,
            memory_mb=self.config.memory_mb,
            judge=json.dumps([answering.__module__, os.getcwd(), specs]),
        )
        self._threads = ThreadPoolExecutor(self.config.workers, thread_name_prefix="rewards")
        try:
            loaded = self._pool.put({})
        except WorkerLostError as error:
            loaded = {"error": f"{' '.join(specs)}: {error}"}
        if "error" in loaded:
            self.__exit__()
            is_unknown = "no such reward" in loaded["error"]
            hint = f" (built in are {', '.join(BUILT_IN)})" if is_unknown else ""
            raise UserError(f"--reward {printable(loaded['error'])}{hint}")
        names = [term.name for term in self.user_rewards]
        self.sources = dict(zip(names, loaded["sources"], strict=True))
        self._takes_batch = loaded["batches"]
        if self.config.sources not in ({}, self.sources):
            self.__exit__()
            raise self._source_changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.user_rewards:
            self._pool.close()
            self._threads.shutdown(cancel_futures=True)

    def start(self, problem: Problem, responses: Sequence[str]) -> list[Pending]:
        """Start the user's functions on the responses to a problem, without waiting for them."""
        row = {
            **problem.extra,
            "id": problem.id,
            "problem": problem.problem,
            "answer": problem.answer,
        }
        samples = list(range(len(responses)))
        pending = []
        for number, takes_batch in enumerate(self._takes_batch):
            calls = [samples] if takes_batch else [[sample] for sample in samples]
            for call in calls:
                texts = [responses[sample] for sample in call]
                pending.append(self._threads.submit(self._ask, number, row, texts, call))
        return pending

    def _ask(
        self, number: int, row: dict[str, Any], responses: list[str], samples: list[int]
    ) -> Scores:
        """Call a function on some responses to the problem of `row`, and wait for its rewards."""
        term = self.user_rewards[number]
        rows = [row] * len(responses)
        question = {"function": number, "rows": rows, "responses": responses}
        try:
            reply = self._pool.put(question, len(responses))
        except WorkerLostError as error:
            return Scores(term.name, dict.fromkeys(samples, f"reward {term.name}: {error}"))
        if "error" in reply:
            raise UserError(
                f"reward {term.spec}: {printable(reply['error'])} (problem "
                f"{printable(row['id']):.60})"
            )
        if reply["source"] != self.sources[term.name]:
            raise self._source_changed()
        return Scores(term.name, dict(zip(samples, reply["rewards"], strict=True)))

    def reward(self, group: Group, pending: Sequence[Pending]) -> Group:
        """Wait for the functions that were started on a judged group, and return it with rewards.

        If a reward with a weight takes too long, its response becomes a `timeout`. Raises UserError
        if a function fails.
        """
        started = time.perf_counter()
        results = [future.result() for future in pending]
        self.seconds += time.perf_counter() - started
        weighted = {term.name for term in self.user_rewards if term.weight}
        rollouts = []
        for sample, rollout in enumerate(group.rollouts):
            user_values = {}
            verification = rollout.verification
            for scores in results:
                value = scores.values.get(sample)
                if isinstance(value, float):
                    user_values[scores.name] = value
                elif value is not None and verification is not None and scores.name in weighted:
                    verification = replace(verification, verdict=Verdict.TIMEOUT, reason=value)
            length = len(rollout.completion.token_ids) / self._max_tokens
            total, parts = combine_rewards(self.config, verification, length, user_values)
            rollouts.append(
                replace(
                    rollout,
                    verification=verification,
                    reward=total,
                    rewards={} if self.config.functions == ("math",) else parts,
                )
            )
        return replace(group, rollouts=tuple(rollouts))

    def _source_changed(self) -> UserError:
        files = ", ".join(term.spec for term in self.user_rewards)
        return UserError(
            f"--reward {files}: not the source that the run began with; put it back, or begin a "
            "new run with rlvr train --from"
        )
