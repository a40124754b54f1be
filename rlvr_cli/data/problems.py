"""Load problems from a set in datasets_cfg, a file, the hub or stdin."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlvr_cli.config.sections import DataConfig
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import DEEPEST, is_too_deep, numbers_first, plural, shortened
from rlvr_cli.core.types import FieldName, Problem
from rlvr_cli.data.fields import Draft, FieldReader
from rlvr_cli.data.paths import BadRowError
from rlvr_cli.data.sources import (
    DEFAULT_PROMPT,
    ProblemSetSpec,
    SourceRow,
    bare_name,
    find_spec,
    source_rows,
)
from verifiers import Format

if TYPE_CHECKING:
    from verifiers import Verifier

T = TypeVar("T")
Draw = tuple[int, int]
"""A place in the order of problems, and the problem there."""
_SHOWN_BAD_GOLDS = 5
_SHOWN_REASONS = 5
"""Different reasons for bad rows in a message at most."""
_SHOWN_VALUES = 20
_SHORT = 60
"""Characters of the name of a problem, or of a gold answer that cannot be read, in a message."""
_SHOWN_GOLD = 40
"""Characters of a gold answer in a message."""
_MOST_ROWS = 10_000_000
_WOKEN_SHARE = 0.1
"""The share of resting problems that is drawn anyway: each is seen every tenth pass on average,
however long it rests, and resting still saves nine tenths of them."""
_LONGEST_REST = 64
"""Passes of a rest at most. All but one problem in a thousand (0.9^64) are drawn earlier."""
_MUCH_OF_A_LETTER = 0.4
"""Share of the problems whose right option may have the same letter. Of four it is 0.25."""
_FEWEST_LETTERS = 5
"""Problems below which such a share says nothing."""
_BARE_TEMPLATE = "plain"
"""The template of problems that are whole prompts already."""


@dataclass(frozen=True)
class ProblemSet:
    """Problems of one split, in their order."""

    name: str
    problems: tuple[Problem, ...]
    prompt: str
    """Name of the prompt template that fits the set."""
    answer_format: Format | None = None
    """The form by which answers are judged. None means the form that the template asks for."""
    fields_read: str = ""
    """The fields that were read, in words."""
    other_ids: Mapping[str, str] = field(default_factory=dict)
    """The id of a problem by what else names it."""

    @property
    def has_texts(self) -> bool:
        """Return whether the texts of the problems are known, and not their gold answers alone."""
        return any(problem.problem for problem in self.problems)

    @property
    def places(self) -> tuple[str, ...]:
        """Return the place of each problem, as messages name it (`file:line`)."""
        return tuple(problem.place for problem in self.problems)


def load_problems(
    source: str,
    split: str,
    *,
    where: str | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    need_answer: bool = True,
    need_response: bool = False,
    is_verified: bool = True,
    root: str | None = None,
    fields: Mapping[FieldName, str] | None = None,
    prefix: str | None = None,
    rows: Iterable[object] | None = None,
) -> ProblemSet:
    """Load the problems of a source.

    `where`, such as `level=1,2`, keeps the problems whose field has one of the values, and `limit`
    the first of those. `root` is a directory of local copies of the hub's sets, `fields` has the
    user's paths of the fields, and `prefix` begins the ids of problems without an id. `rows`
    take the place of stdin. With `need_response` each row's response goes into `extra`. With
    `is_verified` the verifier judges by the gold answers, so they are read as values.

    Bad rows are reported on stderr with their line, and they stop the load unless `skip_bad`.
    Raises UserError if the source cannot be found or read, has no problem, or no problem with one
    of the values.
    """
    spec = find_spec(source) or ProblemSetSpec.model_construct(source=source)
    name = "stdin" if source == "-" else source
    prefix = prefix or bare_name(name)
    set_paths: dict[str, tuple[str, ...]] = {
        field: (path,) for field, path in (spec.fields or {}).items()
    }
    reader = FieldReader(set_paths, user_paths=fields, gold=spec.gold, is_verified=is_verified)
    field, _, values_text = (where or "").partition("=")
    field = field.strip()
    wanted = {value.strip() for value in values_text.split(",")}
    if where is not None and (not field or "" in wanted):
        raise UserError(f"data.where {shortened(where)}: give FIELD=VALUE, such as level=1,2")
    present: set[str] = set()  # values of the field: the wanted ones, and others for a message

    def read(place: str, number: int, row: object) -> Draft | None:
        draft = reader.draft(row, f"{prefix}-{number}", need_answer, need_response, place)
        value = str(draft.problem.extra.get(field, ""))
        if value in wanted or len(present) < _SHOWN_VALUES:
            present.add(value)
        if where is not None and value not in wanted:
            return None
        return draft

    drafts = list(read_rows(source_rows(source, split, root, rows), read, limit, skip_bad))
    problems = tuple(reader.problems_of(drafts))
    if where is not None and len(problems) != limit and not wanted <= present:
        missing = " or ".join(map(shortened, sorted(wanted - present)))
        text = f"data.where: no problem of {name} has {shortened(field)} {missing}"
        others = sorted(present - wanted - {""}, key=numbers_first)
        if others:
            text += f"; others are {', '.join(map(shortened, others))}"
        raise UserError(text)
    if not problems:
        raise UserError(f"{name}: no problems in it; one JSON object a line is expected")
    _warn_of_letters(name, drafts, problems)
    # The rows of a procedure have no other fields.
    fields_read = (
        "" if spec.sizes else reader.describe_sources() + _turns_in_words(drafts, problems)
    )
    return ProblemSet(
        name,
        problems,
        prompt=_BARE_TEMPLATE if reader.has_chats else spec.prompt,
        answer_format=None if reader.has_chats else spec.answer_format,
        fields_read=fields_read,
    )


def _warn_of_letters(name: str, drafts: Sequence[Draft], problems: Sequence[Problem]) -> None:
    """Warn of a letter that is right so often that a policy may learn it alone."""
    letters = Counter(
        problem.answer
        for draft, problem in zip(drafts, problems, strict=True)
        if draft.options is not None and len(draft.options.texts) > 2 and problem.answer
    )
    for letter, count in letters.most_common(1):
        if letters.total() >= _FEWEST_LETTERS and count > _MUCH_OF_A_LETTER * letters.total():
            LOG.warning(
                "%s: the right option is %s in %s of %s: a policy may learn the letter alone",
                name,
                letter,
                count,
                plural(letters.total(), "problem"),
            )


def _turns_in_words(drafts: Sequence[Draft], problems: Sequence[Problem]) -> str:
    """Say what became of the assistant's turns at the end of chats."""
    openings = Counter(problem.opening for problem in problems if problem.opening)
    text = ""
    for opening, count in openings.most_common():
        text += f"; {count} responses go on from {shortened(opening)!r}"
    left_out = sum(draft.reply is not None for draft in drafts) - openings.total()
    if left_out:
        text += f"; {plural(left_out, 'last turn')} of the assistant left out"
    return text


def load_all(sources: Sequence[str], split: str, data: DataConfig, **arguments: Any) -> ProblemSet:
    """Load several sources as one problem set, with the settings of `data`.

    The `arguments` of `load_problems` replace settings. Raises UserError as `load_problems` does,
    and if two sources share an id.
    """
    settings = data.model_dump(include={"where", "limit", "root", "skip_bad", "fields"})
    names = [Path(source).name for source in sources]
    parts = []
    for source, name in zip(sources, names, strict=True):
        prefix = source if names.count(name) > 1 else None  # files of the same name
        parts.append(load_problems(source, split, prefix=prefix, **{**settings, **arguments}))
    return joined(parts)


def joined(parts: Sequence[ProblemSet]) -> ProblemSet:
    """Join several problem sets. Raises UserError if two sets share an id.

    If their templates differ, the template of the whole is `plain` if any set has it, and otherwise
    the default.
    """
    if len(parts) == 1:
        return parts[0]
    owners: dict[str, tuple[ProblemSet, str]] = {}
    for part in parts:
        for problem in part.problems:
            place = problem.place or part.name
            owner, first_place = owners.setdefault(problem.id, (part, place))
            if owner is not part:
                raise UserError(
                    f"{place}: the id {shortened(problem.id)} is that of another problem "
                    f"({first_place}); every problem needs an id of its own, or --field id=NAME"
                )
    templates = {(part.prompt, part.answer_format) for part in parts}
    prompt = DEFAULT_PROMPT
    answer_format = None
    if len(templates) == 1:
        prompt, answer_format = templates.pop()
    elif (_BARE_TEMPLATE, None) in templates:
        prompt = _BARE_TEMPLATE
    return ProblemSet(
        ", ".join(part.name for part in parts),
        tuple(problem for part in parts for problem in part.problems),
        prompt,
        answer_format,
        fields_read="; ".join(
            f"{part.name}: {part.fields_read}" for part in parts if part.fields_read
        ),
    )


class ProblemOrder:
    """The seeded order in which problems are drawn, with a new shuffle for every pass.

    With `rests`, a problem whose responses were all equal is likely to be so again. It rests for
    one pass, and for twice as many each time that it happens again. After GRESO, Zheng et al. 2025,
    arXiv:2506.02177, which draws such problems with a falling probability.
    """

    def __init__(self, size: int, seed: int, rests: bool = False) -> None:
        self.size, self.seed, self.rests = size, seed, rests
        self.cursor = 0
        """The number of places in the order so far, with those that were skipped."""
        self.rested = 0
        """The number of problems that this process passed over."""
        self.resting: dict[int, tuple[int, int]] = {}
        """The problems that rest: the passes of each rest, and the first pass after it."""

    def draw(self, count: int) -> list[Draw]:
        """Return the next draws, each (place, problem). Without rests a pass has every problem
        once."""
        draws: list[Draw] = []
        while len(draws) < count:
            epoch, position = divmod(self.cursor, self.size)
            problem = _shuffled(self.size, self.seed, epoch)[position]
            is_woken = random.Random(f"{self.seed}:rest:{self.cursor}").random() < _WOKEN_SHARE
            if is_woken or epoch >= self.resting.get(problem, (0, 0))[1]:
                draws.append((self.cursor, problem))
            else:
                self.rested += 1
            self.cursor += 1
        return draws

    def note(self, draws: Sequence[Draw], are_equal: Sequence[bool]) -> None:
        """Let the drawn problems rest whose responses were all equal. The rest of others ends."""
        for (place, problem), is_equal in zip(draws, are_equal, strict=True):
            passes, _ = self.resting.pop(problem, (0, 0))
            if is_equal and self.rests:
                passes = min(max(1, 2 * passes), _LONGEST_REST)
                self.resting[problem] = passes, place // self.size + 1 + passes


@lru_cache(2)
def _shuffled(size: int, seed: int, epoch: int) -> list[int]:
    order = list(range(size))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return order


@dataclass
class _BadRows:
    """Rows that are bad for one reason: the place of the first one, and how many there are."""

    place: str
    reason: BadRowError
    count: int = 1

    def __str__(self) -> str:
        text = f"{self.place}: {self.reason}"
        if self.count > 1:
            text += f" (and {self.count - 1} more for this reason)"
        return text


def read_rows(
    rows: Iterable[SourceRow],
    read: Callable[[str, int, object], T | None],
    limit: int | None,
    skip_bad: bool,
) -> Iterator[T]:
    """Yield what `read` returns for the rows, without None, until there are `limit` values.

    Rows for which it raises BadRowError are reported on stderr, each reason once with its first
    line. Unless `skip_bad`, they raise UserError at the end.
    """
    by_kind: dict[str, _BadRows] = {}
    bad = 0
    count = 0
    for rows_before, (place, number, row) in enumerate(rows):
        if count == limit:
            break
        if rows_before == _MOST_ROWS:
            raise UserError(f"{place}: more than {_MOST_ROWS} rows; take the first with --limit")
        try:
            if isinstance(row, BadRowError):
                raise row
            if is_too_deep(row):
                raise BadRowError(f"nested more than {DEEPEST} levels deep")
            value = read(place, number, row)
        except BadRowError as reason:
            bad += 1
            if reason.kind in by_kind:
                by_kind[reason.kind].count += 1
            elif len(by_kind) < _SHOWN_REASONS:
                by_kind[reason.kind] = _BadRows(place, reason)
            continue
        if value is not None:
            count += 1
            yield value
    if not bad:
        return
    messages = [str(rows_of_kind) for rows_of_kind in by_kind.values()]
    rest = bad - sum(rows_of_kind.count for rows_of_kind in by_kind.values())
    if rest:
        messages.append(f"… and {rest} more")
    if skip_bad:
        messages.append(f"bad lines skipped: {bad}")
        LOG.warning("%s", "\n".join(messages))
        return
    messages.append(f"{bad} bad of {bad + count} lines; mend them, or go on with --skip-bad")
    raise UserError("\n".join(messages))


def unreadable_golds(problems: Iterable[Problem], verifier: "Verifier") -> list[Problem]:
    """Return the problems whose gold answer the verifier cannot read, which never train."""
    from verifiers.gym import place_of  # with the grammar, which not every command needs

    compared = [problem for problem in problems if not place_of(problem.row)]
    return [problem for problem in compared if not verifier.check_gold(problem.answer or "")]


def warn_of_bad_golds(problems: Sequence[Problem], verifier: "Verifier", display: Display) -> None:
    """Warn of the first gold answers that the verifier cannot read. Their responses never count."""
    bad = unreadable_golds(problems, verifier)
    for problem in bad[:_SHOWN_BAD_GOLDS]:
        place = f"{problem.place}: " if problem.place else ""
        gold = (problem.answer or "")[:_SHORT]
        display.warn(
            f"{place}problem {problem.id[:_SHORT]}: the gold answer {gold!r} cannot be read: it is "
            "neither a value nor a few words"
        )
    if len(bad) > _SHOWN_BAD_GOLDS:
        display.warn(f"… and {len(bad) - _SHOWN_BAD_GOLDS} more gold answers")


def check_problems(
    problems: Iterable[tuple[str, Problem]], repeated: bool, sets: Iterable[str] = repeat("")
) -> None:
    """Raise UserError if two problems of one set share an id, or one problem has two gold answers.

    `problems` are pairs of a place (`file:line`) and a problem. With `repeated` a problem may occur
    again. `sets` names the set of each. Sets that are called as their files share their texts.
    """
    by_id: dict[tuple[str, str], tuple[str, Problem]] = {}
    by_text: dict[tuple[str, str], tuple[str, Problem]] = {}
    for (place, problem), name in zip(problems, sets, strict=False):
        first_place, first = by_id.setdefault((name, problem.id), (place, problem))
        is_same = first.problem.strip() == problem.problem.strip()
        if first is not problem and not (repeated and is_same):
            raise UserError(
                f"{place}: the id {problem.id} is that of another problem ({first_place}); "
                "every problem needs an id of its own"
            )
        twins = [(first_place, first)]
        if problem.problem:
            scope = "" if name == place.rpartition(":")[0] else name
            twins.append(by_text.setdefault((scope, problem.problem), (place, problem)))
        for twin_place, twin in twins:
            if twin.answer != problem.answer:
                gold = (problem.answer or "")[:_SHOWN_GOLD]
                twin_gold = (twin.answer or "")[:_SHOWN_GOLD]
                raise UserError(
                    f"{place}: problem {problem.id} has two different gold answers, {gold!r}, "
                    f"{twin_gold!r} in {twin_place}"
                )
