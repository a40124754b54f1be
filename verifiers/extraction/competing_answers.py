"""What stands beside a stated answer, corrects it or takes it back."""

import re
from itertools import pairwise

from verifiers.equality.rounding import is_rounding
from verifiers.extraction.context.abroad import names_answer
from verifiers.extraction.context.aftermath import asks_abroad, later_sentences
from verifiers.extraction.context.hedges import APPROXIMATELY
from verifiers.extraction.context.standing import sentence_after, taken_back
from verifiers.extraction.context.wording import OR, listed
from verifiers.extraction.readable import is_value
from verifiers.extraction.sentence.last_sentence import chosen
from verifiers.extraction.sentence.numbers import NUMBER
from verifiers.extraction.sentence.operators import touches_nothing
from verifiers.extraction.sentence.prose import last_expression
from verifiers.extraction.statements import read_statement
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.tables import gated, pattern

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
CHECKING = pattern("aftermath", "checking")
TAKEN_BACK = pattern("competing_answers", "taken_back")
SLIP = pattern("competing_answers", "slip")
GOES_ON = pattern("competing_answers", "goes_on")
RETRACTED = pattern("competing_answers", "retracted")
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
ENDS_SO = re.compile(
    r"(?:\b(?:is|be|are|answer|root|value|number|one|want)\b,?|:)\s+\$?\(?([A-J]|-?\d[\d.,/]*)\)?\W*$"
)
ENDS_WANTED = re.compile(
    r"(?:\b(?:i\.e\.|أي|ou\sseja)(?!\w),?|[=,，])\s*(?:R?\\?\$|\()?(-?\d[\d.,/]*)[^\d=]{0,12}$"
)
ANOTHER = pattern("competing_answers", "another")
ANOTHER_ABROAD = gated("competing_answers", "another_abroad")
ELSEWHERE_ABROAD = pattern("competing_answers", "elsewhere_abroad")
ENGLISH = re.compile(r"\b(?:the|is|it|are|so|we|of|and|that)\b", re.I)
ELSEWHERE = pattern("competing_answers", "elsewhere")
BOUNDED = re.compile(r"[<>≤≥]|\\[lg](?:eq?|t)(?![a-z])")
COMPUTES = re.compile(
    r"[-+*/×·÷=^]|\b(?:plus|minus|times|doubl\w*|halv\w*|add\w*|subtract\w*|divid\w*|multipl\w*"
    r"|more|less|twice|half|each|per|but|not|instead|wrong)\b|n['’]t\b|\bof\s+\d",
    re.I,
)
LAST_TURN = re.compile(
    r"[;—]\s|,\s+(?=(?:but|and\s+so|so|and\s+hence|hence|and\s+thus|thus|leaving)\s)"
)
LONGEST_TAIL = 25
LONGEST_REST = 600
MADE = re.compile(
    r"((?:[-+*/×·÷\d.()\s]|\\(?:times|cdot|div|left|right)\b|\\[,;:! ]){3,80})=\s*\$?(\d[\d,]*)"
)
WHOLE_NUMBER = re.compile(r"(?<![\d.,])\d+(?![\d]|[.,]\d)")
CHECKS = pattern("competing_answers", "checks")
FIRST_PART = re.compile(r"\n\W{0,8}(?:1[.)]|step\s+1\b|第一)", re.I)
NEXT_PART = pattern("competing_answers", "next_part")
WANTED = pattern("competing_answers", "wanted")
CONCLUSION = pattern("competing_answers", "conclusion")


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
        if SLIP.match(rest):
            return last_expression(rest) or ""
    if match := GOES_ON.match(text, position):
        return last_expression(text[match.end() - 40 :]) or ""
    if match := RETRACTED.match(text, position) or CONFESSED.search(text, position):
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


def _restates(sentence: str, own: str) -> bool:
    """Return whether a sentence says the answer again, and computes nothing: "So Ann has 12, and
    her brother 7"."""
    said = is_plain_number(own) and own in [number[0] for number in NUMBER.finditer(sentence)]
    return said and not (COMPUTES.search(sentence) or asks_for(sentence))


def concluded(text: str, stop: int, own: str = "") -> list[str]:
    """Return the values that what follows an answer concludes or says to be wanted: "Hence the
    total is 84", "the diameter, which is asked for, is 20"."""
    later = later_sentences(text, stop)
    later = [f"{a} {b}" if a.endswith((":", "：")) else a for a, b in pairwise([*later, ""])]
    said = [
        sentence
        for sentence in later
        if not CHECKING.match(sentence)
        and (CONCLUSION.match(sentence) or asks_for(sentence) or names_answer(sentence))
        and not _restates(sentence, own)
    ]
    if asks_for(rest := sentence_after(text, stop)):
        said.append(rest)
    values = [
        chosen(sentence) or last_expression(sentence) or _ends_in(sentence) for sentence in said
    ]
    return [value for value in values if value and is_value(value) and not BOUNDED.search(value)]


def _ends_in(sentence: str) -> str | None:
    """Return the plain number or the letter that a sentence ends in."""
    match = ENDS_SO.search(sentence)
    match = match or (ENDS_WANTED.search(sentence) if asks_abroad(sentence) else None)
    return match[1] if match else None


def asks_for(sentence: str) -> bool:
    """Return whether a sentence says what is asked for."""
    return WANTED.search(sentence) is not None or asks_abroad(sentence)


def stated_anew(text: str, stop: int, value: str) -> list[str]:
    """Return the other numbers that later sentences lead to: "so there are only 8", "the right
    count is 6"."""
    own = value.strip(" $.").rpartition("=")[2].strip()
    found = []
    rest = LAST_TURN.split(sentence_after(text, stop))
    later = [*rest[1:], *later_sentences(text, stop)] if is_plain_number(own) else []
    for sentence in later:
        numbers = [match for match in NUMBER.finditer(sentence) if match[0] != own]
        last = numbers[-1] if numbers else None
        if last is None or own in sentence or len(sentence) - last.end() > LONGEST_TAIL:
            continue
        if _leads_to_another(sentence, last.start()) and touches_nothing(sentence, last[0]):
            found.append(last[0])
    return found


def _leads_to_another(sentence: str, start: int) -> bool:
    """Return whether a sentence leads to the number at a place, and speaks of nothing else."""
    if not ENGLISH.search(sentence):
        return ANOTHER_ABROAD.found(sentence) and not ELSEWHERE_ABROAD.search(sentence)
    if not ANOTHER.search(sentence[:start].rstrip(" $(*") + " "):
        return False
    return not ELSEWHERE.search(LAST_TURN.split(sentence)[-1])


def computed_on(text: str, end: int, value: str) -> list[str]:
    """Return what is computed from a marked number after it, if that is new and stands last: 210
    of "so one cake needs 30 g. 7 × 30 = 210 g"."""
    if not value.isdigit():
        return []
    rest = text[end : end + LONGEST_REST]
    made = list(MADE.finditer(rest))
    numbers = WHOLE_NUMBER.findall(rest)
    if not made or not numbers or CHECKS.search(rest):
        return []
    step, result = made[-1].groups()
    used = value in WHOLE_NUMBER.findall(step)
    new = result not in WHOLE_NUMBER.findall(text[:end]) and numbers[-1] == result
    return [result] if used and new and result != value else []


def goes_on_with_parts(text: str, end: int) -> bool:
    """Return whether another step or part follows a marked value: "Step 3", "(2)"."""
    part = NEXT_PART.search(text, end, end + LONGEST_REST)
    return part is not None and not FIRST_PART.search(text, end, part.start())


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
