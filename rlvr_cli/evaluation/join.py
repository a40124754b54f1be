"""Find the problem of a named set that a row of responses is about."""

import re
from collections import Counter

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem
from rlvr_cli.data.paths import BadRowError
from rlvr_cli.data.problems import ProblemSet

ORDER = "order"
"""The path of an id that joins the rows of a file with a problem set by their order."""
_WITHIN = "text within the prompt"
_NUMBERED = re.compile(r"(.*?)(\d{1,18})$", re.DOTALL)
"""An id that ends with a number."""


class ProblemIndex:
    """The problems of a named set, by id, by text and by order.

    With `is_ordered` rows are joined by their order alone. With `text_first` a row's text counts
    more than its id, which may be its number in another program's file.
    """

    def __init__(self, golds: ProblemSet, is_ordered: bool, text_first: bool) -> None:
        self.name = golds.name
        self.problems = golds.problems
        self.is_ordered = is_ordered
        self.text_first = text_first
        self.by_id = {problem.id: problem for problem in golds.problems}
        self.by_text = {problem.problem.strip(): problem for problem in golds.problems}
        texts = Counter(problem.problem.strip() for problem in golds.problems)
        self.twins = {text for text, count in texts.items() if count > 1}
        self.joined: Counter[str] = Counter()
        """How often a row was joined by what."""
        self._prompts: dict[str, str] = {}
        """The prompt of each problem that was found within one."""
        self._numbers: dict[str, int] = {}
        """The last number of the ids that begin alike."""

    def problem_of(self, row: Problem, number: int) -> Problem:
        """Return the problem of a row, which is the one of this number in its file. Raises
        BadRowError if the set lacks it, or has it with another text."""
        text = row.problem.strip()
        way, problem = self._find(row.id, text, number)
        if problem is None:
            raise BadRowError(self._unmatched(row, number))
        if way == _WITHIN:
            if self._prompts.setdefault(problem.id, text) != text:
                raise BadRowError(f"another prompt has the text of {problem.id} too: which is it?")
        elif text not in ("", problem.problem.strip()):
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
        if identity in self.by_id and not (self.text_first and text in self.by_text):
            return "id", self.by_id[identity]
        if text in self.by_text:
            return "text", self.by_text[text]
        matches = [self.by_text[known] for known in self.by_text if _is_in(known, text)]
        return _WITHIN, matches[0] if len(matches) == 1 else None

    def _numbered(self, identity: str, number: int) -> Problem:
        """Return the problem at a row's place. Raises BadRowError if the ids tell of another
        order."""
        if number > len(self.problems):
            raise UserError(
                f"row {number}: {self.name} has only {plural(len(self.problems), 'problem')}; "
                f"--field id={ORDER} needs a row for each, and counts blank lines and bad rows"
            )
        problem = self.problems[number - 1]
        if self.by_id.get(identity, problem) is not problem:
            raise BadRowError(f"by order it is to {problem.id}, but its id is {identity}")
        numbered = _NUMBERED.match(identity)
        if numbered is not None:
            name = numbered[1]
            if int(numbered[2]) < self._numbers.get(name, 0):
                raise BadRowError(f"its id {identity} is below that of a row before: not in order")
            self._numbers[name] = int(numbered[2])
        return problem

    def check_order(self, name: str, rows: int) -> None:
        """Raise UserError if rows were joined by order, but are more or fewer than the problems."""
        if self.is_ordered and rows != len(self.problems):
            raise UserError(
                f"{name}: {plural(rows, 'row')} for {plural(len(self.problems), 'problem')}; "
                f"--field id={ORDER} needs one for each"
            )

    def _unmatched(self, row: Problem, number: int) -> str:
        """Write that the set has no such problem, and for the first row how to join by order."""
        key = f"id {shortened(row.id)}" if row.id else "text"
        message = f"no problem of {self.name} has its {key}"
        if number > 1:
            return message
        first = self.problems[0]
        return (
            f"{message}. If the file has the set's order: --field id={ORDER}, but look whether its "
            f"first row ({shortened(row.problem) or key}) is to {first.id} "
            f"({shortened(first.problem)})"
        )


def _is_in(text: str, prompt: str) -> bool:
    """Return whether a prompt has the text as a whole: `8 * 7` is not in `8 * 71`, nor in
    `8 * 7.5`."""
    if text not in prompt:  # fast for nearly all
        return False
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w|[.,]\d)", prompt) is not None
