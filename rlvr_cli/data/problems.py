"""Load problem sets: a name in datasets_cfg, a file, a hub id or stdin, all to `Problem`s."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rlvr_cli.config.sections import DataConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import DEEPEST, is_too_deep, numbers_first, shortened
from rlvr_cli.core.types import FieldName, Problem
from rlvr_cli.data.fields import BadRowError, FieldReader
from rlvr_cli.data.sources import (
    DEFAULT_PROMPT,
    ProblemSetSpec,
    SourceRow,
    bare_name,
    find_spec,
    source_rows,
)
from verifiers import Format

T = TypeVar("T")
_SHOWN_BAD_LINES = 5
_SHOWN_VALUES = 20
_MOST_ROWS = 10_000_000
_WOKEN_SHARE = 0.1
"""The share of resting problems that is drawn all the same: each is seen every tenth pass on
average, however long it rests, and nine tenths of what resting saves is still saved."""
_LONGEST_REST = 64
"""Passes, within which a problem is drawn all the same but for one in a thousand (0.9^64)."""
_AS_IT_STANDS = "plain"
"""The template of problems that are whole prompts already."""


@dataclass(frozen=True)
class ProblemSet:
    """Problems of one split, in their order."""

    name: str
    problems: tuple[Problem, ...]
    prompt: str
    """Name of the prompt template that fits the set."""
    answer_format: Format | None = None
    """The form by which answers are judged; none: the form that the template asks for."""
    places: tuple[str, ...] = ()
    """The place of each problem, as messages name it (`file:line`)."""
    taken: str = ""
    """The fields that were read, in words."""


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
    fields: Mapping[FieldName, str] | None = None,
    prefix: str | None = None,
) -> ProblemSet:
    """Load the problems of a source. `root` is a directory of local copies of the hub's sets,
    `fields` names the fields, `prefix` begins the ids of problems that have none.

    `where`, such as `level=1,2`, keeps the problems whose field has one of the values, and `limit`
    the first of those. With `need_response` each row's response goes into `extra`. Bad rows are
    reported on stderr with their line; they stop the load unless `skip_bad`. Raises UserError if
    the source cannot be found or read, has no problem, or none with one of the values.
    """
    spec = find_spec(source) or ProblemSetSpec.model_construct(source=source)
    name = "stdin" if source == "-" else source
    reader = FieldReader(spec.fields, fields, spec.gold)
    places, prefix = [], prefix or bare_name(name)
    field, _, values = (where or "").partition("=")
    field, wanted = field.strip(), {value.strip() for value in values.split(",")}
    if where is not None and (not field or "" in wanted):
        raise UserError(f"data.where {shortened(where)}: give FIELD=VALUE, such as level=1,2")
    seen: set[str] = set()

    def read(place: str, number: int, row: Any) -> Problem | None:
        problem = reader.problem(row, f"{prefix}-{number}", need_answer, need_response)
        value = str(problem.extra.get(field, ""))
        if value in wanted or len(seen) < _SHOWN_VALUES:
            seen.add(value)
        if where is not None and value not in wanted:
            return None
        places.append(place)
        return problem

    problems = tuple(read_rows(source_rows(source, split, root), read, limit, skip_bad))
    missing = wanted - seen if where is not None and len(problems) != limit else set()
    if missing:
        rest = sorted(seen - wanted - {""}, key=numbers_first)
        others = f"; others are {', '.join(map(shortened, rest))}" if rest else ""
        names = " or ".join(map(shortened, sorted(missing)))
        raise UserError(f"data.where: no problem of {name} has {shortened(field)} {names}{others}")
    if not problems:
        raise UserError(f"{name}: no problems in it; one JSON object a line is expected")
    taken = "" if spec.sizes else reader.describe_taken()  # a procedure leaves no choice of fields
    how = (_AS_IT_STANDS, None) if reader.has_chats else (spec.prompt, spec.answer_format)
    return ProblemSet(name, problems, *how, tuple(places), taken)


def load_all(sources: Sequence[str], split: str, data: DataConfig, **more: Any) -> ProblemSet:
    """Load several sources as one problem set, with the settings of `data`; `more` replaces or adds
    arguments of `load_problems`. Raises UserError as that does, and if two sources share an id."""
    names = [Path(source).name for source in sources]
    given = data.model_dump(include={"where", "limit", "root", "skip_bad", "fields"}) | more
    return joined(
        [
            load_problems(source, split, prefix=source if names.count(name) > 1 else None, **given)
            for source, name in zip(sources, names, strict=True)
        ]
    )


def joined(parts: Sequence[ProblemSet]) -> ProblemSet:
    """Join several problem sets. Where their templates differ, that of the whole is `plain` if any
    set's is, else the default. Raises UserError if two sets share an id."""
    if len(parts) == 1:
        return parts[0]
    owners: dict[str, tuple[ProblemSet, str]] = {}
    for part in parts:
        places = part.places or (part.name,) * len(part.problems)
        for problem, place in zip(part.problems, places, strict=True):
            owner, before = owners.setdefault(problem.id, (part, place))
            if owner is not part:
                raise UserError(
                    f"{place}: the id {shortened(problem.id)} is that of another problem "
                    f"({before}); every problem needs an id of its own, or --field id=NAME"
                )
    prompts = {(part.prompt, part.answer_format) for part in parts}
    prompt, answer_format = (DEFAULT_PROMPT, None)
    if len(prompts) == 1:
        prompt, answer_format = prompts.pop()
    elif (_AS_IT_STANDS, None) in prompts:
        prompt = _AS_IT_STANDS
    return ProblemSet(
        ", ".join(part.name for part in parts),
        tuple(problem for part in parts for problem in part.problems),
        prompt,
        answer_format,
        tuple(place for part in parts for place in part.places),
        "; ".join(f"{part.name}: {part.taken}" for part in parts if part.taken),
    )


class ProblemOrder:
    """The seeded order in which problems are drawn, a new shuffle for every pass over the data, and
    with `rests` the history by which some are passed over.

    A problem whose group was all alike is likely to be so again: it rests for one pass, and for
    twice as many each time that its group is alike again. After GRESO, Zheng et al. 2025,
    arXiv:2506.02177, which draws such problems with a falling probability.
    """

    def __init__(self, size: int, seed: int, rests: bool = False) -> None:
        self.size, self.seed, self.rests = size, seed, rests
        self.cursor = 0
        """The number of places in the order so far, with those that were passed over."""
        self.resting: dict[int, tuple[int, int]] = {}
        """The problems whose newest group was alike, each with the passes of its rest and the first
        pass in which it is drawn again."""

    def draw(self, count: int) -> list[tuple[int, int]]:
        """Return the next draws, each (place, problem); without rests none is twice in a pass."""
        draws: list[tuple[int, int]] = []
        while len(draws) < count:
            epoch, position = divmod(self.cursor, self.size)
            problem = _shuffled(self.size, self.seed, epoch)[position]
            is_woken = random.Random(f"{self.seed}:rest:{self.cursor}").random() < _WOKEN_SHARE
            if is_woken or epoch >= self.resting.get(problem, (0, 0))[1]:
                draws.append((self.cursor, problem))
            self.cursor += 1
        return draws

    def note(self, draws: Sequence[tuple[int, int]], are_alike: Sequence[bool]) -> None:
        """Let the drawn problems rest whose groups were alike; others rest no more."""
        for (place, problem), is_alike in zip(draws, are_alike, strict=True):
            passes, _ = self.resting.pop(problem, (0, 0))
            if is_alike and self.rests:
                passes = min(max(1, 2 * passes), _LONGEST_REST)
                self.resting[problem] = passes, place // self.size + 1 + passes


@lru_cache(2)
def _shuffled(size: int, seed: int, epoch: int) -> list[int]:
    order = list(range(size))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return order


def read_rows(
    rows: Iterable[SourceRow],
    read: Callable[[str, int, Any], T | None],
    limit: int | None,
    skip_bad: bool,
) -> Iterator[T]:
    """Yield what `read` returns of the rows, up to `limit` values, without None.

    Rows for which it raises BadRowError are reported on stderr with their line and, unless
    `skip_bad`, raise UserError at the end.
    """
    shown: list[str] = []
    bad = count = 0
    for rows_before, (where, number, row) in enumerate(rows):
        if count == limit:
            break
        if rows_before == _MOST_ROWS:
            raise UserError(f"{where}: more than {_MOST_ROWS} rows; take the first with --limit")
        try:
            if isinstance(row, BadRowError):
                raise row
            if is_too_deep(row):
                raise BadRowError(f"nested more than {DEEPEST} levels deep")
            value = read(where, number, row)
        except BadRowError as reason:
            bad += 1
            if bad <= _SHOWN_BAD_LINES:
                shown.append(f"{where}: {reason}")
            continue
        if value is not None:
            count += 1
            yield value
    if not bad:
        return
    if bad > len(shown):
        shown.append(f"… and {bad - len(shown)} more")
    if not skip_bad:
        bad_lines = f"{bad} bad of {bad + count} lines"
        raise UserError("\n".join([*shown, f"{bad_lines}; mend them, or go on with --skip-bad"]))
    LOG.warning("%s", "\n".join([*shown, f"bad lines skipped: {bad}"]))
