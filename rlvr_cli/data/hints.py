"""Name the field that may hold what a row lacks, after it was tried on the rows."""

import re
from collections.abc import Callable, Mapping, Sequence

from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.data.golds import gold_and_place, no_answer
from rlvr_cli.data.paths import BadRowError, Leaf, row_leaves, value_at
from verifiers.names import ANSWERS, RESPONSES

_NO_NAME = "NAME"
_SHOWN = 12
"""Field names in a message at most."""
_MOST_TRIED = 50
"""Rows on which a name is tried."""
_FEWEST_DIFFERENT = 0.5
"""Share of the rows whose texts differ, in a field of problems."""
_SIMILAR: dict[FieldName, tuple[re.Pattern[str], ...]] = {
    "problem": (
        re.compile(r"question|problem|query|prompt|instruct|input|stem|task|text", re.IGNORECASE),
        re.compile(""),
    ),
    "answer": (
        re.compile(r"answer|truth|gold|target|solution|label|result|final", re.IGNORECASE),
        re.compile(r"respon|complet|output", re.IGNORECASE),
    ),
    "response": (re.compile(r"respon|output|complet|generat|predict|text", re.IGNORECASE),),
    "id": (re.compile(r"id$|key|index", re.IGNORECASE),),
}
"""Patterns of names that a field may have, the most likely first."""
_POSITION = re.compile(r"(^|[_.])(index|idx|position|id)$", re.IGNORECASE)
"""Names of positions and keys, which hold no text of a problem."""


class MissingFieldError(BadRowError):
    """A row lacks a field. What might do is known only after other rows were read."""

    def __init__(self, text: str, advice: Callable[[], str] = str) -> None:
        super().__init__(text)
        self.advice = advice

    def __str__(self) -> str:
        return f"{super().__str__()}{self.advice()}"


class Hints:
    """Names for the fields that rows lack. `known` are the names that are tried anyway."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._rows: dict[FieldName, list[Mapping[str, object]]] = {}

    def listing(self, row: Mapping[str, object]) -> str:
        """Write which fields a row has."""
        names = [shortened(leaf.path) for leaf in row_leaves(row)]
        listing = f"it has {', '.join(names[:_SHOWN]) or 'no fields'}"
        return listing + " …" if len(names) > _SHOWN else listing

    def add(self, field: FieldName, row: Mapping[str, object]) -> None:
        """Keep a row that lacks a field, for names to be tried on."""
        rows = self._rows.setdefault(field, [])
        if len(rows) < _MOST_TRIED:
            rows.append(row)

    def name_of(self, field: FieldName, has_responses: bool) -> str:
        """Return the path of a field that may be this one in all rows that lack it. Return NAME if
        no field may be it."""
        rows = self._rows[field]
        known = self._known
        if field == "response":
            known = known - set(ANSWERS)
        elif field == "answer" and not has_responses:
            known = known - set(RESPONSES)
        patterns = _SIMILAR[field][:1] if has_responses else _SIMILAR[field]
        fields = list(row_leaves(rows[0]))
        if field == "problem" and len(rows) == 1:  # without others to differ from
            fields.sort(key=lambda leaf: len(str(leaf.value)), reverse=True)
        for pattern in patterns:
            for leaf in fields:
                is_position = field != "id" and _POSITION.search(leaf.path)
                if leaf.path.lower() in known or is_position or not pattern.search(leaf.path):
                    continue
                if self._does(field, leaf, rows):
                    return shortened(leaf.path)
        return _NO_NAME

    def _does(self, field: FieldName, leaf: Leaf, rows: Sequence[Mapping[str, object]]) -> bool:
        """Return whether the values at a path are texts that differ, or gold answers."""
        values = [value_at(row, leaf.path) for row in rows]
        if field == "answer":
            return all(_is_gold(value) for value in values)
        if field == "problem":
            texts = {value for value in values if isinstance(value, str) and value.strip()}
            is_text = all(isinstance(value, str) for value in values)
            fewest = max(min(2, len(values)), _FEWEST_DIFFERENT * len(values))
            return is_text and len(texts) >= fewest
        return all(isinstance(value, str | int | float | list) for value in values)


def _is_gold(value: object) -> bool:
    """Return whether a value is a gold answer that the verifier can read, and not a list."""
    from verifiers import gold_value

    if value is None or no_answer(value) or (isinstance(value, list) and len(value) != 1):
        return False
    try:
        answer, _ = gold_and_place(value, "value")
    except BadRowError:
        return False
    return gold_value(answer) is not None
