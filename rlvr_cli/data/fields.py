"""Find problem, gold answer and id in a row, whatever its fields are called."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import FieldName, Problem, Turn
from rlvr_cli.data.files import BadRowError
from rlvr_cli.data.golds import HASHES, Gold, Rule, gold_and_place

ALIASES: dict[FieldName, tuple[str, ...]] = {
    "problem": (
        *("problem", "question", "prompt", "instruction+input", "instruction", "input"),
        "messages",
    ),
    "answer": (
        *("answer", "solution", "ground_truth", "target", "gold", "final_answer", "output"),
        *("expected_answer", "reward_model.ground_truth", "verification_info.ground_truth"),
    ),
    "id": ("id",),
}
"""The paths at which a field is looked for, in this order."""
_LONG_FORM = {"solution", "output", "messages"}
"""What may be a whole derivation: its gold answer stands in a box or behind `####`, or it is no
longer than one short line."""
_NO_ANSWERS = {"", "notfound", "proof"}
"""What sets such as NuminaMath-1.5 write where there is no answer."""
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d{1,9})\]")
_ROLES = {"human": "user", "gpt": "assistant", "developer": "system"}
_RESPONSES = {"response", "responses"}
_SHOWN = 12
_ANSWER_LIKE = re.compile(r"answer|truth|gold|target|solution|label|result|final", re.IGNORECASE)


class FieldReader:
    """Reads rows as problems, and counts where each field was taken from.

    `paths` are a problem set's own, tried before `ALIASES`, `gold` its rule for them; `given` are
    the user's, which hold alone. Once a gold answer stood behind `####`, its field is taken for one
    of derivations in the rows after it.
    """

    def __init__(
        self,
        paths: Mapping[FieldName, str] | None = None,
        given: Mapping[FieldName, str] | None = None,
        gold: Gold | None = None,
    ) -> None:
        self.paths = {
            field: (given[field],)
            if given and field in given
            else (*([paths[field]] if paths and field in paths else []), *aliases)
            for field, aliases in ALIASES.items()
        }
        self.given = given or {}
        self._rules: dict[str, Rule] = dict.fromkeys(_LONG_FORM, "long")
        if gold is not None and paths and "answer" in paths:
            self._rules[paths["answer"]] = gold
        if "answer" in self.given:
            self._rules[self.given["answer"]] = "text"
        self.taken: dict[FieldName, Counter[str]] = {field: Counter() for field in ALIASES}
        self.has_chats = False
        """Whether a problem was a chat, which is a whole prompt already."""

    def problem(
        self, row: Any, default_id: str, need_answer: bool = True, need_response: bool = False
    ) -> Problem:
        """Return the row as a problem, if asked with a response to it, which is the field of that
        name or the chat's last assistant turn. Raises BadRowError."""
        if not isinstance(row, dict):
            raise BadRowError("not a JSON object")
        path, value = self._first(row, "problem")
        if value is None:
            raise BadRowError(self._missing(row, "problem", path))
        turns, text, spoken = _chat(value, path) if _is_chat(value) else ((), value, None)
        text = checked_text(text, path)
        answer, source = self._answer(row, spoken, path, need_answer)
        id_path, identity = self._first(row, "id")
        self.has_chats |= _is_chat(value)
        used = {_key(row, part) for part in (*path.split("+"), source or path, id_path)}
        self.taken["problem"][f"{path}'s last user turn" if _is_chat(value) else path] += 1
        extra = {key: value for key, value in row.items() if key not in used}
        if need_response:
            response = next((v for k, v in extra.items() if _plain(k) == "response"), spoken)
            if response is None:
                raise BadRowError("no field response, which --algo sft learns")
            extra["response"] = checked_text(response, "response")
        if isinstance(identity, dict | list) or identity is None:
            identity = default_id
        return Problem(str(identity), text, answer, extra, turns)

    def answer(self, row: Mapping[str, Any]) -> str:
        """Return the gold answer of a row. Raises BadRowError if there is none."""
        found, _ = self._answer(row, None, "", True)
        assert found is not None
        return found

    def said(self) -> str:
        """Say where problem and answer were taken from: `problem from question, answer from …`."""
        parts = []
        for field in ("problem", "answer"):
            found = self.taken[field].most_common()
            counts = [f"{name} ({count})" if len(found) > 1 else name for name, count in found]
            if counts:
                parts.append(f"{field} from {', '.join(counts)}")
        return ", ".join(parts)

    def _first(self, row: Mapping[str, Any], field: FieldName) -> tuple[str, Any]:
        """Return the first path of a field that the row has, and its value; the last path and None
        if there is none. An empty text counts where nothing else is there."""
        empty = None
        for path in self.paths[field]:
            value = value_at(row, path)
            if isinstance(value, str) and not value.strip():
                empty = empty or (path, value)
            elif value is not None:
                return path, value
        return empty or (self.paths[field][-1], None)

    def _answer(
        self, row: Mapping[str, Any], spoken: str | None, chat: str, need_answer: bool
    ) -> tuple[str | None, str | None]:
        """Return the gold answer and its path; a chat's last assistant turn is the last resort."""
        reason: str | None = None
        found = ((path, value_at(row, path)) for path in self.paths["answer"])
        said: list[tuple[str, Any]] = (
            [(chat, spoken)] if spoken and "answer" not in self.given else []
        )
        for path, value in (*found, *said):
            if value is None:
                continue
            if isinstance(value, str) and value.strip() in _NO_ANSWERS:
                reason = reason or f"field {path} is {value.strip() or 'empty'}"
                continue
            rule = "long" if path == chat else self._rules.get(path, "text")
            try:
                answer, place = gold_and_place(value, rule, path)
            except BadRowError as error:
                if rule == "text":
                    raise
                reason = reason or str(error)
                continue
            if HASHES in place:
                self._rules.setdefault(path, "long")
            self.taken["answer"][f"{path}{place}"] += 1
            return answer, path
        if not need_answer:
            return None, None
        raise BadRowError(reason or self._missing(row, "answer", self.paths["answer"][-1]))

    def _missing(self, row: Mapping[str, Any], field: FieldName, path: str) -> str:
        """Say that a field is not there, what is, and the --field that would do."""
        there = list(_leaf_paths(row))
        names = [shortened(name) for name, _ in there[:_SHOWN]]
        has = f"it has {', '.join(names) or 'no fields'}{' …' if len(there) > _SHOWN else ''}"
        if field in self.given:
            return f"no {path}, which --field {field} names; {has}"
        listed = {one for paths in self.paths.values() for one in paths} | _RESPONSES
        free = [name for name, value in there if name.lower() not in listed and _is_value(value)]
        likely = [name for name in free if field == "answer" and _ANSWER_LIKE.search(name)]
        best = shortened((likely or (free if field == "problem" else []) or ["NAME"])[0])
        if known := self.taken[field].most_common(1):
            has += f" (rows before it: {field} from {known[0][0]})"
        return f"no field {field}; {has}: name the one that holds it, --field {field}={best}"


def value_at(row: Any, path: str) -> Any:
    """Return what stands at a path such as `a.b[0].c`, in any case; None if nothing does.

    A text that holds JSON is read on the way. `a+b` are two texts, one after the other.
    """
    if isinstance(row, Mapping) and (whole := _key(row, path)) is not None:
        return row[whole]
    if "+" in path:
        parts = [value_at(row, part) for part in path.split("+")]
        is_all = all(isinstance(part, str) and part.strip() for part in parts)
        return "\n\n".join(parts) if is_all else None
    inside, at = row, 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        at = step.end()
        if isinstance(inside, str):
            inside = _parsed(inside)
        if isinstance(inside, Mapping) and step[1]:
            key = _key(inside, step[1])
            inside = None if key is None else inside[key]
        elif isinstance(inside, Sequence) and not isinstance(inside, str) and step[2]:
            number = int(step[2])
            inside = inside[number] if -len(inside) <= number < len(inside) else None
        else:
            return None
    return inside


def _parsed(text: str) -> Any:
    try:
        return parse_json(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None


def _key(row: Mapping[str, Any], name: str) -> str | None:
    """Return the row's own spelling of a key: its case, spaces and hyphens do not matter."""
    if name in row:
        return name
    plain = _plain(name)
    return next((key for key in row if _plain(key) == plain), None)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _leaf_paths(
    row: Mapping[str, Any], prefix: str = "", deep: int = 2
) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        inside = _parsed(value) if isinstance(value, str) and deep else value
        if isinstance(inside, dict) and inside and deep:
            yield from _leaf_paths(inside, f"{prefix}{key}.", deep - 1)
        else:
            yield f"{prefix}{key}", value


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float | list) and not isinstance(value, bool)


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _chat(value: list[dict[str, Any]], field: str) -> tuple[tuple[Turn, ...], str, str | None]:
    """Return the turns before the last user turn, its text, and what an assistant says after it.

    Raises BadRowError for a chat that is not of texts by role, or has no user turn at its end.
    """
    turns = []
    for turn in value:
        role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            texts = [part.get("text") for part in content]
            content = "".join(map(str, texts)) if None not in texts else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError(f"field {field} has a turn without role and text")
        turns.append((_ROLES.get(role, role), content))
    spoken = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise BadRowError(f"field {field}: the chat has no user turn at its end")
    return tuple(turns[:-1]), turns[-1][1], spoken


def checked_text(text: Any, field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is no text, empty, or not Unicode."""
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text
