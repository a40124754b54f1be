"""Find the problem of a named set that a row of responses is about."""

import re
from collections import Counter
from collections.abc import Callable

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem
from rlvr_cli.data.packaged import text_digest
from rlvr_cli.data.paths import BadRowError
from rlvr_cli.data.problems import ProblemSet

ORDER = "order"
"""The path of an id that joins the rows of a file with a problem set by their order. `order:path`
joins by the order of the ids at a path."""
_WITHIN = "text within the prompt"
_NUMBERED = re.compile(r"(.*?)(\d{1,18})$", re.DOTALL)
"""An id that ends with a number."""


def ordered_by(path: str) -> str | None:
    """Return the path of the ids by whose order rows are joined, "" for the usual one. Return None
    if they are joined by the ids themselves."""
    word, _, rest = path.partition(":")
    return rest if word == ORDER else None


class UnmatchedError(BadRowError):
    """A row is to no problem of the set. What might do is known only after other rows were read."""

    kind = "no problem of the set"

    def __init__(self, text: str, advice: Callable[[], str]) -> None:
        super().__init__(text)
        self.advice = advice

    def __str__(self) -> str:
        return f"{super().__str__()}{self.advice()}"


class ProblemIndex:
    """The problems of a named set, by id, by text and by order.

    With `is_ordered` rows are joined by their order alone: the first id that comes is that of the
    first problem, and rows without ids are one for each problem. With `text_first` a row's text
    counts more than its id, which may be its number in another program's file. `id_path` is where
    the user says that the ids are.
    """

    def __init__(
        self, golds: ProblemSet, is_ordered: bool, text_first: bool, id_path: str | None = None
    ) -> None:
        self.name = golds.name
        self.problems = golds.problems
        self.is_ordered = is_ordered
        self.text_first = text_first
        self.by_order = ORDER if id_path is None else f"{ORDER}:{id_path}"
        self.by_id = {problem.id: problem for problem in golds.problems}
        self.has_texts = golds.has_texts
        self.by_text = {problem.problem.strip(): problem for problem in golds.problems}
        self.by_text.pop("", None)
        self.by_other_id = {other: self.by_id[id] for other, id in golds.other_ids.items()}
        texts = Counter(problem.problem.strip() for problem in golds.problems)
        self.twins = {text for text, count in texts.items() if text and count > 1}
        self.joined: Counter[str] = Counter()
        """How often a row was joined by what."""
        self._prompts: dict[str, str] = {}
        """The prompt of each problem that was found within one."""
        self._numbers: dict[str, int] = {}
        """The last number of the ids that begin alike."""
        self._places: dict[str, int] = {}
        """The place of each id among the ids that came, if rows are joined by order."""
        self._unmatched_ids: set[str] = set()
        """The ids of rows that no problem was found for, at most one more than the problems."""
        self._unmatched_rows = 0

    def problem_of(self, row: Problem, number: int) -> Problem:
        """Return the problem of a row, which is the one of this number in its file. Raises
        BadRowError if the set lacks it, or has it with another text."""
        text = row.problem.strip()
        way, problem = self._find(row.id, text, number)
        if problem is None:
            raise self._unmatched(row)
        if way == _WITHIN:
            if self._prompts.setdefault(problem.id, text) != text:
                raise BadRowError(f"another prompt has the text of {problem.id} too: which is it?")
        elif text and not self._is_of(text, problem):
            place = f"row {number}" if way == ORDER else f"problem {shortened(problem.id)}"
            raise BadRowError(f"{place} of {self.name} is another one")
        if way not in (ORDER, "id") and problem.problem.strip() in self.twins:
            raise BadRowError(f"several problems of {self.name} have its text; join by --field id=")
        self.joined[way] += 1
        return problem

    def _find(self, identity: str, text: str, number: int) -> tuple[str, Problem | None]:
        """Return the problem of a row, or None, after the word for what identifies it."""
        if self.is_ordered:
            return ORDER, self._numbered(identity, number)
        by_text = self._of_text(text)
        # A text that is not known here cannot tell whether the id is a number of another program.
        is_decided_by_text = self.text_first and (by_text or (text and not self.has_texts))
        if identity in self.by_id and not is_decided_by_text:
            return "id", self.by_id[identity]
        if identity in self.by_other_id:
            return "id", self.by_other_id[identity]
        if by_text is not None:
            return "text", by_text
        matches = [self.by_text[known] for known in self.by_text if _is_in(known, text)]
        return _WITHIN, matches[0] if len(matches) == 1 else None

    def _of_text(self, text: str) -> Problem | None:
        """Return the problem with this text, or None."""
        if text in self.by_text or self.has_texts:
            return self.by_text.get(text)
        return self.by_other_id.get(text_digest(text))

    def _is_of(self, text: str, problem: Problem) -> bool:
        """Return whether a text is that of a problem, as far as texts are known."""
        if self.has_texts:
            return text == problem.problem.strip()
        return self._of_text(text) in (None, problem)

    def _numbered(self, identity: str, number: int) -> Problem:
        """Return the problem at a row's place, or at that of its id among the ids. Raises
        BadRowError if the ids tell of another order."""
        is_first = identity not in self._places
        if identity and is_first:
            self._places[identity] = len(self._places) + 1
        place = self._places.get(identity, number)
        if place > len(self.problems):
            raise UserError(
                f"row {number}: {self.name} has only {plural(len(self.problems), 'problem')}; "
                f"--field id={ORDER} needs an id for each, or if there are no ids a row for each, "
                "and counts blank lines and bad rows"
            )
        problem = self.problems[place - 1]
        if self.by_id.get(identity, problem) is not problem:
            raise BadRowError(f"by order it is to {problem.id}, but its id is {identity}")
        numbered = _NUMBERED.match(identity)
        if numbered is not None and is_first:
            name = numbered[1]
            if int(numbered[2]) < self._numbers.get(name, 0):
                raise BadRowError(f"its id {identity} is below that of a row before: not in order")
            self._numbers[name] = int(numbered[2])
        return problem

    def check_order(self, name: str, rows: int) -> None:
        """Raise UserError if rows were joined by order, but they or their ids are more or fewer
        than the problems."""
        count = plural(rows, "row")
        if self._places:
            rows = len(self._places)
            count = plural(rows, "id")
        if self.is_ordered and rows != len(self.problems):
            raise UserError(
                f"{name}: {count} for {plural(len(self.problems), 'problem')}; "
                f"--field id={ORDER} needs one for each"
            )

    def _unmatched(self, row: Problem) -> UnmatchedError:
        """Return the error of a row to no problem. It says what would do once all rows were
        read."""
        self._unmatched_rows += 1
        if row.id and len(self._unmatched_ids) <= len(self.problems):
            self._unmatched_ids.add(row.id)
        key = f"id {shortened(row.id)}" if row.id else "text"
        return UnmatchedError(
            f"no problem of {self.name} has its {key}", lambda: self._advice(row, key)
        )

    def _advice(self, row: Problem, key: str) -> str:
        """Say how such rows could be joined, of which this is the first."""
        first = self.problems[0]
        ids = len(self._unmatched_ids)
        names = f"ids such as {first.id}"
        if not self.has_texts:
            names += f" or {next(iter(self.by_other_id))}, and no texts of the problems"
        if (ids or self._unmatched_rows) != len(self.problems) or self.joined:
            return f"; {self.name} has {plural(len(self.problems), 'problem')}, with {names}"
        repeats = ""
        if 0 < ids < self._unmatched_rows:
            repeats = f"Its {self._unmatched_rows} rows have {ids} ids. "
        return (
            f". {repeats}If the file has the set's order: --field id={self.by_order}, but look "
            f"whether its first row ({shortened(row.problem) or key}) is to {first.id} "
            f"({shortened(first.problem) or next(iter(self.by_other_id), '')})"
        )


def _is_in(text: str, prompt: str) -> bool:
    """Return whether a prompt has the text as a whole: `8 * 7` is not in `8 * 71`, nor in
    `8 * 7.5`."""
    if text not in prompt:  # fast for nearly all
        return False
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w|[.,]\d)", prompt) is not None
