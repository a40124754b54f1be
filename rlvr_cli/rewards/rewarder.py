"""Reward judged responses, by the verdict and by custom functions."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple, Self

from rlvr_cli.algorithm.kinds import Advantage, advantages_by_token
from rlvr_cli.algorithm.reward import (
    BUILT_IN,
    MAJORITY,
    Reward,
    RewardConfig,
    RewardObjects,
    combine_rewards,
)
from rlvr_cli.algorithm.token_advantage import Return
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.signals import NO_SIGNALS, in_main_thread
from rlvr_cli.core.text import format_value, printable, shortened
from rlvr_cli.core.types import Group, Problem
from rlvr_cli.rewards.forms import Question
from rlvr_cli.rewards.functions import (
    FunctionsHere,
    Given,
    Loaded,
    LoadedFunction,
    Rewards,
    answering,
)
from verifiers import Verdict
from verifiers.workers.pool import Pool, WorkerLostError


class Scores(NamedTuple):
    """What one function gave some samples of a group."""

    name: str
    by_sample: Mapping[int, Given | str]
    """What it gave each sample, or a text that says why there is nothing."""


_TRIAL_RESPONSES = (
    "<think>\nI work it out step by step.\n</think>\n<answer>\n{gold}\n</answer>",
    "I work it out step by step. The answer is $\\boxed{{gold}}$.\n#### {gold}",
)
"""Right responses in the forms of the field, so that most functions reward one of them."""
Pending = Future[Scores]
"""A function that is running on some responses of a group."""
Ask = Callable[[JsonObject, int], JsonObject]
"""Gives the reply to a question, within a multiple of the limit of time."""


class _Callee(NamedTuple):
    """A function of the user, and where it is called."""

    term: Reward
    number: int
    """Its number among the functions that `ask` asks."""
    about: LoadedFunction
    ask: Ask
    threads: ThreadPoolExecutor | None
    """None means the thread in which responses are rewarded."""


class Rewarder:
    """Rewards responses with the weighted sum of the configured rewards. Use as a context manager.

    Functions of files run in worker processes. Function `objects` run in this process without
    limits, one call at a time: ordinary ones in the thread in which responses are rewarded, so that
    signals work if it is the main one, and coroutine functions in a thread of their own. Raises
    UserError if a function cannot be loaded, or if its source is not the one that `reward.sources`
    names.
    """

    def __init__(
        self,
        config: RewardConfig | None = None,
        max_tokens: int = 1,
        advantage: Advantage | None = None,
        objects: RewardObjects | None = None,
    ) -> None:
        self.config = config or RewardConfig()
        self.user_rewards = [term for term in self.config.terms if term.is_user_code]
        self.sources: dict[str, str] = {}
        """SHA-256 of the file or text of each function."""
        self.forms: dict[str, str] = {}
        """The form of each function."""
        self.step = 0
        """The step that functions are told, 0 before the first."""
        self.seconds = 0.0
        """Time spent waiting for functions since the start."""
        self._max_tokens = max_tokens
        self._advantage = advantage or Return(kind="return")
        self._has_warned = False
        self._callees: list[_Callee] = []
        self._here: FunctionsHere | None = None
        self._takes_chats: dict[tuple[str, bool], bool] = {}
        """Whether each function takes completions as chats, for problems that are chats or not."""
        with ExitStack() as opened:
            self._load_files(opened)
            self._load_objects(objects or {}, opened)
            if not self.config.sources.items() <= self.sources.items():
                raise self._source_changed()
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def _load_files(self, opened: ExitStack) -> None:
        """Start the workers, which load the functions of files."""
        terms = [term for term in self.user_rewards if not term.is_object]
        if not terms:
            return
        threads = _threads(self.config.workers, opened)
        specs = [term.spec for term in terms]
        pool = Pool(
            workers=self.config.workers,
            timeout=self.config.timeout,
            memory_mb=self.config.memory_mb,
            judge=json.dumps([answering.__module__, os.getcwd(), specs]),
            processes=self.config.processes,
        )
        opened.callback(pool.close)
        self._load(terms, pool.put, threads)

    def _load_objects(self, objects: RewardObjects, opened: ExitStack) -> None:
        """Take the function objects that the settings name."""
        terms = [term for term in self.user_rewards if term.is_object]
        if not terms:
            return
        for term in terms:
            if term.name not in objects:
                raise UserError(
                    f"--reward {printable(term.spec)}: a function object, which only a call from "
                    "Python can give: train(reward=[…])"
                )
        here = FunctionsHere({term.name: objects[term.name] for term in terms})
        opened.callback(here.close)
        self._here = here
        self._load(terms, lambda question, _: here(question), _threads(1, opened))

    def _load(self, terms: Sequence[Reward], ask: Ask, threads: ThreadPoolExecutor) -> None:
        """Ask what was loaded, and note it. Raises UserError if a function could not be."""
        try:
            loaded = Loaded.model_validate(ask({}, 1))
        except WorkerLostError as error:
            loaded = Loaded(error=f"{' '.join(term.spec for term in terms)}: {error}")
        if loaded.error is not None:
            is_unknown = "no such reward" in loaded.error
            hint = f" (built in are {', '.join(BUILT_IN)})" if is_unknown else ""
            raise UserError(f"--reward {printable(loaded.error)}{hint}")
        for number, (term, about) in enumerate(zip(terms, loaded.functions, strict=True)):
            self.sources[term.name] = about.source
            self.forms[term.name] = about.form
            is_ordinary_object = term.is_object and not about.is_async
            place = None if is_ordinary_object else threads
            self._callees.append(_Callee(term, number, about, ask, place))

    def start(self, problem: Problem, responses: Sequence[str]) -> list[Pending]:
        """Start the custom functions on the responses to a problem, without waiting for workers and
        coroutines."""
        return [
            task for callee in self._callees for task in self._start(callee, problem, responses)
        ]

    def _start(
        self,
        callee: _Callee,
        problem: Problem,
        responses: Sequence[str],
        as_chats: bool | None = None,
    ) -> Iterator[Pending]:
        """Start one function on the responses to a problem. Completions are as in its first call,
        unless `as_chats` says otherwise."""
        if as_chats is None:
            as_chats = self._takes_chats.get((callee.term.name, problem.is_chat))
        chat = None
        if problem.is_chat:
            turns = (*problem.turns, ("user", problem.problem))
            chat = [{"role": role, "content": content} for role, content in turns]
        samples = list(range(len(responses)))
        for call in [samples] if callee.about.takes_group else [[sample] for sample in samples]:
            question = Question(
                function=callee.number,
                rows=[problem.row] * len(call),
                responses=[responses[sample] for sample in call],
                step=self.step,
                chat=chat,
                as_chats=as_chats,
            )
            if callee.threads is not None:
                yield callee.threads.submit(self._ask, callee, question, call, problem.id)
                continue
            started = time.perf_counter()
            task = Pending()
            try:
                task.set_result(self._ask(callee, question, call, problem.id))
            except UserError as error:
                task.set_exception(error)
            self.seconds += time.perf_counter() - started
            yield task

    def _ask(
        self, callee: _Callee, question: Question, samples: Sequence[int], problem_id: str
    ) -> Scores:
        """Call a function on responses to a problem, and wait for its rewards."""
        term = callee.term
        try:
            reply = Rewards.model_validate(callee.ask(vars(question), len(samples)))
        except WorkerLostError as error:
            return Scores(term.name, dict.fromkeys(samples, f"reward {term.name}: {error}"))
        place = f"(problem {printable(problem_id):.60})"
        if reply.error is not None:
            raise UserError(f"reward {term.spec}: {printable(reply.error)} {place}")
        if reply.source != self.sources[term.name]:
            raise self._source_changed()
        has_places = any(isinstance(reward.score, list) for reward in reply.by_response)
        if has_places and term.weight and not self._advantage.is_by_token:
            raise UserError(
                f"reward {term.spec}: it returned rewards in places, and advantage "
                f"{self._advantage.kind} is one number a response: use "
                f"{', '.join(advantages_by_token())}, or return their sum {place}"
            )
        self._takes_chats.setdefault((term.name, question.chat is not None), reply.as_chats)
        return Scores(term.name, dict(zip(samples, reply.by_response, strict=True)))

    def rehearse(self, problem: Problem) -> list[str]:
        """Call each function on two made responses to a problem before a run.

        Return a line for each that earns the same twice, and something else in another way: an
        object where a file's functions run, and a function of a chat's completions with texts.
        Raises UserError if a function fails. One that fails only in the other way is fine.
        """
        lines: list[str] = []
        if not self.config.trial:
            return lines
        responses = [text.replace("{gold}", problem.answer or "0") for text in _TRIAL_RESPONSES]
        for callee in self._callees:
            earned = self._earned(callee, problem, responses)
            if earned != self._earned(callee, problem, responses):
                continue
            name = printable(callee.term.name)
            start = f"reward {name}: two made responses earn {_in_words(earned)}"
            if callee.term.is_object:
                as_a_file = callee._replace(ask=self._ask_fork, threads=None)
                earned_there = self._earned_elsewhere(as_a_file, problem, responses)
                if earned_there is not None and earned_there != earned:
                    note = "" if in_main_thread() else f" ({NO_SIGNALS})"
                    lines.append(
                        f"{start} here, and {_in_words(earned_there)} where a file's functions "
                        "run, in the main thread of a process of its own; the run goes on with "
                        f"what they earn here{note}"
                    )
            if callee.about.has_completions and self._takes_chats.get((callee.term.name, True)):
                earned_there = self._earned_elsewhere(callee, problem, responses, as_chats=False)
                if earned_there is not None and earned_there != earned:
                    lines.append(
                        f"{start} as chats, and {_in_words(earned_there)} as texts; the "
                        "completions of a chat are chats, as in TRL: read "
                        'completion[-1]["content"]'
                    )
        return lines

    def _earned(
        self,
        callee: _Callee,
        problem: Problem,
        responses: Sequence[str],
        as_chats: bool | None = None,
    ) -> list[Given | str]:
        """Return what a function gives each response."""
        by_sample: dict[int, Given | str] = {}
        for task in self._start(callee, problem, responses, as_chats):
            by_sample.update(task.result().by_sample)
        return [by_sample[sample] for sample in range(len(responses))]

    def _earned_elsewhere(
        self,
        callee: _Callee,
        problem: Problem,
        responses: Sequence[str],
        as_chats: bool | None = None,
    ) -> list[Given | str] | None:
        """Return what a function gives each response. Return None if it fails."""
        try:
            return self._earned(callee, problem, responses, as_chats)
        except UserError:
            return None

    def _ask_fork(self, question: JsonObject, times: int) -> JsonObject:
        assert self._here is not None
        return self._here.as_a_file(question, times * self.config.timeout)

    def reward(self, group: Group, pending: Sequence[Pending]) -> Group:
        """Wait for the functions that were started on a judged group, and return it with rewards.

        If a reward with a weight takes too long, its response becomes a `timeout`. Raises UserError
        if a function fails.
        """
        started = time.perf_counter()
        results = [future.result() for future in pending]
        self.seconds += time.perf_counter() - started
        terms = [term for term in self.config.terms if term.weight]
        weights = {term.name: term.weight for term in terms if term.is_user_code}
        rollouts = []
        for sample, rollout in enumerate(group.rollouts):
            user_values: dict[str, float | None] = {}
            figures = dict(rollout.rewards)
            majority = figures.pop(MAJORITY, None)
            places: list[tuple[int, float]] = []
            verification = rollout.verification
            for scores in results:
                outcome = scores.by_sample.get(sample)
                if isinstance(outcome, str) and verification is not None and scores.name in weights:
                    verification = replace(verification, verdict=Verdict.TIMEOUT, reason=outcome)
                if outcome is None or isinstance(outcome, str):
                    continue
                for figure, number in outcome.figures.items():
                    figures[f"{scores.name}/{figure}"] = number
                if not isinstance(outcome.score, list):
                    user_values[scores.name] = outcome.score
                    continue
                user_values[scores.name] = math.fsum(reward for _, reward in outcome.score)
                weight = weights.get(scores.name, 0.0)
                places += _before_the_end(outcome.score, weight, len(rollout.text))
            length = len(rollout.completion.token_ids) / self._max_tokens
            total, parts = combine_rewards(self.config, verification, length, user_values, majority)
            parts |= figures
            if all(user_values.get(term.name, 0.0) is None for term in terms):
                self._warn_of_no_reward(group.prompt.problem)
            rollouts.append(
                replace(
                    rollout,
                    verification=verification,
                    reward=total,
                    rewards={} if self.config.functions == ("math",) else parts,
                    places=tuple(places),
                )
            )
        return replace(group, rollouts=tuple(rollouts))

    def _warn_of_no_reward(self, problem: Problem) -> None:
        """Say, once, that no function took a response."""
        if not self._has_warned:
            LOG.warning(
                "warning    every reward with a weight is None for a response to problem %s: "
                "responses that no reward takes do not train",
                shortened(printable(problem.id)),
            )
        self._has_warned = True

    def _source_changed(self) -> UserError:
        files = ", ".join(term.spec for term in self.user_rewards)
        return UserError(
            f"--reward {files}: not the source that the run began with; put it back, or begin a "
            "new run with rlvr train --from"
        )


def _in_words(earned: Sequence[Given | str]) -> str:
    """Write what responses earn."""
    return " and ".join(
        format_value(one.score) if isinstance(one, Given) else one for one in earned
    )


def _threads(count: int, opened: ExitStack) -> ThreadPoolExecutor:
    """Return threads that end with `opened`, without the tasks that are not begun by then."""
    threads = ThreadPoolExecutor(count, thread_name_prefix="rewards")
    opened.callback(threads.shutdown, cancel_futures=True)
    return threads


def _before_the_end(
    places: Sequence[tuple[int, float]], weight: float, length: int
) -> list[tuple[int, float]]:
    """Return what is earned before the end of a text of `length` characters, weighted."""
    return [
        (characters, weight * reward)
        for characters, reward in places
        if weight * reward and characters < length
    ]
