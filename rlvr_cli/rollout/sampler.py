"""Sample G responses per prompt, or read them from the data; have them judged and rewarded."""

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, Self

from rlvr_cli.algorithm.reward import BUILT_IN, RewardConfig, pay
from rlvr_cli.core.errors import EngineError, ReportedError, UserError
from rlvr_cli.core.signals import at_once, is_interrupted, raise_if_interrupted
from rlvr_cli.core.text import plural, printable
from rlvr_cli.core.types import (
    Completion,
    Group,
    Problem,
    Prompt,
    Rollout,
    SamplingParams,
    groups_as_json,
    groups_from_json,
)
from rlvr_cli.model.loading import LoadedModel
from rlvr_cli.ranks.group import gather, share, world
from rlvr_cli.rewards.functions import answering
from rlvr_cli.rollout.engines.base import Engine, Listener
from verifiers import Attempt, Verdict, Verification, Verifier
from verifiers.workers.pool import Pool, WorkerLostError

Drawn = Generator[tuple[int, list[Completion]]]
"""(Index among this process's prompts, G completions) as they finish."""
_MEET_EVERY_S = 30.0
"""Seconds between two exchanges of samples among processes: rare beside the seconds of a group,
often enough for a display, an error or a signal."""
_SHOWN = 3
Begun = Future[tuple[str, dict[int, float | str]]]
"""A function at work on some responses of a group: its name, and the reward of each sample."""


def response_seed(seed: int, *name: object) -> int:
    """Return a 62-bit seed for the group called `name`: its sample i uses this number plus i."""
    digest = hashlib.sha256(":".join(map(str, (seed, *name))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


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
            built_in = f" (built in are {', '.join(BUILT_IN)})" if is_unknown else ""
            raise UserError(f"--reward {printable(loaded['error'])}{built_in}")
        self.sources = dict(zip((term.name for term in self.own), loaded["sources"], strict=True))
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

    def begin(self, problem: Problem, texts: Sequence[str]) -> list[Begun]:
        """Let the functions begin on the responses to a problem."""
        own = {"id": problem.id, "problem": problem.problem, "answer": problem.answer}
        row, begun = problem.extra | own, []
        for number, takes_batch in enumerate(self._takes_batch):
            every = range(len(texts))
            for samples in [every] if takes_batch else [[sample] for sample in every]:
                responses = [texts[sample] for sample in samples]
                begun.append(self._threads.submit(self._ask, number, row, responses, samples))
        return begun

    def _ask(
        self, number: int, row: dict[str, Any], responses: list[str], samples: Sequence[int]
    ) -> tuple[str, dict[int, float | str]]:
        """Return a function's name and its reward of each sample; a text says why there is none."""
        reward, rows = self.own[number], [row] * len(responses)
        question = {"function": number, "rows": rows, "responses": responses}
        try:
            reply = self._pool.put(question, len(responses))
        except WorkerLostError as error:
            return reward.name, dict.fromkeys(samples, f"reward {reward.name}: {error}")
        if "error" in reply:
            where = f"(problem {printable(row['id']):.60})"
            raise UserError(f"reward {reward.spec}: {printable(reply['error'])} {where}")
        if reply["source"] != self.sources[reward.name]:
            raise self._changed()
        return reward.name, dict(zip(samples, reply["rewards"], strict=True))

    def paid(self, group: Group, begun: Sequence[Begun]) -> Group:
        """Return a judged group with its rewards, once its functions have ended. A slow function
        that counts makes its response a `timeout`. Raises UserError for a function that fails."""
        started = time.perf_counter()
        results = [future.result() for future in begun]
        self.seconds += time.perf_counter() - started
        rollouts, counted = [], {term.name for term in self.own if term.weight}
        for sample, rollout in enumerate(group.rollouts):
            own, verification = {}, rollout.verification
            for name, values in results:
                value = values.get(sample)
                if isinstance(value, float):
                    own[name] = value
                elif value is not None and verification is not None and name in counted:
                    verification = replace(verification, verdict=Verdict.TIMEOUT, reason=value)
            length = len(rollout.completion.token_ids) / self._max_tokens
            reward, parts = pay(self.asked, verification, length, own)
            rewards = {} if self.asked.functions == ("math",) else parts
            rollouts.append(
                replace(rollout, verification=verification, reward=reward, rewards=rewards)
            )
        return replace(group, rollouts=tuple(rollouts))

    def _changed(self) -> UserError:
        files = ", ".join(term.spec for term in self.own)
        return UserError(
            f"--reward {files}: not the source that the run began with; put it back, or begin a "
            "new run with rlvr train --from"
        )


class Sampler:
    """The engine, tokenizer and verifier that turn prompts into judged groups."""

    def __init__(self, engine: Engine, tokenizer: Any, verifier: Verifier) -> None:
        self.engine, self.tokenizer, self.verifier = engine, tokenizer, verifier
        self.seconds = 0.0
        """Spent on decoding and verdicts since the start."""

    def rollout(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> Drawn:
        """Sample this process's share of the prompts, lazily."""
        token_ids = [prompt.token_ids for prompt in share(prompts)]
        return self.engine.generate(token_ids, params, share(seeds), listener)

    def verify(
        self,
        prompts: Sequence[Prompt],
        drawn: Drawn,
        rewarder: Rewarder | None = None,
        weight_version: int = 0,
        on_group: Callable[[Group], None] = lambda group: None,
    ) -> list[Group]:
        """Judge and pay responses as they come, those of all processes; return the groups in the
        order of the prompts. `on_group` sees them as they finish."""
        groups: dict[int, Group] = {}
        judged = self._judged(prompts, drawn, rewarder or Rewarder(), weight_version)
        with closing(drawn):  # an engine gives up what is left after an error or a signal
            for index, group in judged if world() == 1 else exchanged(prompts, judged):
                groups[index] = group
                on_group(group)
        return [groups[index] for index in range(len(prompts))]

    def _judged(
        self, prompts: Sequence[Prompt], drawn: Drawn, rewarder: Rewarder, weight_version: int
    ) -> Iterator[tuple[int, Group]]:
        """Yield (prompt index, its group) of this process; own rewards of one are computed while
        the next are sampled."""
        own = share(range(len(prompts)))
        waiting: deque[tuple[int, Group, list[Begun]]] = deque()
        for place, completions in drawn:
            raise_if_interrupted()
            started = time.perf_counter()
            group = self._verified(prompts[own[place]], completions, weight_version)
            self.seconds += time.perf_counter() - started
            texts = [rollout.text for rollout in group.rollouts]
            begun = rewarder.begin(group.prompt.problem, texts)
            waiting.append((own[place], group, begun))
            while waiting and all(future.done() for future in waiting[0][2]):
                index, group, begun = waiting.popleft()
                yield index, rewarder.paid(group, begun)
        for index, group, begun in waiting:
            yield index, rewarder.paid(group, begun)

    def _verified(
        self, prompt: Prompt, completions: Sequence[Completion], weight_version: int
    ) -> Group:
        """Decode and judge the responses to a prompt; without a gold answer nothing is judged."""
        token_ids = [list(completion.token_ids) for completion in completions]
        texts = self.tokenizer.batch_decode(token_ids, skip_special_tokens=True)
        gold = prompt.problem.answer
        verifications: Sequence[Verification | None] = [None] * len(texts)
        if gold is not None:
            verifications = self.verifier.verify_many(
                [
                    Attempt(text, gold, prompt.think_open, completion.finish_reason == "length")
                    for completion, text in zip(completions, texts, strict=True)
                ]
            )
        judged = enumerate(zip(completions, texts, verifications, strict=True))
        rollouts = tuple(Rollout(prompt, sample, *parts, None) for sample, parts in judged)
        return Group(prompt, rollouts, weight_version)

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of a response."""
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)


def exchanged(
    prompts: Sequence[Prompt], judged: Iterator[tuple[int, Group]]
) -> Iterator[tuple[int, Group]]:
    """Yield (prompt index, group) of all processes, the same in each; they meet every half minute
    and at the end. A signal or error in one ends this in all. Raises EngineError for another's."""
    is_done = is_stopped = False
    while not is_done:
        own, failure, until = [], None, time.monotonic() + _MEET_EVERY_S
        try:
            with at_once():
                for index, group in judged:
                    own.append((index, groups_as_json([group], [group.prompt])))
                    if time.monotonic() > until:
                        break
                else:
                    is_done = True
        except KeyboardInterrupt:
            is_done = is_stopped = True
        except Exception as error:
            failure = error
        reason = str(failure) if isinstance(failure, ReportedError) else repr(failure)
        met = gather([own, is_done, is_stopped or is_interrupted(), failure and reason])
        if failure is not None:
            raise failure
        if errors := [error for *_, error in met if error is not None]:
            raise EngineError(errors[0])
        for index, rows in (pair for groups, *_ in met for pair in groups):
            yield index, groups_from_json(rows, [prompts[index]])[0]
        if any(is_asked for *_, is_asked, _ in met):
            raise KeyboardInterrupt
        is_done = all(done for _, done, *_ in met)


def given_completions(
    prompts: Sequence[Prompt], policy: LoadedModel, max_tokens: int
) -> list[Completion]:
    """Return the field `response` of each prompt's row as tokens (`--algo sft`), with the end token
    unless `finish_reason` says that it was cut off; log-probabilities are empty.

    A `<think>` that the chat template has opened already is not repeated. Raises UserError if a
    response is longer than `max_tokens`.
    """
    end = policy.tokenizer.eos_token_id
    end = end if end in policy.stop_ids else policy.stop_ids[0]
    completions, too_long = [], []
    for prompt in prompts:
        row = prompt.problem.extra
        text = row["response"].removeprefix("<think>" if prompt.think_open else "")
        token_ids = policy.tokenizer.encode(text, add_special_tokens=False)
        is_cut_off = row.get("finish_reason") == "length"
        token_ids += [] if is_cut_off else [end]
        completions.append(Completion(token_ids, (), "length" if is_cut_off else "stop"))
        if len(token_ids) > max_tokens:
            too_long.append(f"{prompt.problem.id}: its response has {len(token_ids)} tokens")
    if too_long:
        raise UserError(
            f"{plural(len(too_long), 'response')} longer than --max-tokens {max_tokens}, first "
            f"{'; '.join(too_long[:_SHOWN])}: raise it, or leave them out"
        )
    return completions
