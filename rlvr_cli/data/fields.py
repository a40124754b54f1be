"""Read problem, gold answer, id and response from a row, whatever names its fields have."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple, TypeGuard

from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import LONGEST_ANSWER, format_value, shortened
from rlvr_cli.core.types import FieldName, Problem, Turn
from verifiers.names import ANSWERS, OTHER_RESPONSES, RESPONSES

GoldPlace = Literal["text", "hashes", "boxed"]
"""The place of a set's gold answer in its field: the whole text, after `####`, in the last box."""
GoldRule = GoldPlace | Literal["long"]
"""The rule that finds a gold answer. `long` takes the whole of a short line, and of a longer text
what comes after `####` or is in a box."""
PROBLEMS = (
    "problem",
    "body+question",
    "question",
    "prompt",
    "instruction+input",
    "instruction",
    "input",
    "messages",
)
"""The paths at which a problem is looked for, in this order."""
_IDS = ("id", "problem_id", "question_id")
_LISTS_OF_RESPONSES = ("model_outputs[*].model_output", "choices[*].message")
"""The paths at which a list of responses is looked for if there is no name of a response."""
_ERRORS = ("error", "response.body.error")
"""The paths at which a row without a response may say why."""
_SIMILAR: dict[FieldName, re.Pattern[str]] = {
    "problem": re.compile(""),
    "answer": re.compile(r"answer|truth|gold|target|solution|label|result|final", re.IGNORECASE),
    "response": re.compile(r"respon|output|complet|generat|predict|text", re.IGNORECASE),
    "id": re.compile(r"id$|key|index", re.IGNORECASE),
}
"""Patterns of other names that a field may have, for advice."""
_POSITION = re.compile(r"(^|[_.])(index|idx|position|id)$", re.IGNORECASE)
"""Names of positions and keys, which hold no text of a problem."""
_DERIVATIONS = ("solution", "output", "messages")
"""Fields that may hold a derivation: the gold answer is then in a box or after `####`."""
_HASHES = "####"
_LONGEST_LINE = 64
"""Characters of a line that is a gold answer as a whole, by the rule `long`."""
_PROOF = "proof"
_NO_ANSWERS = ("", "notfound", _PROOF)
"""The texts that sets such as NuminaMath-1.5 have in place of an answer."""
_ROLES = {"human": "user", "gpt": "assistant", "developer": "system"}
_Steps = Sequence[tuple[str | None, str | None]]
"""The steps of a path: a name, or the text of an index in brackets."""
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")
_INDEX = re.compile(r"-?\d{1,9}")
_SHOWN = 12
"""Field names in a message at most."""


class BadRowError(Exception):
    """A row is not a problem, or not a response."""


class Gold(NamedTuple):
    """The gold answer of a row, and the path at which it stands."""

    answer: str | None
    path: str | None


class _Field:
    """The paths at which a field is looked for, and how often it was read from which of them."""

    def __init__(
        self,
        name: FieldName,
        names: Sequence[str],
        set_paths: Mapping[str, Sequence[str]],
        user_paths: Mapping[FieldName, str],
    ) -> None:
        self.name = name
        self.set_paths = set_paths.get(name, ())
        self.user_path = user_paths.get(name)
        self.paths = (*self.set_paths, *names)
        if self.user_path is not None:
            self.paths = (self.user_path,)
        self.sources: Counter[str] = Counter()


class FieldReader:
    """Reads rows as problems, and counts which fields they were read from.

    `set_paths` are the paths of a problem set or of another program, tried before other names, and
    `gold` is the rule for the set's answers. `user_paths` are tried alone. After a gold answer that
    came after `####`, the rule for its field is `long` in the following rows.
    """

    def __init__(
        self,
        set_paths: Mapping[str, Sequence[str]] | None = None,
        user_paths: Mapping[FieldName, str] | None = None,
        gold: GoldPlace | None = None,
    ) -> None:
        set_paths = set_paths or {}
        user_paths = user_paths or {}
        self._problem = _Field("problem", PROBLEMS, set_paths, user_paths)
        self._answer = _Field("answer", ANSWERS, set_paths, user_paths)
        self._id = _Field("id", _IDS, set_paths, user_paths)
        self._response = _Field("response", RESPONSES, set_paths, user_paths)
        self._fields = (self._problem, self._answer, self._id, self._response)
        if self._answer.user_path is None:  # a response is not its own gold answer
            self._answer.paths = tuple(
                path for path in self._answer.paths if path != self._response.user_path
            )
        self._rules: dict[str, GoldRule] = dict.fromkeys(_DERIVATIONS, "long")
        if gold is not None:
            self._rules.update(dict.fromkeys(self._answer.set_paths, gold))
        if self._answer.user_path is not None:
            self._rules[self._answer.user_path] = "text"
        self.other_golds: Counter[str] = Counter()
        """How many rows have another gold answer at another path, by both paths."""
        self.has_chats = False
        """Whether a problem was a chat, which is a whole prompt already."""

    def problem(
        self, row: object, default_id: str, need_answer: bool = True, need_response: bool = False
    ) -> Problem:
        """Read a row as a problem. Raises BadRowError.

        With `need_response` a response is read as well, from its field or the chat's last assistant
        turn, into `extra`.
        """
        row = _checked_row(row)
        path, value = _find(row, self._problem)
        if value is None:
            raise BadRowError(self._missing(row, self._problem))
        value = stored_chat(value)
        turns: tuple[Turn, ...] = ()
        text = value
        reply = None
        source = path
        if is_chat(value):
            turns, text, reply = read_chat(value, path)
            source = f"{path}'s last user turn"
        text = checked_text(text, path)
        gold = self._gold(row, need_answer, reply=reply, chat_path=path)
        id_path, problem_id = self._problem_id(row)
        self._problem.sources[source] += 1
        is_whole_prompt = source != path
        self.has_chats |= is_whole_prompt
        extra = _without(row, *path.split("+"), gold.path or path, id_path)
        if need_response:
            response_path, response = _find(row, self._response)
            response = lone_turn(response, response_path)
            if response is None:
                response = reply
            if response is None:
                raise BadRowError("no field response, which --algo sft learns")
            extra = _without(extra, response_path)
            extra["response"] = checked_text(response, "response")
        return Problem(problem_id or default_id, text, gold.answer, extra, turns, is_whole_prompt)

    def judged(self, row: object, need_answer: bool) -> tuple[Problem, tuple[str, ...]]:
        """Read a row of responses: its problem, whose id or text is empty if the row has none, and
        the responses. Raises BadRowError."""
        row = _checked_row(row)
        path, value = _find(row, self._problem)
        value = stored_chat(value)
        response_path, responses = self._responses(row)
        text = read_chat(value, path)[1] if is_chat(value) else value
        if isinstance(text, str) and text.strip():
            text = checked_text(text, path)
        elif self._problem.user_path is not None:
            raise BadRowError(self._missing(row, self._problem))
        else:
            text = ""
        self._response.sources[response_path] += 1
        gold = self._gold(row, need_answer, response_path=response_path)
        extra = _without(row, first_step(response_path), *path.split("+"))
        if text:
            self._problem.sources[path] += 1
        return Problem(self._problem_id(row)[1], text, gold.answer, extra), responses

    def describe_sources(self) -> str:
        """Describe the fields that were read: `problem from question, answer from …`."""
        parts = []
        for field in self._fields:
            names = list(field.sources)
            if len(names) > 1:
                names = [f"{name} ({count})" for name, count in field.sources.most_common()]
            if names:
                parts.append(f"{field.name} from {', '.join(names)}")
        return ", ".join(parts)

    def _problem_id(self, row: Mapping[str, object]) -> tuple[str, str]:
        """Return the path of the id and the id, which is empty if the row has none."""
        path, value = _find(row, self._id)
        if value is None or isinstance(value, dict | list) or not str(value).strip():
            if self._id.user_path is not None:
                raise BadRowError(self._missing(row, self._id))
            return path, ""
        return path, _plain_number(value) if isinstance(value, float) else str(value)

    def _responses(self, row: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
        """Return the path of a row's responses and the responses: a text, a list of texts, or such
        a list as JSON in a text. Raises BadRowError if there is no path, or more than one."""
        paths = [path for path in self._response.paths if value_at(row, path) is not None]
        if not paths and self._response.user_path is None:
            others = (*OTHER_RESPONSES, *_LISTS_OF_RESPONSES)
            paths = [path for path in others if value_at(row, path) is not None][:1]
        value = value_at(row, paths[0]) if paths else None
        if not isinstance(value, str | list):
            error = value_at(row, _ERRORS[0]) or value_at(row, _ERRORS[1])
            if error:
                raise BadRowError(f"an error in place of a response: {shortened(str(error))}")
        if not paths:
            raise BadRowError(self._missing(row, self._response))
        path = paths[0]
        if len(paths) > 1 and path not in self._response.set_paths:
            raise BadRowError(
                f"it has {path} and {paths[1]}: say which to judge, --field response={path}"
            )
        value = lone_turn(value, path)
        if isinstance(value, str) and path.endswith("s"):
            parsed = _parsed(value)
            if parsed is None and value.startswith(("['", '["')):
                raise BadRowError(f"field {path} is a list as Python prints it; write it as JSON")
            value = parsed if isinstance(parsed, list) else value
        if not isinstance(value, list):
            value = [value]
        elif not value:
            raise BadRowError(f"field {path} is an empty list")
        parts = [lone_turn(part, path) for part in value]
        texts: list[str] = []
        for number, text in enumerate(parts, 1):
            if not isinstance(text, str):
                wrong = f"field {path} is neither a text nor a list of texts"
                if len(parts) > 1:
                    kind = "null" if text is None else format_value(text)
                    wrong += f" (number {number} of {len(parts)} is {kind})"
                raise BadRowError(wrong)
            texts.append(text)
        return path, tuple(texts)

    def _gold(
        self,
        row: Mapping[str, object],
        need_answer: bool,
        reply: str | None = None,
        chat_path: str = "",
        response_path: str = "",
    ) -> Gold:
        """Return the first gold answer that a field has, or else the one in `reply`, the last
        assistant turn of the chat at `chat_path`.

        What is at `response_path` is no gold answer. Raises BadRowError if there is none that is
        needed, and if one cannot be read.
        """
        reason = ""
        is_named = self._answer.user_path is not None
        paths = [path for path in self._answer.paths if path != response_path]
        fields = [(path, value_at(row, path)) for path in paths]
        if not is_named:
            fields.append((chat_path, reply))
        for path, value in fields:
            rule = "long" if path == chat_path else self._rules.get(path, "text")
            if value is None:
                continue
            if isinstance(value, str) and value.strip() in _NO_ANSWERS:
                reason = reason or f"field {path} is {value.strip() or 'empty'}"
                if value.strip() == _PROOF:  # a box in a proof is not an answer
                    break
                continue
            try:
                answer, place = gold_and_place(value, rule, path)
            except BadRowError as error:
                if rule == "text":
                    raise
                reason = reason or str(error)
                continue
            if _HASHES in place:
                self._rules.setdefault(path, "long")
            self._answer.sources[f"{path}{place}"] += 1
            is_guessed = not is_named and path not in self._answer.set_paths
            if is_guessed and self._response.sources:
                self._note_other_golds(row, path, answer, response_path)
            return Gold(answer, path)
        if need_answer:
            raise BadRowError(reason or self._missing(row, self._answer))
        return Gold(None, None)

    def _note_other_golds(
        self, row: Mapping[str, object], path: str, answer: str, response_path: str
    ) -> None:
        """Count the row if another name of a gold answer has another one."""
        for other_path in ANSWERS:
            if other_path in (path, response_path) or other_path not in row:
                continue
            rule = self._rules.get(other_path, "text")
            with suppress(BadRowError):
                other, _ = gold_and_place(row[other_path], rule, other_path)
                if other != answer:
                    self.other_golds[f"{path} and {other_path}"] += 1

    def _missing(self, row: Mapping[str, object], field: _Field) -> str:
        """Write that a field is missing, which fields there are, and which --field might do."""
        leaves = list(_leaf_paths(row))
        names = [shortened(name) for name, _ in leaves[:_SHOWN]]
        listing = f"it has {', '.join(names) or 'no fields'}"
        if len(leaves) > _SHOWN:
            listing += " …"
        if field.user_path is not None:
            return f"no {field.user_path}, which --field {field.name} names; {listing}"
        for path in field.paths:
            if path in row and row[path] is None:
                return f"field {path} is null"
        name = shortened(self._similar_name(leaves, field))
        counts = field.sources.most_common(1)
        if counts:
            listing += f" (rows before it: {field.name} from {counts[0][0]})"
        advice = f"name the one that holds it, --field {field.name}={name}"
        if field is self._answer and self._response.sources:
            advice += ", or the problem set that has it: rlvr eval SET --responses FILE"
        return f"no field {field.name}; {listing}: {advice}"

    def _similar_name(self, leaves: Sequence[tuple[str, object]], field: _Field) -> str:
        """Return the name of a field that may be this one. Return NAME if there is none."""
        known = {path for other in self._fields for path in other.paths}
        if field is self._response:
            known -= set(ANSWERS)
        for name, value in leaves:
            is_position = field is not self._id and _POSITION.search(name)
            if name.lower() in known or is_position or not _SIMILAR[field.name].search(name):
                continue
            if isinstance(value, str | int | float | list):
                return name
        return "NAME"


def _checked_row(row: object) -> dict[str, object]:
    """Return a row that is an object. Raises BadRowError for any other value."""
    if not isinstance(row, dict):
        raise BadRowError("not a JSON object")
    return row


def _find(row: Mapping[str, object], field: _Field) -> tuple[str, object]:
    """Return the first path of a field at which the row has a value, and the value.

    An empty text counts only if there is no other value. Return the last path and None if there is
    no value at all.
    """
    empty = None
    for path in field.paths:
        value = value_at(row, path)
        if isinstance(value, str) and not value.strip():
            empty = empty or (path, value)
        elif value is not None:
            return path, value
    return empty or (field.paths[-1], None)


def value_at(row: object, path: str) -> object:
    """Return the value at a path such as `a.b[0].c`, in any case. Return None if there is none.

    `a[*].b` is the list of all b. `a[b.c]` has the index that b.c holds. A text that holds JSON is
    parsed on the way. `a+b` joins two texts. Raises BadRowError if `a[*][*]` would mix the lists of
    several keys.
    """
    if isinstance(row, Mapping):
        key = _key(row, path)
        if key is not None:
            return row[key]
    if "+" in path:
        parts = [value_at(row, part) for part in path.split("+")]
        texts = [part for part in parts if isinstance(part, str) and part.strip()]
        return "\n\n".join(texts) if len(texts) == len(parts) else None
    steps = list(_STEP.finditer(path))
    if "".join(step[0] for step in steps) != path:
        return None
    return _value_inside(row, [(step[1], step[2]) for step in steps], row)


def _value_inside(value: object, steps: _Steps, row: object) -> object:
    """Return the value after the steps. Return None if there is none."""
    for position, (name, index) in enumerate(steps):
        if isinstance(value, str):
            value = _parsed(value)
        if index == "*":
            return _all_inside(value, steps[position + 1 :], row)
        if isinstance(value, Mapping):
            key = _key(value, name or index or "")
            value = None if key is None else value[key]
        elif index and isinstance(value, list | tuple):
            value = _element(value, index, row)
        else:
            return None
    return value


def _element(values: Sequence[object], index: str, row: object) -> object:
    """Return the element of a list at an index, or at the index that the row has at a path. Return
    None if there is none."""
    number = int(index) if _INDEX.fullmatch(index) else value_at(row, index)
    if isinstance(number, list) and len(number) > 1:
        raise BadRowError(f"{index} names several right answers, and a response is judged by one")
    if isinstance(number, list) and number:
        number = number[0]
    if type(number) is int and -len(values) <= number < len(values):
        return values[number]
    return None


def _all_inside(values: object, steps: _Steps, row: object) -> object:
    """Return what every element of a list or an object has after the steps, as one list. Return
    None if no element has anything."""
    is_nested = (None, "*") in steps
    if isinstance(values, Mapping):
        has_lists = any(isinstance(value, list) for value in values.values())
        if is_nested and has_lists and len(values) > 1:
            keys = ", ".join(shortened(str(key)) for key in list(values)[:_SHOWN])
            raise BadRowError(
                f"it has lists of {keys}, which are not to be mixed: name one, as in "
                f"--field response=PATH[{next(iter(values))}][*]…"
            )
        values = list(values.values())
    if not isinstance(values, list | tuple):
        return None
    parts = [_value_inside(value, steps, row) for value in values]
    if is_nested:
        parts = [part for inner in parts if isinstance(inner, list) for part in inner]
    return parts if any(part is not None for part in parts) else None


def first_step(path: str) -> str:
    """Return the field of a row in which a path begins."""
    step = _STEP.match(path)
    return path if step is None else step[1] or path


def _without(row: Mapping[str, object], *paths: str) -> dict[str, object]:
    """Return the fields of a row except those at the paths."""
    used = {_key(row, path) for path in paths}
    return {key: value for key, value in row.items() if key not in used}


def _parsed(text: str) -> object:
    """Parse a text that holds a JSON object or list. Return None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def _key(row: Mapping[str, object], name: str) -> str | None:
    """Return a key in the row's own spelling. Case, spaces and hyphens do not matter."""
    if name in row:
        return name
    normal_name = _normal(name)
    return next((key for key in row if _normal(str(key)) == normal_name), None)


@lru_cache(1024)  # the rows of a file have the same few keys
def _normal(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _leaf_paths(
    row: Mapping[str, object], prefix: str = "", depth: int = 2
) -> Iterator[tuple[str, object]]:
    """Yield (path, value) of the fields. An object is replaced by its own fields, up to `depth`."""
    for key, value in row.items():
        parsed = _parsed(value) if isinstance(value, str) and depth else value
        if isinstance(parsed, dict) and parsed and depth:
            yield from _leaf_paths(parsed, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def gold_and_place(
    value: object, rule: GoldRule = "text", field: str = "answer"
) -> tuple[str, str]:
    """Return the gold answer as text, and its place in the field, in words.

    Numbers are written plainly (27.0 is 27), and a list is joined by commas. Of a derivation only
    the part after `####`, or in the last box, is returned. The rules `hashes` and `boxed` require
    that mark, and `long` requires one of them in a long text. Raises BadRowError if there is no
    gold answer.
    """
    if isinstance(value, str) and value.lstrip().startswith('["'):  # as Skywork-OR1 writes it
        value = _parsed(value) or value
    if isinstance(value, list | tuple) and value and rule in ("text", "long"):
        return ", ".join(gold_and_place(part, rule, field)[0] for part in value), ""
    if isinstance(value, Decimal):
        value = f"{value:f}"
        if "." in value:
            value = value.rstrip("0").rstrip(".")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRowError(f"field {field} is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRowError(f"field {field} is not a finite number")
        return _plain_number(value), ""
    # The grammar takes a third of a second to load, and not every command reads a gold answer.
    from verifiers import boxed_answer, restored_commands

    text = restored_commands(str(value)).strip()
    place = ""
    _, hashes, end = text.rpartition("\n")[2].partition(_HASHES)
    if hashes and rule != "boxed":
        text = end.strip()
        place = f" behind {_HASHES}"
    elif rule == "hashes":
        raise BadRowError(f"field {field} has no {_HASHES} before the gold answer")
    else:
        boxed = boxed_answer(text) if "boxed" in text else None
        if boxed is not None:
            return boxed, "'s last box"
        if rule == "boxed":
            raise BadRowError(f"field {field} has no box around the gold answer")
        if rule == "long" and (len(text) > _LONGEST_LINE or "\n" in text):
            raise BadRowError(f"field {field} has no box and no {_HASHES} before the gold answer")
    if not text:
        raise BadRowError(f"field {field} is empty")
    if len(text) > LONGEST_ANSWER:
        raise BadRowError(f"field {field} is longer than {LONGEST_ANSWER} characters")
    return text, place


def _plain_number(value: float) -> str:
    """Write 27.0 as 27: a column with a null in it turns whole numbers into floats."""
    return str(int(value)) if value.is_integer() else repr(value)


def is_chat(value: object) -> TypeGuard[list[dict[str, object]]]:
    """Return whether a value is a list of objects, as chats are."""
    return isinstance(value, list) and bool(value) and all(isinstance(t, dict) for t in value)


def stored_chat(value: object) -> object:
    """Return the chat that a text holds as JSON. Return any other value unchanged."""
    chat = _parsed(value) if isinstance(value, str) else None
    if is_chat(chat) and {"role", "from"} & chat[0].keys():
        return chat
    return value


def read_chat(
    value: Sequence[Mapping[str, object]], field: str
) -> tuple[tuple[Turn, ...], str, str | None]:
    """Return the turns before the last user turn, its text, and the assistant's reply or None.
    Raises BadRowError if a turn has no role or text, or if no user turn comes last."""
    turns = _turns(value, field)
    reply = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise BadRowError(f"field {field}: the chat has no user turn at its end")
    return tuple(turns[:-1]), turns[-1][1], reply


def lone_turn(value: object, field: str) -> object:
    """Return the text of an assistant's turn, or of a chat of one such turn, as TRL writes
    completions. Return any other value unchanged. Raises BadRowError for a turn without role or
    text."""
    if is_chat(value) and len(value) == 1:
        if value[0].get("role") == "assistant":
            return message_text(value[0]) or ""
        ((role, text),) = _turns(value, field)
        return text if role == "assistant" else value
    if isinstance(value, dict) and value.get("role") == "assistant":
        return message_text(value) or ""
    return value


def _turns(value: Sequence[Mapping[str, object]], field: str) -> list[Turn]:
    """Return role and text of each turn. Raises BadRowError for a turn without role or text."""
    turns: list[Turn] = []
    for turn in value:
        role = turn.get("role", turn.get("from"))
        content = message_text(turn)
        parts = turn.get("content")
        if isinstance(parts, list) and not all(map(_is_text_part, parts)):
            content = None  # an image, say, without which the text is another one
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError(f"field {field} has a turn without role and text")
        turns.append((_ROLES.get(role, role), content))
    return turns


def _is_text_part(part: object) -> bool:
    return isinstance(part, dict) and ("reasoning" in part or isinstance(part.get("text"), str))


def message_text(message: Mapping[str, object]) -> str | None:
    """Return the text of a chat's turn, behind its thought in think tags if that is kept apart.
    Return None if there is no text."""
    content: object = message.get("content", message.get("value"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        thought = thought or "".join(
            str(part["reasoning"]) for part in parts if "reasoning" in part
        )
        content = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    text = content if isinstance(content, str) else None
    if not isinstance(thought, str) or not thought:
        return text
    return f"<think>{thought}</think>{text or ''}"


def checked_text(text: object, field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is not a text, empty, or not Unicode."""
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text
