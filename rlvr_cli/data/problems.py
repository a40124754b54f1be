"""Load problem sets: a name in datasets_cfg, a file, a hub id or stdin, all to `Problem`s."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.logs import LOG
from rlvr_cli.core.text import DEEPEST, LONGEST_ANSWER, is_too_deep, shortened
from rlvr_cli.core.types import Problem
from rlvr_cli.data.sources import (
    DEFAULT_PROMPT,
    BadRowError,
    FieldName,
    Gold,
    SourceRow,
    bare_name,
    find_spec,
    source_rows,
)
from verifiers import Format, boxed_answer

T = TypeVar("T")
ALIASES: dict[FieldName, tuple[str, ...]] = {
    "problem": ("problem", "question", "prompt"),
    "answer": ("answer",),
    "id": ("id",),
}
_SHOWN_BAD_LINES = 5
_SHOWN_VALUES = 20
_MOST_ROWS = 10_000_000
_HASHES = "####"


@dataclass(frozen=True)
class ProblemSet:
    """Problems of one split, in their order."""

    name: str
    problems: tuple[Problem, ...]
    prompt: str
    """Name of the prompt template that fits the set."""
    answer_format: Format | None = None
    """How answers to that prompt are judged; none means as the template asks for them."""
    places: tuple[str, ...] = ()
    """Where each problem stands, as messages say it (`file:line`)."""


def load_problems(
    source: str,
    split: str,
    *,
    where: str | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    need_answer: bool = True,
    need_response: bool = False,
    root: str | None = None,
) -> ProblemSet:
    """Load the problems of a source; `root` is a directory of local copies of the hub's sets.

    With `need_response` a row is a problem and a response to it, among the problem's own fields.
    `where`, as `level=1,2`, takes those whose field has one of the values, before `limit`.
    Bad rows are reported on stderr with their line; they stop the load unless `skip_bad`.
    Raises UserError if the source cannot be found or read, holds no problem, or none with a value.
    """
    spec = find_spec(source)
    name = "stdin" if source == "-" else source
    fields = spec.fields if spec else None
    gold = spec.gold if spec else "text"
    places, prefix = [], bare_name(name)
    chosen = _Choice(where)

    def read(place: str, number: int, row: Any) -> Problem | None:
        problem = _problem(row, fields, gold, f"{prefix}-{number}", need_answer)
        if not chosen.takes(problem):
            return None
        if need_response:
            if problem.extra.get("response") is None:
                raise BadRowError("no field response, which --algo sft learns")
            checked_text(problem.extra, "response")
        places.append(place)
        return problem

    problems = tuple(read_rows(source_rows(source, split, root), read, limit, skip_bad))
    if len(problems) != limit:
        chosen.check(name)
    if not problems:
        raise UserError(f"{name}: no problems in it; one JSON object a line is expected")
    if spec is None:
        return ProblemSet(name, problems, DEFAULT_PROMPT, places=tuple(places))
    return ProblemSet(name, problems, spec.prompt, spec.answer_format, tuple(places))


class _Choice:
    """The problems whose field has one of some values; all of them if nothing is asked for."""

    def __init__(self, where: str | None) -> None:
        self.where = where
        self.field, equals, values = (part.strip() for part in (where or "").partition("="))
        self.wanted = {value.strip() for value in values.split(",")}
        self.seen: set[str] = set()
        if where is not None and not (self.field and equals and "" not in self.wanted):
            raise UserError(f"data.where {shortened(where)}: give FIELD=VALUE, such as level=1,2")

    def takes(self, problem: Problem) -> bool:
        """Return whether the problem is one of them."""
        if self.where is None:
            return True
        value = str(problem.extra.get(self.field))
        if self.field in problem.extra and (value in self.wanted or len(self.seen) < _SHOWN_VALUES):
            self.seen.add(value)
        return value in self.wanted

    def check(self, name: str) -> None:
        """Raise UserError for a value that no problem had."""
        if self.where is not None and (missing := self.wanted - self.seen):
            known = ", ".join(shortened(value) for value in sorted(self.seen - self.wanted))
            others = f"; others are {known}" if known else ""
            raise UserError(
                f"data.where: no problem of {name} has {shortened(self.field)} "
                f"{' or '.join(shortened(value) for value in sorted(missing))}{others}"
            )


class ProblemCursor:
    """A seeded order over `size` problems: every epoch a new shuffle, none repeated within one.

    `position` counts the draws so far and is the whole state.
    """

    def __init__(self, size: int, seed: int, position: int = 0) -> None:
        self.size, self.seed, self.position = size, seed, position
        self._epoch = -1
        self._order: list[int] = []

    def take(self, count: int) -> list[int]:
        """Return the indices of the next `count` problems."""
        indices = []
        for _ in range(count):
            epoch, offset = divmod(self.position, self.size)
            if epoch != self._epoch:
                self._epoch, self._order = epoch, list(range(self.size))
                random.Random(f"{self.seed}:{epoch}").shuffle(self._order)
            indices.append(self._order[offset])
            self.position += 1
        return indices

    def state_dict(self) -> dict[str, int]:
        """Return the number of draws so far."""
        return {"cursor": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the draws that `state_dict` returned."""
        self.position = state["cursor"]

    def put_back(self, count: int) -> None:
        """Undo the last `count` draws: they come again."""
        self.position -= count


def read_rows(
    rows: Iterable[SourceRow],
    read: Callable[[str, int, Any], T | None],
    limit: int | None,
    skip_bad: bool,
) -> Iterator[T]:
    """Apply `read` to rows up to the first `limit` good ones, without those it returns None for;
    bad ones (BadRowError) are counted.

    They are reported on stderr with their line and, unless skipped, raise UserError at the end.
    """
    shown: list[str] = []
    bad = count = 0
    for taken, (where, number, row) in enumerate(rows):
        if count == limit:
            break
        if taken == _MOST_ROWS:
            raise UserError(f"{where}: more than {_MOST_ROWS} rows; take the first with --limit")
        try:
            if isinstance(row, BadRowError):
                raise row
            if is_too_deep(row):
                raise BadRowError(f"nested more than {DEEPEST} levels deep")
            found = read(where, number, row)
        except BadRowError as reason:
            bad += 1
            if bad <= _SHOWN_BAD_LINES:
                shown.append(f"{where}: {reason}")
            continue
        if found is None:
            continue
        count += 1
        yield found
    if not bad:
        return
    if bad > len(shown):
        shown.append(f"… and {bad - len(shown)} more")
    if not skip_bad:
        found_bad = f"{bad} bad of {bad + count} lines"
        raise UserError("\n".join([*shown, f"{found_bad}; mend them, or go on with --skip-bad"]))
    LOG.warning("%s", "\n".join([*shown, f"bad lines skipped: {bad}"]))


def _problem(
    row: Any, fields: dict[FieldName, str] | None, gold: Gold, default_id: str, need_answer: bool
) -> Problem:
    if not isinstance(row, dict):
        raise BadRowError("not a JSON object")
    keys = {}
    for field, aliases in ALIASES.items():
        names = (fields[field],) if fields and field in fields else aliases
        keys[field] = next((name for name in names if row.get(name) is not None), None)
    if keys["problem"] is None:
        wanted = (fields or {}).get("problem", "problem (or question, prompt)")
        raise BadRowError(f"no field {wanted}")
    text = checked_text(row, keys["problem"])
    answer = gold_answer(row[keys["answer"]], gold) if keys["answer"] else None
    if need_answer and answer is None:
        wanted = (fields or {}).get("answer", "answer")
        raise BadRowError(f"no field {wanted}, which holds the gold answer")
    identity = row[keys["id"]] if keys["id"] else default_id
    extra = {key: value for key, value in row.items() if key not in keys.values()}
    return Problem(str(identity), text, answer, extra)


def checked_text(row: dict[str, Any], field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is no text, empty, or not Unicode."""
    text = row[field]
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text


def gold_answer(value: Any, rule: Gold = "text") -> str:
    """Return the gold answer as text: numbers plainly (27.0 is 27), several joined by commas,
    GSM8K's reasoning cut at `####`, a solution's at its last box. Raises BadRowError if there is
    none."""
    if isinstance(value, list | tuple) and value and rule == "text":
        return ", ".join(gold_answer(part) for part in value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRowError("field answer is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRowError("field answer is not a finite number")
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(value).strip()
    if rule == "boxed":
        boxed = boxed_answer(text)
        if boxed is None:
            raise BadRowError("the solution has no box that holds the gold answer")
        return boxed
    _, hashes, behind = text.rpartition("\n")[2].partition(_HASHES)
    if hashes:
        text = behind.strip()
    elif rule == "hashes":
        raise BadRowError(f"field answer has no {_HASHES} before the gold answer")
    if not text:
        raise BadRowError("field answer is empty")
    if len(text) > LONGEST_ANSWER:
        raise BadRowError(f"field answer is longer than {LONGEST_ANSWER} characters")
    return text
