"""Load and call the user's reward functions: files in worker processes, objects in this one."""

import asyncio
import hashlib
import inspect
import json
import math
import operator
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from rlvr_cli.core.code import CodeError, error_in_words, find_function, import_ahead
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.signals import in_main_thread
from rlvr_cli.core.text import format_value
from rlvr_cli.rewards.fork import reply_of_fork
from rlvr_cli.rewards.forms import (
    SCORE,
    BoundFunction,
    Question,
    arguments_of,
    bind,
    kinds_of_completions,
)

if TYPE_CHECKING:  # it would load the tables of all algorithms into each worker
    from rlvr_cli.algorithm.reward import RewardObjects

GROUP = "rlvr.rewards"
"""The entry points at which an installed package names its rewards."""
_USUAL_NAMES = ("reward", "compute_score", "reward_func")
"""Names of a file's reward: ours, verl's and OpenRLHF's."""
MOST_PLACES = 1000
"""Places in a response, each of which takes about ten decodings of a part of it."""
_RUNNER = asyncio.Runner()
"""One event loop for all calls, so that a client that a function keeps stays usable."""
Run = Callable[[Coroutine[object, object, list[object]]], list[object]]
"""Runs a coroutine to its end."""
Score = float | list[tuple[int, float]] | None
"""A reward: a number, or what is earned up to how many characters, or None for no reward."""


class Given(BaseModel):
    """What a function gave a response: its reward, and further figures."""

    score: Score
    figures: dict[str, float] = {}


class WorkerReply(BaseModel):
    """A reply of the loaded functions. Only one without an error has what a subclass adds."""

    error: str | None = None


class LoadedFunction(BaseModel):
    """What is known of a function that was loaded."""

    form: str
    """The name of its form."""
    takes_group: bool
    """Whether a question has all responses to a problem, as lists and coroutines do."""
    is_async: bool
    has_completions: bool
    """Whether it takes completions, which are chats or texts."""
    source: str
    """SHA-256 of the file, or of an object's text: empty if Python does not know that."""


class Loaded(WorkerReply):
    """The functions that were loaded."""

    functions: list[LoadedFunction] = []


class Rewards(WorkerReply):
    """What a function gave each response of a question, and the function's source."""

    source: str = ""
    as_chats: bool = False
    """Whether the completions were chats."""
    by_response: list[Given] = []


class _Function(NamedTuple):
    bound: BoundFunction
    file: Path
    about: LoadedFunction


def answering(directory: str, specs: Sequence[str]) -> Callable[[JsonObject], JsonObject]:
    """Load functions, and return the function that answers a worker's questions.

    The reply to a `Question` is `Rewards`. An empty question asks what was loaded, and its reply is
    `Loaded`.
    """
    os.chdir(directory)
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    loaded: list[_Function] = []
    for spec in specs:
        try:
            loaded.append(_load(spec, directory))
        except BaseException as error:
            reason = f"{spec}: {error_in_words(error, Path(directory) / spec.partition(':')[0])}"
            return lambda question: WorkerReply(error=reason).model_dump()
    return lambda question: _answer(loaded, question, _RUNNER.run)


class FunctionsHere:
    """Answers as a worker does, by function objects of this process.

    They get copies, as a worker's functions do, and have no limits.
    """

    def __init__(self, objects: "RewardObjects") -> None:
        self._loaded: list[_Function] = []
        self._error: str | None = None
        self._loops = ThreadPoolExecutor(1, thread_name_prefix="reward-loop")
        """The thread of the event loop: the thread of a notebook has another one already."""
        for name, function in objects.items():
            file = Path()
            text = ""
            with suppress(OSError, TypeError):  # Python does not know the text of every function
                file = Path(inspect.getfile(function))
                text = inspect.getsource(function)
            try:
                self._loaded.append(_described(function, file, text.encode()))
            except Exception as error:
                self._error = f"{name}: {error_in_words(error, file)}"
                return

    def __call__(self, question: JsonObject) -> JsonObject:
        """Answer in the thread of this call. Coroutines run in a thread of their own."""
        with _alarm_restored():
            return self._answer(question, self._run_in_thread)

    def as_a_file(self, question: JsonObject, seconds: float) -> JsonObject:
        """Answer in the main thread of a process of its own, as a file's functions do."""
        reply = reply_of_fork(lambda: self._answer(question, asyncio.run), seconds)
        return WorkerReply(error="no reply").model_dump() if reply is None else reply

    def close(self) -> None:
        """End the thread of the event loop."""
        self._loops.shutdown(wait=False)

    def _answer(self, question: JsonObject, run: Run) -> JsonObject:
        if self._error is not None:
            return WorkerReply(error=self._error).model_dump()
        return _answer(self._loaded, json.loads(json.dumps(question, default=str)), run)

    def _run_in_thread(self, coroutine: Coroutine[object, object, list[object]]) -> list[object]:
        return self._loops.submit(_RUNNER.run, coroutine).result()


@contextmanager
def _alarm_restored() -> Iterator[None]:
    """Take back the handler and the timer of SIGALRM if the block sets a handler, since later the
    signal is ours again (`core/signals.py`). Outside the main thread nothing can set one."""
    if not in_main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        if handler is not None and signal.getsignal(signal.SIGALRM) != handler:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)


def _answer(functions: Sequence[_Function], question: JsonObject, run: Run) -> JsonObject:
    """Return the reply of the loaded functions to a question."""
    if not question:
        return Loaded(functions=[function.about for function in functions]).model_dump()
    return _rewards(functions, Question(**question), run).model_dump()


def _rewards(functions: Sequence[_Function], question: Question, run: Run) -> Rewards:
    """Return what a function gives the responses of a question."""
    function = functions[question.function]
    form = function.bound.form
    source = function.about.source
    reason = ""
    for as_chats in kinds_of_completions(form, question):
        try:
            rewards = _compute(function.bound, question, as_chats, run)
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # A function that indexes turns, or searches a text, fails so on the other kind.
            is_of_kind = isinstance(error, TypeError | AttributeError)
            if reason and is_of_kind:
                break
            note = f", since it fails on the other kind ({reason})" if reason else ""
            reason = error_in_words(error, function.file)
            if form.has_completions and not isinstance(error, CodeError):
                reason += f"; its completions are {'chats' if as_chats else 'texts'}{note}"
            if not is_of_kind:
                break
        else:
            return Rewards(source=source, as_chats=as_chats, by_response=rewards)
    return Rewards(source=source, error=reason)


def _compute(bound: BoundFunction, question: Question, as_chats: bool, run: Run) -> list[Given]:
    """Call a function on the responses of a question, and pass its errors through."""
    form = bound.form
    results = [bound.call(arguments) for arguments in arguments_of(form, question, as_chats)]
    awaitables = [result for result in results if inspect.isawaitable(result)]
    if len(awaitables) == len(results):
        results = run(_gathered(awaitables))
    if form.takes_group:
        results = _listed(results[0], form.score)
    responses = question.responses
    if len(results) != len(responses):
        raise CodeError(f"it returned {len(results)} rewards for {len(responses)} responses")
    pairs = zip(results, responses, strict=True)
    return [_reward_of(result, len(response), form.score) for result, response in pairs]


async def _gathered(results: Sequence[Awaitable[object]]) -> list[object]:
    return await asyncio.gather(*results)


def _listed(result: Any, score: str) -> list[object]:
    """Return the rewards of a group as a list.

    A dictionary of lists, with the rewards as `score`, becomes a list of dictionaries.
    """
    if isinstance(result, Mapping) and score in result:
        rewards = _listed(result[score], score)
        columns = {score: rewards}
        for name, values in {**result, **result.get("extra_logs", {})}.items():
            with suppress(TypeError):
                if len(values) == len(rewards):
                    columns[name] = list(values)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]
    if not isinstance(result, str | bytes | Mapping):
        with suppress(TypeError):
            return list(result)
    raise CodeError(f"it returned {format_value(result)}, not a list of rewards")


def _reward_of(value: object, length: int, score: str) -> Given:
    """Return what a function gave a response of `length` characters. `score` is the key of the
    reward in a dictionary."""
    if not isinstance(value, Mapping):
        return Given(score=_score(value, length))
    key = score if score in value else SCORE
    if key not in value:
        raise CodeError(f"it returned {format_value(value)}, without {score}")
    if isinstance(value[key], Mapping):
        raise CodeError(f"it returned {format_value(value)}, whose {key} is no number")
    figures = {str(name): float(x) for name, x in value.items() if _is_number(x)}
    figures.pop(key, None)
    return Given(score=_score(value[key], length), figures=figures)


def _score(value: Any, length: int) -> Score:
    """Return the reward of a response as a number, None or places."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return _checked_places(value, length)
    if not _is_number(value):
        raise CodeError(f"it returned {format_value(value)}, not a finite number")
    return float(value)


def _checked_places(value: Sequence[Any], length: int) -> list[tuple[int, float]]:
    """Return a reward in places: what is earned up to how many of the `length` characters."""
    try:
        places = [(operator.index(characters), reward) for characters, reward in value]
        rewards = [reward for _, reward in places]
        is_finite = all(map(_is_number, rewards)) and _is_number(sum(rewards))
    except (TypeError, ValueError):
        is_finite = False
    if not is_finite:
        raise CodeError(
            f"it returned {format_value(value)}, not a finite number or [(characters, reward), …]"
        )
    if len(places) > MOST_PLACES:
        raise CodeError(f"it returned {len(places)} places; {MOST_PLACES} are the most")
    ends = [0, *(characters for characters, _ in places), length]
    if ends != sorted(ends):
        raise CodeError(
            f"it returned {format_value(value)}, whose places do not ascend from 0 to the "
            f"{length} characters of the response"
        )
    return [(characters, float(reward)) for characters, reward in places]


def _is_number(value: Any) -> bool:
    """Return whether the value is a finite number, and no tensor with a gradient."""
    if isinstance(value, str | bytes) or getattr(value, "requires_grad", False):
        return False
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _load(spec: str, directory: str) -> _Function:
    """Find a function by its specification, and pass errors of the user's code through."""
    function, file, _ = find_function(spec, directory, GROUP, usual_names=_USUAL_NAMES)
    loaded = _described(function, file, file.read_bytes())
    import_ahead(loaded.bound.function)
    return loaded


def _described(function: Callable[..., object], file: Path, text: bytes) -> _Function:
    """Return a function with its form and the checksum of its text. Raises CodeError if it has no
    form."""
    bound = bind(function)
    is_async = _is_async(bound.function)
    about = LoadedFunction(
        form=bound.form.name,
        takes_group=bound.form.takes_group or is_async,
        is_async=is_async,
        has_completions=bound.form.has_completions,
        source=hashlib.sha256(text).hexdigest() if text else "",
    )
    return _Function(bound, file, about)


def _is_async(function: Callable[..., object]) -> bool:
    """Return whether a function, or an object that is called, is a coroutine function."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
