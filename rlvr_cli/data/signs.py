"""Find the signs that a row sets another task than its text alone: images, turn marks, an error,
an answer that has begun, or an answer that is scored by rules."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Problem
from rlvr_cli.data.golds import no_answer
from rlvr_cli.data.paths import BadRowError, key_of, parsed_json, value_at
from verifiers.names import ANSWERS

_ERRORS = ("error", "response.body.error")
"""The paths at which a row may say that something failed."""
_MEDIA = re.compile(
    r"(?:\w+_)?(?:image|img|video|audio)s?(?:_(?:path|url|file|bytes))?s?(?:_?\d+)?", re.IGNORECASE
)
"""Fields that hold what a text policy cannot see."""
_MEDIA_MARK = re.compile(r"<(?:image|video|audio)(?:[_ ]?\d+)?>|<\|(?:image|video|audio)_pad\|>")
TOLERANCES = re.compile(r"[-+±\d.,;e%\s]*", re.IGNORECASE)
"""Numbers in a field for errors: the tolerances of answers."""
_LONGEST_OPENING = 200
"""Characters of the beginning of a response that a row may give."""
_ENDS = ("\\boxed", "####", "</think>", "</answer>")
"""What only a response that has ended holds."""
_OPENING_SHARE = 0.5
"""Share of the rows that must end with the same text, for it to be an opening."""
_MOST_NUMBERS = 16
_TASKS = (*(path for path in ANSWERS if "." in path), *ANSWERS)
"""The paths of an object that may be a task, in the order of golds."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class ScoredTask:
    """A task whose answers the verifier scores by its rules."""

    name: str
    path: str
    answer: str
    numbers: frozenset[str]
    """The numbers that its text names."""
    fields: JsonObject
    """The fields by which a row says so (`verifiers.gym.place_of`)."""


def refuse_other_task(row: Mapping[str, object], text: str, path: str) -> None:
    """Raise BadRowError for a row with an image, an error, or a rendered prompt."""
    error = error_in(row)
    if error is not None:
        raise BadRowError(f"it names an error: {error}; leave such rows out")
    for key in _media_keys(tuple(row)):
        if _has_media(row[key]):
            raise BadRowError(
                f"field {shortened(key)} holds an image or a sound beside the text, which a policy "
                "of texts does not see"
            )
    if "<" not in text and "[" not in text:
        return
    media = _MEDIA_MARK.search(text)
    if media:
        raise BadRowError(
            f"field {path} has {media[0]} in its text, which a policy of texts does not see"
        )
    from verifiers.extraction.turns import turn_mark

    mark = turn_mark(text)
    if mark is not None:
        raise BadRowError(
            f"field {path} holds the mark of a turn, {shortened(mark)}: the prompt was rendered "
            "already, and a chat template would put it into a turn again; give the text of the "
            "problem or its chat"
        )


@lru_cache(256)  # the rows of a file have the same few keys
def _media_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if isinstance(key, str) and _MEDIA.fullmatch(key))


def _has_media(value: object) -> bool:
    """Return whether a value may be an image: a path, its bytes, or a list with one."""
    if isinstance(value, str):
        return no_answer(value) is None
    if isinstance(value, list | tuple):
        return any(map(_has_media, value))
    if isinstance(value, Mapping):
        return any(part is not None for part in value.values())
    return isinstance(value, bytes) and bool(value)


def error_in(row: Mapping[str, object]) -> str | None:
    """Return in short what a row says has failed. Return None if it says nothing: numbers are
    the tolerances of answers (OlympiadBench)."""
    for path in _ERRORS:
        error = value_at(row, path)
        if isinstance(error, str) and (no_answer(error) or TOLERANCES.fullmatch(error)):
            continue
        if isinstance(error, Mapping) and not any(error.values()):
            continue
        if error is True or (error and isinstance(error, str | Mapping)):
            return shortened(str(error))
    return None


def scored_task(row: Mapping[str, object], text: str) -> ScoredTask | None:
    """Return the task of countdown: reach a target with each of the numbers once. Return None for
    any other row.

    It has `numbers` (or `nums`) and `target` in an object that is the gold answer, or as fields of
    the row whose text names all of them.
    """
    for path in _TASKS:
        truth = value_at(row, path)
        if isinstance(truth, str) and truth.lstrip().startswith("{"):
            truth = parsed_json(truth)
        if isinstance(truth, Mapping):
            return _countdown(truth, text, path)
    task = _countdown(row, text, "target") if key_of(row, "target") is not None else None
    return task if task is not None and task.numbers <= set(_DIGITS.findall(text)) else None


def _countdown(holder: Mapping[str, object], text: str, path: str) -> ScoredTask | None:
    """Return the task of an object that has numbers and a target, and None for any other."""
    target = value_at(holder, "target")
    numbers = value_at(holder, "numbers") or value_at(holder, "nums")
    if not isinstance(numbers, list) or not 0 < len(numbers) <= _MOST_NUMBERS:
        return None
    if type(target) is not int or not all(type(number) is int for number in numbers):
        return None
    from verifiers.gym import FIELD, countdown_place

    fields = {FIELD: countdown_place(numbers, target, text)}
    spoken = frozenset(map(str, [*numbers, target]))
    return ScoredTask("countdown", path, str(target), spoken, fields)


def openings(problems: Sequence[tuple[Problem, str | None]]) -> list[str]:
    """Return for each problem and the assistant's turn at its end the opening of its response.

    It is that turn if it is unfinished, half of the rows end so, and it states the gold answer of
    fewer than half of these. Else it is empty.
    """
    replies = [reply or "" for _, reply in problems]
    fewest = _OPENING_SHARE * len(problems)
    common = set()
    for reply, count in Counter(replies).items():
        if count < fewest or not reply or not _is_unfinished(reply):
            continue
        answers = [problem.answer for problem, ending in problems if ending == reply]
        if sum(_states(reply, answer) for answer in answers) < _OPENING_SHARE * count:
            common.add(reply)
    return [reply if reply in common else "" for reply in replies]


def _is_unfinished(reply: str) -> bool:
    """Return whether an assistant's turn may be the beginning of a response, and not all of it."""
    return len(reply) <= _LONGEST_OPENING and not any(end in reply for end in _ENDS)


def _states(reply: str, answer: str | None) -> bool:
    """Return whether an assistant's turn has the gold answer in it."""
    if not answer:
        return False
    return re.search(rf"(?<!\w){re.escape(answer.strip())}(?!\w)", reply) is not None
