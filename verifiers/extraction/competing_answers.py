"""What stands beside a stated answer, corrects it or takes it back."""

import re

from verifiers.equality.rounding import is_rounding
from verifiers.extraction.context.hedges import APPROXIMATELY
from verifiers.extraction.context.standing import taken_back
from verifiers.extraction.context.wording import OR, listed
from verifiers.extraction.readable import is_value
from verifiers.extraction.sentence.prose import last_expression
from verifiers.extraction.statements import read_statement
from verifiers.grammar.tables import pattern

HEDGE = pattern("competing_answers", "hedge")
IF_WRONG = pattern("competing_answers", "if_wrong")
CORRECTION = pattern("competing_answers", "correction")
WORD = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")
COMMANDS = re.compile(r"\\[A-Za-z]+")
OR_AFTER = re.compile(
    rf"(?>(?:\\text\s*\{{|[\s$.,;()\]\\*_])*)(?:\b(?:{listed(OR)})(?=\s+[-\d$])|或|または|또는|"
    r"\b(?:or (?:is|was|should) it(?: be)?|or|alternatively|maybe|perhaps|possibly|"
    r"(?:it|this|note:?)?\s*(?:could|might|may)(?: also)? be)\b)"
    r"[,\s}\\]*(?:maybe|perhaps|possibly|probably|even|else|it is)?[,\s]*",
    re.I,
)
TAKEN_BACK = pattern("competing_answers", "taken_back")
GOES_ON = pattern("competing_answers", "goes_on")
CONFESSED = pattern("competing_answers", "confessed")
LEAD_TO_VALUE = pattern("competing_answers", "lead_to_value")
ONE_SENTENCE = re.compile(r"[^.\n]{1,80}\.\s*(?:(?:the|my|our)\s*)?", re.I)
NEARBY = 160
SAME_AS = r"(?:or|i\.e\.,?|that is,?|which is|equivalently,?|=)\s+"
VALUE_ASIDE = re.compile(
    r"(.{1,200}?[\d}\w)])(?:"
    rf"(?:\s|\\[ ,;:]|~)*\({SAME_AS}([^()]{{0,60}}\d[^()]{{0,20}})\)"
    r"|(?:\s|\\[ ,;:]|~)+\(([\d\s./+*×%\\-]{0,60}\d[\s%\\]{0,3})\)"
    r"|,\s*(?:i\.e\.,?|that is,?|equivalently,?)\s+([^,()]{1,60}?))[.\s$]*"
)
ABOUT = re.compile(r"^[\s(]*(?:≈|\\approx|~|about\b|approx|roughly)")
TEXT_OF = re.compile(r"\\text\s*\{([^{}]*)\}")


def offered_after(text: str, position: int, answer: str) -> list[str]:
    """Return what "or …", "maybe …" right after an answer offers beside it; not how it is
    rounded."""
    match = OR_AFTER.match(text, position)
    if match is None:
        return []
    rest = text[match.end() : match.end() + NEARBY]
    value = read_statement(rest)
    if not value or not is_value(value) or not only_value_first(rest, value):
        return []
    return [] if APPROXIMATELY.match(rest) and is_rounding(answer, value) else [value]


def only_value_first(rest: str, value: str) -> bool:
    """Return whether an offer begins with its value: not "or one could use 4 unknowns"."""
    said = LEAD_TO_VALUE.sub("", APPROXIMATELY.sub("", rest, count=1), count=1)
    return said.startswith(value.strip()[:20]) or not WORD.search(rest[: rest.find(value)])


def changed_to(text: str, position: int) -> str | None:
    """Return what a response that takes its answer back says instead; "" if nothing."""
    if match := TAKEN_BACK.match(text, position):
        rest = text[match.end() : match.end() + NEARBY]
        value = read_statement(rest)
        if value and is_value(value) and rest.lstrip("$*( ").startswith(value.strip()):
            return value
    if match := GOES_ON.match(text, position):
        return last_expression(text[match.end() - 40 :]) or ""
    if match := CONFESSED.search(text, position):
        return last_expression(text[match.end() :]) or ""
    if end := taken_back(text[position : position + 2 * NEARBY]):
        return last_expression(text[position + end :]) or ""
    return None


def stands_beside(between: str, *, certain: tuple[bool, bool]) -> bool:
    """Return whether what is said between two statements leaves both of them standing."""
    if CORRECTION.search(between[-2 * NEARBY :]):
        return bool(IF_WRONG.search(between[-2 * NEARBY :]))
    if certain == (True, False) or (not any(certain) and ONE_SENTENCE.fullmatch(between)):
        return True
    if all(certain) and not WORD.search(COMMANDS.sub(" ", between)):
        return True
    near = between if len(between) <= NEARBY else between[-NEARBY // 2 :]
    return bool(HEDGE.search(near))


def with_aside(text: str, rivals: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the first of two spellings of one value, 7/2 (or 3.5), with the other as a rival."""
    aside = VALUE_ASIDE.fullmatch(TEXT_OF.sub(r"\1", text))
    if aside is None:
        return text, rivals
    value, other = aside[1], next(filter(None, aside.groups()[1:]))
    if not (is_value(value) and is_value(other)) or value[-1].isalpha():
        return text, rivals
    if ABOUT.search(text[len(value) :]):
        return rf"{value} \approx {other}", rivals
    return value, (*rivals, other)
