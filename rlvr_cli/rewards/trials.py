"""Write the responses by which `rlvr audit` tries a reward (`trials.yaml`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter

from rlvr_cli.core.audit import PlainRewards, Rating
from rlvr_cli.core.types import Problem
from rlvr_cli.core.yaml_text import load_yaml
from verifiers.extraction.echo import is_echo

PLAIN = {"thought": "I work it out step by step.", "words": "The answer is"}
ANSWER_FORMS = {
    "The answer is X.": "{thought} {words} {answer}.",
    r"\boxed{X}": r"{thought} {words} $\boxed{{answer}}$.",
    "<think> </think> <answer>X</answer>": "<think>{thought}</think>\n<answer>{answer}</answer>",
    "<answer>X</answer>": "{thought}\n<answer>{answer}</answer>",
    "#### X": "{thought}\n#### {answer}",
    "X": "{answer}",
}
"""The usual ways to write an answer."""
GUESSES = [str(number) for number in range(21)]
_MORE_CONSTANTS = r"-1 25 30 36 50 60 72 100 1000 A B C D yes \frac{1}{2} \frac{1}{3} \pi \sqrt{2}"
CONSTANTS = [*GUESSES, *_MORE_CONSTANTS.split()]
FIXED_TEXTS = {
    "guesses": ", ".join(GUESSES),
    "alternatives": " or ".join(GUESSES),
    "lines": "\n".join(GUESSES),
    "boxes": " ".join(rf"Perhaps $\boxed{{{guess}}}$." for guess in GUESSES),
    "statements": " ".join(f"The answer is {guess}." for guess in GUESSES),
    "padding": "I look at it once more, and nothing changes. " * 60,
    "braces": r"\frac{" * 300,
    "brackets": "(" * 3000,
    "nines": "9" * 5000,
}
"""Texts of the table that are the same for each problem."""
CUT = "✂"
_NUMERALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_SPELLED = _NUMERALS.split()
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Words between two dollar signs are about money. Anything else is a formula.
_FORMULA = re.compile(r"\$((?![^$]*[a-z]{2,} [a-z]{2,})[^$]+)\$")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,14})")
_DECIMAL = re.compile(r"-?\d{1,9}\.\d{1,9}")
_PAIR = re.compile(r"[(\[]?\s*\d{1,9},\s+\d{1,9}\s*[)\]]?")
_NOT_DIGITS = re.compile(r"\D")
_FRACTION = re.compile(r"(-?)\\frac\{(\d{1,9})\}\{([1-9]\d{0,8})\}")
_LIST_OR_WORDS = re.compile(r"[,;]|\\text|(?<![\\a-zA-Z])[A-Za-z]{2,}")
# "4 or east" may be read as one answer with a remark, and "1, 2 or 3" is a list anyway.
_COUNTED = re.compile(r"[Hh]ow many ([a-z]+s)\b")
_NOT_ASKED = PlainRewards(right=0.0, wrong=0.0)
_NAMED = re.compile(r"\{([a-z]+)\}")


class Trial(NamedTuple):
    """A response to a problem, and what it deserves."""

    check: str
    row: str
    response: str
    is_right: bool
    is_cut_off: bool = False


class Templates(BaseModel):
    """The parts of a response of the table. A part that is left out is as in a plain answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    answer: str | None = None
    thought: str | None = None
    words: str | None = None
    layout: str = "{response}"
    """The text around the response in the audited form."""
    share: float = 1.0
    """The share of the real right responses that are written so."""


class CheckTable(BaseModel):
    """A check of the table: its question, and its rows by what they deserve."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    question: str
    at_one_fault: Rating | None = None
    """The judgement on a single fault, where the share of faults says nothing."""
    is_luck: bool = False
    """Whether the faults of the best constant are fine."""
    right: dict[str, Templates] = {}
    wrong: dict[str, Templates] = {}

    def weight_of(self, row: str) -> float:
        """Return the share of real responses that are written as a row is. One that the table does
        not have counts in full."""
        return self.right[row].share if row in self.right else 1.0


@dataclass(frozen=True)
class Case:
    """A problem with its gold answer, a wrong one, and the way in which answers are written."""

    problem: Problem
    gold: str
    wrong: str
    answer_form: str
    rewards: PlainRewards = _NOT_ASKED

    def text(self, answer: str) -> str:
        """Return a plain response that states an answer."""
        return _written(self.answer_form, {**PLAIN, "answer": answer})

    @property
    def plain_trials(self) -> list[Trial]:
        """Return the plain right answer, a wrong one, and one that is empty."""
        return [
            Trial("plain", answer, self.text(answer), answer == self.gold)
            for answer in (self.gold, self.wrong, "")
        ]

    def trials(self, constants: list[str]) -> Iterator[Trial]:
        """Yield the constants, and the responses of the table that the problem has texts for."""
        for answer in constants:
            if answer != self.gold:
                yield Trial("constant", answer, self.text(answer), is_right=False)
        texts = {
            **FIXED_TEXTS,
            **texts_of_problem(self.problem.problem, self.gold),
            **texts_of_gold(self.gold),
            "wrong": self.wrong,
        }
        if not _LIST_OR_WORDS.search(self.gold + self.wrong):
            texts["single"] = self.gold
        unit = _COUNTED.search(self.problem.problem)
        if unit and _INTEGER.fullmatch(self.gold):
            texts["unit"] = f"{self.gold} {unit[1]}"
        for check, table in CHECKS.items():
            for is_right, rows in ((True, table.right), (False, table.wrong)):
                for row, templates in rows.items():
                    response = self._response(templates, texts)
                    if response is not None:
                        text, cut_mark, _ = response.partition(CUT)
                        yield Trial(check, row, text, is_right, is_cut_off=bool(cut_mark))

    def _response(self, templates: Templates, texts: dict[str, str]) -> str | None:
        """Return the response of a row. Return None if the problem has no such text, or the way of
        writing answers no place for a thought or for words after the answer."""
        words_after = templates.layout.partition("{response}")[2].strip()
        if words_after and not self.answer_form.endswith("."):
            return None
        if templates.thought is not None and "{thought}" not in self.answer_form:
            return None
        parts = {"answer": self.gold, **PLAIN}
        try:
            for name, template in templates.model_dump(exclude={"layout", "share"}).items():
                if template is not None:
                    parts[name] = _filled(template, texts)
            return _filled(
                templates.layout, {**texts, "response": _written(self.answer_form, parts)}
            )
        except KeyError:
            return None


def _filled(template: str, texts: dict[str, str]) -> str:
    """Put texts in the place of their names. Raises KeyError for an unknown name."""
    return _NAMED.sub(lambda name: texts[name[1]], template)


def _written(answer_form: str, parts: dict[str, str]) -> str:
    """Put an answer, a thought and words into a way of writing, whose other braces stay."""
    return _NAMED.sub(lambda name: parts.get(name[1], name[0]), answer_form)


def texts_of_problem(problem: str, gold: str) -> dict[str, str]:
    """Return a problem's own words, numbers and formulas, which an answer may only repeat. `echo`
    is the last formula that cannot be an answer to it."""
    numbers = _NUMBER.findall(problem)
    formulas = _FORMULA.findall(problem)
    texts = {"problem": problem}
    if numbers:
        texts.update(
            first=numbers[0],
            last=numbers[-1],
            all=", ".join(numbers),
            sum=" + ".join(numbers),
            product=r" \times ".join(numbers),
            quotient="/".join(numbers[-2:]),
        )
    if formulas:
        texts.update(formula=formulas[-1], formulas=", ".join(formulas))
    echoes = [formula for formula in formulas if is_echo(formula, problem, gold)]
    if echoes:
        texts["echo"] = echoes[-1].strip().rstrip(".,")
    return texts


def texts_of_gold(gold: str) -> dict[str, str]:
    """Return other texts of the value of a gold answer, and sums and products that equal it.

    Only a plain number has them.
    """
    texts: dict[str, str | None] = {"gold": gold, "formal": None if "$" in gold else f"${gold}$"}
    if _INTEGER.fullmatch(gold):
        texts.update(_texts_of_integer(gold))
    if _DECIMAL.fullmatch(gold):
        value = Fraction(gold)
        sign = "-" if value < 0 else ""
        texts.update(
            zero=f"{gold}0",
            fraction=rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}",
            digits=gold.replace(".", ""),
        )
    parts = _FRACTION.fullmatch(gold)
    if parts:
        texts.update(
            slash=f"{parts[1]}{parts[2]}/{parts[3]}",
            large=gold.replace("frac", "dfrac"),
            digits="".join(parts.groups()),
        )
    if _PAIR.fullmatch(gold):
        texts["digits"] = _NOT_DIGITS.sub("", gold)
    if _INTEGER.fullmatch(gold) or _DECIMAL.fullmatch(gold):
        texts.update(_texts_of_number(Decimal(gold)))
    return {name: text for name, text in texts.items() if text is not None}


def _texts_of_number(number: Decimal) -> dict[str, str | None]:
    """Return wrong texts that are near a number, and its opposite, or {} for 0."""
    if not number:
        return {}
    return {
        "hundredth": str(number * Decimal("1.01")),
        "twentieth": str(number * Decimal("0.95")),
        "opposite": str(-number),
    }


def _texts_of_integer(gold: str) -> dict[str, str | None]:
    """Return other texts of a whole number, and None for each that it lacks."""
    number = int(gold)
    return {
        "integer": gold,
        "decimal": f"{gold}.0",
        "spelled": _SPELLED[number] if 0 <= number < len(_SPELLED) else None,
        "shorter": gold[:-1] if abs(number) > 9 else None,
        "grouped": f"{number:,}" if abs(number) > 999 else None,
        "undone": f"{number - 2} + 2" if number > 2 else None,
        "doubled": rf"{number // 2} \times 2" if number > 2 and number % 2 == 0 else None,
    }


CHECKS = TypeAdapter(dict[str, CheckTable]).validate_python(
    load_yaml((resources.files("rlvr_cli") / "rewards" / "trials.yaml").read_text("utf-8"))
)
"""The question and the rows of each check, as `trials.yaml` says."""
