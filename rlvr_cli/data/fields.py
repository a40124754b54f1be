"""Read problem, gold answer, id and response from a row, whatever its fields are called."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal

from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import LONGEST_ANSWER, format_value, shortened
from rlvr_cli.core.types import FieldName, Problem, Turn
from verifiers import boxed_answer, restored_commands

Gold = Literal["text", "hashes", "boxed"]
"""Where a set's gold answer stands in its field: the whole text, behind `####`, in the last box."""
Rule = Gold | Literal["long"]
"""`long`: behind `####` or in a box of a long text; the whole of a short line."""
ALIASES: dict[FieldName, tuple[str, ...]] = {
    "problem": (
        *("problem", "body+question", "question", "prompt", "instruction+input", "instruction"),
        *("input", "messages"),
    ),
    "answer": (
        *("answer", "solution", "ground_truth", "target", "gold", "final_answer", "output"),
        *("expected_answer", "reward_model.ground_truth", "verification_info.ground_truth"),
    ),
    "id": ("id", "problem_id", "question_id"),
    "response": (
        *("response", "responses", "completion", "completions", "generation", "generations"),
        *("prediction", "predictions", "model_output"),
    ),
}
"""The paths at which each field is looked for, in this order."""
_LIKE: dict[FieldName, re.Pattern[str]] = {
    "problem": re.compile(""),
    "answer": re.compile(r"answer|truth|gold|target|solution|label|result|final", re.IGNORECASE),
    "response": re.compile(r"respon|output|complet|generat|predict|text", re.IGNORECASE),
    "id": re.compile(r"id$|key|index", re.IGNORECASE),
}
"""Patterns of other names that a field may have, for advice."""
_POSITION = re.compile(r"(^|[_.])(index|idx|position|id)$", re.IGNORECASE)
"""Names of places and keys, which hold no text of a problem."""
_HASHES = "####"
_BARE = 64
"""Characters up to which a line without a mark is a gold answer by the rule `long`."""
_PROOF, _NO_ANSWERS = "proof", ("", "notfound", "proof")
"""What sets such as NuminaMath-1.5 write where there is no answer; a box in a proof is none."""
_ROLES = {"human": "user", "gpt": "assistant", "developer": "system"}
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d{1,9})\]")
_SHOWN = 12


class BadRowError(Exception):
    """A row is not a problem, or not a response."""


class FieldReader:
    """Reads rows as problems, and counts from where each field was taken.

    `paths` are a problem set's own, tried before `ALIASES`, and `gold` is the rule for its answers;
    `given` are the user's paths, tried alone. Once a gold answer stood behind `####`, the rule for
    its field is `long` in the rows after it.
    """

    def __init__(
        self,
        paths: Mapping[FieldName, str] | None = None,
        given: Mapping[FieldName, str] | None = None,
        gold: Gold | None = None,
    ) -> None:
        paths, self.given = paths or {}, given or {}
        of_set = {field: (paths[field], *ALIASES[field]) for field in paths}
        self.paths = ALIASES | of_set | {field: (path,) for field, path in self.given.items()}
        if "response" in self.given and "answer" not in self.given:  # it is not its own gold
            others = (path for path in self.paths["answer"] if path != self.given["response"])
            self.paths["answer"] = tuple(others)
        # These may be derivations: a gold in a box or behind `####`, or one short line.
        self._rules: dict[str, Rule] = dict.fromkeys(("solution", "output", "messages"), "long")
        if gold is not None and "answer" in paths:
            self._rules[paths["answer"]] = gold
        if "answer" in self.given:
            self._rules[self.given["answer"]] = "text"
        self.taken: dict[FieldName, Counter[str]] = {field: Counter() for field in ALIASES}
        self.has_chats = False
        """Whether a problem was a chat, which is a whole prompt already."""

    def problem(
        self, row: Any, default_id: str, need_answer: bool = True, need_response: bool = False
    ) -> Problem:
        """Read a row as a problem; with `need_response` also a response, from its field or the
        chat's last assistant turn, into `extra`. Raises BadRowError."""
        path, value = self._first(row, "problem")
        if value is None:
            raise BadRowError(self._missing(row, "problem"))
        value = stored_chat(value)
        turns, text, reply = read_chat(value, path) if is_chat(value) else ((), value, None)
        text = checked_text(text, path)
        answer, source = self._answer(row, reply, path, need_answer)
        id_path, identity = self._identity(row)
        self.has_chats |= is_chat(value)
        self.taken["problem"][f"{path}'s last user turn" if is_chat(value) else path] += 1
        extra = _without(row, *path.split("+"), source or path, id_path)
        if need_response:
            place, value = self._first(row, "response")
            response = lone_turn(value, place)
            if response is None and reply is None:
                raise BadRowError("no field response, which --algo sft learns")
            extra = _without(extra, place)
            extra["response"] = checked_text(reply if response is None else response, "response")
        return Problem(identity or default_id, text, answer, extra, turns)

    def judged(self, row: Any, need_answer: bool) -> tuple[Problem, tuple[str, ...]]:
        """Read a row of responses: its problem, with an empty id or text where it has none, and the
        responses. Raises BadRowError."""
        path, value = self._first(row, "problem")
        value = stored_chat(value)
        place, responses = self._responses(row)
        text = read_chat(value, path)[1] if is_chat(value) else value
        has_text = isinstance(text, str) and bool(text.strip())
        if not has_text and "problem" in self.given:
            raise BadRowError(self._missing(row, "problem"))
        text = checked_text(text, path) if has_text else ""
        answer, _ = self._answer(row, None, "", need_answer)
        extra = _without(row, place, *path.split("+"))
        return Problem(self._identity(row)[1], text, answer, extra), responses

    def describe_taken(self) -> str:
        """Describe the fields that were read: `problem from question, answer from …`."""
        parts = []
        for field in ("problem", "answer"):
            if counts := self.taken[field].most_common():
                texts = [f"{name} ({n})" if len(counts) > 1 else name for name, n in counts]
                parts.append(f"{field} from {', '.join(texts)}")
        return ", ".join(parts)

    def _first(self, row: Any, field: FieldName) -> tuple[str, Any]:
        """Return the first path of a field that the row has, and its value: an empty text only if
        there is no other; the last path and None if there is none."""
        if not isinstance(row, dict):
            raise BadRowError("not a JSON object")
        empty = None
        for path in self.paths[field]:
            value = value_at(row, path)
            if isinstance(value, str) and not value.strip():
                empty = empty or (path, value)
            elif value is not None:
                return path, value
        return empty or (self.paths[field][-1], None)

    def _identity(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Return the path of the id and the id, empty if the row has none."""
        path, value = self._first(row, "id")
        if value is None or isinstance(value, dict | list) or not str(value).strip():
            if "id" in self.given:
                raise BadRowError(self._missing(row, "id"))
            return path, ""
        return path, _plain_number(value) if isinstance(value, float) else str(value)

    def _responses(self, row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return the path of a row's responses and the responses: a text or several, also as JSON
        in a text. Raises BadRowError if there is none, or more than one path."""
        paths = [path for path in self.paths["response"] if value_at(row, path) is not None]
        if not paths:
            raise BadRowError(self._missing(row, "response"))
        path = paths[0]
        if len(paths) > 1:
            raise BadRowError(
                f"it has {path} and {paths[1]}: say which to judge, --field response={path}"
            )
        value = lone_turn(value_at(row, path), path)
        if isinstance(value, str) and path.endswith("s"):
            parsed = _parsed(value)
            value = parsed if isinstance(parsed, list) else value
        texts = [lone_turn(text, path) for text in value] if isinstance(value, list) else [value]
        numbers = [number for number, text in enumerate(texts, 1) if not isinstance(text, str)]
        if numbers or not texts:
            wrong = "an empty list" if value == [] else "neither a text nor a list of texts"
            if len(texts) > 1:
                first = texts[numbers[0] - 1]
                kind = "null" if first is None else format_value(first)
                wrong += f" (number {numbers[0]} of {len(texts)} is {kind})"
            raise BadRowError(f"field {path} is {wrong}")
        return path, tuple(texts)

    def _answer(
        self, row: Mapping[str, Any], reply: str | None, chat: str, need_answer: bool
    ) -> tuple[str | None, str | None]:
        """Return the gold answer and its path; `reply`, the last assistant turn of the chat at the
        path `chat`, is read if no field has one. Raises BadRowError."""
        reason = ""
        fields = [(path, value_at(row, path)) for path in self.paths["answer"]]
        if "answer" not in self.given:
            fields.append((chat, reply))
        for path, value in fields:
            rule = "long" if path == chat else self._rules.get(path, "text")
            if value is None:
                continue
            if isinstance(value, str) and value.strip() in _NO_ANSWERS:
                reason = reason or f"field {path} is {value.strip() or 'empty'}"
                if value.strip() == _PROOF:
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
            self.taken["answer"][f"{path}{place}"] += 1
            return answer, path
        if need_answer:
            raise BadRowError(reason or self._missing(row, "answer"))
        return None, None

    def _missing(self, row: Mapping[str, Any], field: FieldName) -> str:
        """Write that a field is missing, which fields there are, and which --field might do."""
        leaves = list(_leaf_paths(row))
        names = [shortened(name) for name, _ in leaves[:_SHOWN]]
        has = f"it has {', '.join(names) or 'no fields'}{' …' if len(leaves) > _SHOWN else ''}"
        if field in self.given:
            return f"no {self.given[field]}, which --field {field} names; {has}"
        if null := next((path for path in self.paths[field] if path in row), None):
            return f"field {null} is null"
        taken = {path for paths in self.paths.values() for path in paths}
        if field == "response":
            taken -= set(ALIASES["answer"])
        free = (
            name
            for name, value in leaves
            if name.lower() not in taken
            and isinstance(value, str | int | float | list)
            and (field == "id" or not _POSITION.search(name))
        )
        best = shortened(next(filter(_LIKE[field].search, free), "NAME"))
        if earlier := self.taken[field].most_common(1):
            has += f" (rows before it: {field} from {earlier[0][0]})"
        return f"no field {field}; {has}: name the one that holds it, --field {field}={best}"


def value_at(row: Any, path: str) -> Any:
    """Return the value at a path such as `a.b[0].c`, whatever its case; None if there is none.

    A text that holds JSON is parsed on the way. `a+b` joins two texts.
    """
    if isinstance(row, Mapping) and (whole := _key(row, path)) is not None:
        return row[whole]
    if "+" in path:
        parts = [value_at(row, part) for part in path.split("+")]
        is_all = all(isinstance(part, str) and part.strip() for part in parts)
        return "\n\n".join(parts) if is_all else None
    steps = list(_STEP.finditer(path))
    if "".join(step[0] for step in steps) != path:
        return None
    for step in steps:
        name, number = step.groups()
        if isinstance(row, str):
            row = _parsed(row)
        if name and isinstance(row, Mapping):
            key = _key(row, name)
            row = None if key is None else row[key]
        elif number and isinstance(row, list | tuple):
            at = int(number)
            row = row[at] if -len(row) <= at < len(row) else None
        else:
            return None
    return row


def _without(row: Mapping[str, Any], *paths: str) -> dict[str, Any]:
    """Return the fields of a row but those at the paths."""
    used = {_key(row, path) for path in paths}
    return {key: value for key, value in row.items() if key not in used}


def _parsed(text: str) -> Any:
    """Parse a text that holds a JSON object or list; return None for any other text."""
    try:
        return parse_json(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None


def _key(row: Mapping[str, Any], name: str) -> str | None:
    """Return the row's own spelling of a key: its case, spaces and hyphens do not matter."""

    def plain(key: str) -> str:
        return key.strip().lower().replace(" ", "_").replace("-", "_")

    if name in row:
        return name
    return next((key for key in row if plain(key) == plain(name)), None)


def _leaf_paths(row: Mapping[str, Any], prefix: str = "", depth: int = 2) -> Iterator[Any]:
    """Yield (path, value) of the fields, and in place of an object those inside it."""
    for key, value in row.items():
        inside = _parsed(value) if isinstance(value, str) and depth else value
        if isinstance(inside, dict) and inside and depth:
            yield from _leaf_paths(inside, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def gold_and_place(value: Any, rule: Rule = "text", field: str = "answer") -> tuple[str, str]:
    """Return the gold answer as text, and its place in the field, in words.

    Numbers are written plainly (27.0 is 27) and several joined by commas; a derivation is cut to
    what stands behind `####`, or in its last box. By the rules `hashes` and `boxed` that mark must
    be there, by `long` either in a long text. Raises BadRowError if there is no gold answer.
    """
    if isinstance(value, str) and value.lstrip().startswith('["'):  # as Skywork-OR1 writes it
        value = _parsed(value) or value
    if isinstance(value, list | tuple) and value and rule in ("text", "long"):
        return ", ".join(gold_and_place(part, rule, field)[0] for part in value), ""
    if isinstance(value, Decimal):
        value = f"{value:f}"
        value = value.rstrip("0").rstrip(".") if "." in value else value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRowError(f"field {field} is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRowError(f"field {field} is not a finite number")
        return _plain_number(value), ""
    text, place = restored_commands(str(value)).strip(), ""
    _, hashes, behind = text.rpartition("\n")[2].partition(_HASHES)
    if hashes and rule != "boxed":
        text, place = behind.strip(), f" behind {_HASHES}"
    elif rule == "hashes":
        raise BadRowError(f"field {field} has no {_HASHES} before the gold answer")
    elif "boxed" in text and (boxed := boxed_answer(text)) is not None:
        return boxed, "'s last box"
    elif rule == "boxed":
        raise BadRowError(f"field {field} has no box around the gold answer")
    elif rule == "long" and (len(text) > _BARE or "\n" in text):
        raise BadRowError(f"field {field} has no box and no {_HASHES} before the gold answer")
    if not text:
        raise BadRowError(f"field {field} is empty")
    if len(text) > LONGEST_ANSWER:
        raise BadRowError(f"field {field} is longer than {LONGEST_ANSWER} characters")
    return text, place


def _plain_number(value: float) -> str:
    """Write 27.0, which a column with a null makes of 27, as 27."""
    return str(int(value)) if value.is_integer() else repr(value)


def is_chat(value: Any) -> bool:
    """Return whether a value is a list of objects, as chats are."""
    return isinstance(value, list) and bool(value) and all(isinstance(t, dict) for t in value)


def stored_chat(value: Any) -> Any:
    """Return the chat that a text holds as JSON; any other value as it is."""
    chat: Any = _parsed(value) if isinstance(value, str) else None
    return chat if is_chat(chat) and {"role", "from"} & chat[0].keys() else value


def read_chat(value: list[dict[str, Any]], field: str) -> tuple[tuple[Turn, ...], str, str | None]:
    """Return the turns before the last user turn, its text, and an assistant's reply to it, if any.
    Raises BadRowError if the chat has a turn without role and text, or no user turn at its end."""
    turns = _turns(value, field)
    reply = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise BadRowError(f"field {field}: the chat has no user turn at its end")
    return tuple(turns[:-1]), turns[-1][1], reply


def lone_turn(value: Any, field: str) -> Any:
    """Return the text of a chat of one assistant turn, as TRL writes completions; any other value
    as it is. Raises BadRowError for a turn without role and text."""
    turns = _turns(value, field) if is_chat(value) and len(value) == 1 else []
    return turns[0][1] if turns and turns[0][0] == "assistant" else value


def _turns(value: list[dict[str, Any]], field: str) -> list[Turn]:
    """Return role and text of each turn. Raises BadRowError for a turn without them."""
    turns: list[Turn] = []
    for turn in value:
        role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            texts = [part.get("text") for part in content]
            content = "".join(map(str, texts)) if None not in texts else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError(f"field {field} has a turn without role and text")
        turns.append((_ROLES.get(role, role), content))
    return turns


def checked_text(text: Any, field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is no text, empty, or not Unicode."""
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text
