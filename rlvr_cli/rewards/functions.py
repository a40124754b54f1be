"""Load and call the user's reward functions: files in worker processes, objects in this one."""

import asyncio
import hashlib
import inspect
import json
import math
import operator
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

from rlvr_cli.core.code import CodeError, error_in_words, find_function
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import format_value, shortened
from rlvr_cli.core.types import PROBLEM_SET

if TYPE_CHECKING:  # it would load the tables of all algorithms into each worker
    from rlvr_cli.algorithm.reward import RewardObjects

GROUP = "rlvr.rewards"
"""The entry points at which an installed package names its rewards."""
SCORE = "score"
"""The key of the reward in a dictionary that a function returns. Other numbers are figures."""
MOST_PLACES = 1000
"""Places in a response, each of which takes about ten decodings of a part of it."""
Form = Literal["pair", "group", "TRL's form", "verl's form"]
"""How a function takes problems and responses: one or a group in our own form, or another's."""
_OURS = {"response", "responses", "problems"}
_MARKS: dict[str, set[str]] = {
    "(problem, response)": _OURS,
    "TRL's form": {"completions"},
    "verl's form": {"solution_str"},
}
"""Names of parameters that only one form has."""
_FORMS = (
    "(problem, response) or (problems, responses), TRL's (completions, …) or verl's "
    "(data_source, solution_str, ground_truth, extra_info)"
)
_GOLD_NAMES = ("answer", "ground_truth", "solution", "target", "gold")
"""Columns that get the gold answer, unless the rows have a column of the same name."""
_TEXT_NAMES = {"prompt", "prompts", "question", "answer", "answers", "ground_truth", "gold"}
_MISLEADING = (
    {*_TEXT_NAMES, "response", "responses", "completion", "completions"},
    {*_TEXT_NAMES, "problem", "problems"},
)
"""Names of a first and of a second parameter that expect something else than they would get."""
_RUNNER = asyncio.Runner()
"""One event loop for all calls, so that a client that a function keeps stays usable."""
_Arguments = Mapping[str, object]
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

    form: Form
    takes_group: bool
    """Whether a question has all responses to a problem, as lists and coroutines do."""
    source: str
    """SHA-256 of the file, or of an object's text: empty if Python does not know that."""


class Loaded(WorkerReply):
    """The functions that were loaded."""

    functions: list[LoadedFunction] = []


class Rewards(WorkerReply):
    """What a function gave each response of a question, and the function's source."""

    source: str = ""
    by_response: list[Given] = []


@dataclass(frozen=True)
class Question:
    """Responses to a problem, which the function of this number rewards."""

    function: int
    rows: list[JsonObject]
    responses: list[str]
    step: int = 0
    chat: list[dict[str, str]] | None = None
    """The turns of the problem, if it is a chat."""


class _Function(NamedTuple):
    call: Callable[[_Arguments], object]
    """Calls it with those of the arguments by name that it takes."""
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
    return lambda question: _answer(loaded, question)


def answering_here(objects: "RewardObjects") -> Callable[[JsonObject], JsonObject]:
    """Return the function that answers as a worker does, by function objects of this process.

    They get copies, as a worker's functions do, and have no limits.
    """
    loaded: list[_Function] = []
    for name, function in objects.items():
        file = Path()
        text = ""
        with suppress(OSError, TypeError):  # Python does not know the text of every function
            file = Path(inspect.getfile(function))
            text = inspect.getsource(function)
        try:
            loaded.append(_described(function, file, text.encode()))
        except (CodeError, TypeError, ValueError) as error:
            reason = f"{name}: {error_in_words(error, file)}"
            return lambda question: WorkerReply(error=reason).model_dump()
    return lambda question: _answer(loaded, json.loads(json.dumps(question, default=str)))


def _answer(functions: Sequence[_Function], question: JsonObject) -> JsonObject:
    """Return the reply of the loaded functions to a question."""
    if not question:
        return Loaded(functions=[function.about for function in functions]).model_dump()
    return _rewards(functions, Question(**question)).model_dump()


def _rewards(functions: Sequence[_Function], question: Question) -> Rewards:
    """Return what a function gives the responses of a question."""
    function = functions[question.function]
    try:
        rewards = _compute(function, question)
    except MemoryError:
        raise
    except BaseException as error:
        reason = error_in_words(error, function.file)
        if function.about.form == "TRL's form" and not isinstance(error, CodeError):
            reason += f"; its completions are {'chats' if question.chat else 'texts'}"
        return Rewards(source=function.about.source, error=reason)
    return Rewards(source=function.about.source, by_response=rewards)


def _compute(function: _Function, question: Question) -> list[Given]:
    """Call a function on the responses of a question, and pass its errors through."""
    step = {"step": question.step}
    results = [
        function.call({**step, **named}) for named in _arguments(function.about.form, question)
    ]
    awaitables = [result for result in results if inspect.isawaitable(result)]
    if len(awaitables) == len(results):
        results = _RUNNER.run(_gathered(awaitables))
    if function.about.form in ("group", "TRL's form"):
        results = _listed(results[0])
    responses = question.responses
    if len(results) != len(responses):
        raise CodeError(f"it returned {len(results)} rewards for {len(responses)} responses")
    pairs = zip(results, responses, strict=True)
    return [_reward_of(result, len(response)) for result, response in pairs]


async def _gathered(results: Sequence[Awaitable[object]]) -> list[object]:
    return await asyncio.gather(*results)


def _arguments(form: Form, question: Question) -> list[_Arguments]:
    """Return the arguments of each call by their names in the form."""
    rows = question.rows
    responses = question.responses
    if form == "group":
        return [{"problems": rows, "responses": responses}]
    if form == "TRL's form":
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        golds = dict.fromkeys(_GOLD_NAMES, columns.get("answer"))
        texts = {"prompts": columns.get("problem"), "completions": responses}
        if question.chat:
            completions = [[{"role": "assistant", "content": text}] for text in responses]
            texts = {"prompts": [question.chat] * len(rows), "completions": completions}
        return [{**golds, **columns, **texts}]
    pairs = zip(rows, responses, strict=True)
    if form == "pair":
        return [{"problem": row, "response": response} for row, response in pairs]
    return [
        {
            "data_source": row.get("data_source", row.get(PROBLEM_SET, "")),
            "solution_str": response,
            "ground_truth": row.get("answer"),
            "extra_info": row.get("extra_info", row),
        }
        for row, response in pairs
    ]


def _listed(result: Any) -> list[object]:
    """Return the rewards of a group as a list."""
    if not isinstance(result, str | bytes | Mapping):
        with suppress(TypeError):
            return list(result)
    raise CodeError(f"it returned {format_value(result)}, not a list of rewards")


def _reward_of(value: object, length: int) -> Given:
    """Return what a function gave a response of `length` characters, in any of its forms."""
    if not isinstance(value, Mapping):
        return Given(score=_score(value, length))
    if SCORE not in value:
        raise CodeError(f"it returned {format_value(value)}, without {SCORE}")
    if isinstance(value[SCORE], Mapping):
        raise CodeError(f"it returned {format_value(value)}, whose {SCORE} is no number")
    figures = {str(name): float(x) for name, x in value.items() if _is_number(x)}
    figures.pop(SCORE, None)
    return Given(score=_score(value[SCORE], length), figures=figures)


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
    function, file, _ = find_function(spec, directory, GROUP, usual_name="reward")
    return _described(function, file, file.read_bytes())


def _described(function: Callable[..., object], file: Path, text: bytes) -> _Function:
    """Return a function with its form and the checksum of its text. Raises CodeError if it has no
    form."""
    call, form = _bound(function)
    is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    source = hashlib.sha256(text).hexdigest() if text else ""
    takes_group = is_async or form in ("group", "TRL's form")
    return _Function(call, file, LoadedFunction(form=form, takes_group=takes_group, source=source))


def _bound(function: Callable[..., object]) -> tuple[Callable[[_Arguments], object], Form]:
    """Return a call with arguments by name, and the form that the function's parameters show.

    Raises CodeError unless they show exactly one.
    """
    signature = inspect.signature(function)
    names = tuple(signature.parameters)
    forms = {form for form, marks in _MARKS.items() if marks & {*names}}
    if names[:1] == ("problem",):
        forms.add("(problem, response)")
    if len(forms) > 1:
        raise CodeError(
            f"{shortened(str(signature))} can be read as {' and as '.join(sorted(forms))}; take "
            "the names of one of them"
        )
    for foreign in ("TRL's form", "verl's form"):
        if foreign in forms:
            return _by_name(function, signature), foreign
    form: Form = "pair"
    first, second = "problem", "response"
    if names[:1] == ("problems",) or {"problems", "responses"} <= {*names}:
        form = "group"
        first, second = "problems", "responses"
    if {first, second} <= {*names} and names[:2] != (first, second):
        return _by_name(function, signature), form
    by_name = {*names[2:]} & {"step"}
    pairs = zip(names, _MISLEADING, strict=False)
    with suppress(TypeError):
        signature.bind({}, "", **dict.fromkeys(by_name))
        if not any(name in wrong for name, wrong in pairs):
            return lambda arguments: function(
                arguments[first], arguments[second], **{name: arguments[name] for name in by_name}
            ), form
    raise CodeError(f"a reward takes {_FORMS}, not {shortened(str(signature))}")


def _by_name(
    function: Callable[..., object], signature: inspect.Signature
) -> Callable[[_Arguments], object]:
    """Return a call that gives the function those of the arguments that it names."""
    parameters = signature.parameters
    takes_all = any(item.kind is item.VAR_KEYWORD for item in parameters.values())

    def call(arguments: _Arguments) -> object:
        accepted = arguments
        if not takes_all:
            accepted = {name: value for name, value in arguments.items() if name in parameters}
        try:
            signature.bind(**accepted)
        except TypeError as error:
            raise CodeError(f"{error}; there are {', '.join(arguments)}") from None
        return function(**accepted)

    return call
