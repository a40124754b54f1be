"""What stands beside a stated answer, corrects it or takes it back."""

import re

from verifiers.equality.rounding import is_rounding
from verifiers.extraction.context.hedges import APPROXIMATELY
from verifiers.extraction.context.standing import taken_back
from verifiers.extraction.context.wording import OR, listed
from verifiers.extraction.prose import last_expression
from verifiers.extraction.readable import is_value
from verifiers.extraction.statements import read_statement

HEDGE = re.compile(
    r"\b(?:alternativ\w*|or|maybe|perhaps|possibl\w+|could|might|also|another|either|not sure|"
    r"if (?:it|this|that) is(?:n't| not)|otherwise|other (?:answer|option|possib\w+)|unless|if not|"
    r"equally|any of|ps|p\.\s?s|"
    r"(?:second|next|backup) (?:guess|choice|candidate|option|try))\b",
    re.I,
)
IF_WRONG = re.compile(
    r"\b(?:if|in case|should)\s+(?:that|this|it|(?:my|the) (?:first |above )?answer)\b[^.\n]{0,20}"
    r"\b(?:wrong|incorrect|not (?:right|correct|accepted)|rejected)\b",
    re.I,
)
CORRECTION = re.compile(
    r"\b(?:wait|actually|mistake\w*|error|correct(?:ed|ing|ion)|instead|recheck\w*|re-?check\w*|"
    r"wrong|incorrect|missed|forgot\w*|no,|scratch|revis\w+|double[- ]check\w*)",
    re.I,
)
WORD = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")
COMMANDS = re.compile(r"\\[A-Za-z]+")
OR_AFTER = re.compile(
    rf"(?:[\s$.,;()\]\\*_]|\\text\s*\{{)*(?:\b(?:{listed(OR)})(?=\s+[-\d$])|或|または|또는|\b(?:or (?:is|was|should) it(?: be)?|or|alternatively|maybe|perhaps|possibly|"
    r"(?:it|this|note:?)?\s*(?:could|might|may)(?: also)? be)\b)"
    r"[,\s}\\]*(?:maybe|perhaps|possibly|probably|even|else|it is)?[,\s]*",
    re.I,
)
LEAD_OUT = r"[\s$.,;)\]\\*(>—–…→-]*"
RESTATES = r"(?:i meant|i mean|(?:it |this |that )?should (?:be|read|say|have been)|make that|read)"
TAKEN_BACK = re.compile(
    rf"{LEAD_OUT}(?:(?:wait|actually|no(?!\s+\$?\d)|sorry|correction|oops|hold on|just kidding|"
    r"edit|update|erratum|(?:scratch|scrap|strike) (?:that|this)|never ?mind|my (?:bad|mistake)|"
    r"on (?:second thought|reflection)|typo|apologies)\b[,:.!\s]*)+"
    rf"(?:(?:{RESTATES}|it is|it's|that is)\s+)?|{LEAD_OUT}{RESTATES}\s+",
    re.I,
)
SLIP = re.compile(
    r"i (?:forgot|missed|misread|mis\w+|should have|need to|have to|must|dropped|counted|used)\b",
    re.I,
)
GOES_ON = re.compile(
    r"[^.\n]{0,60}[.;,]?\s*\b(?:then|next|now|finally|lastly|after that)\b[,\s]+"
    r"(?:(?:we|I|you|just|only|simply|still|also|need|have|must|should|to)\s+)*"
    r"(?:add|subtract|multiply|divide|double|halve|square|round|convert)\b"
    r"|[^\n]{0,20}\.?\s*\b(?:adding|including|counting|subtracting|correcting)\b[^.\n]{0,40}\b(?:we get|gives|yields|makes)\b(?=\s+\$?\d)"
    r"|[^.\n]{0,20}[;,]\s*(?:but\s+)?we\s+(?:still\s+)?(?:need|want)\b"
    r"|[,;][^.\n]{0,60}\b(?:gives|makes)\b(?=\s+\$?\d+\W*$)"
    r"|[^\n]{0,80}\n*\s*I (?:get|got|say|find|have|would say) \$?-?\d[^.\n]{0,20}\binstead\b",
    re.I,
)
RETRACTED = re.compile(
    r"[\s$.,;)\]\\*]*(?:(?:h+m+|oh|oops|wait|no|sorry|actually)\b[,.!\s]*)*"
    r"(?:that|this|it)(?:'s| is| was)\s+(?:clearly |simply )?"
    r"(?:wrong|incorrect|not (?:right|correct)|(?:a|my) mistake)\b(?=\s*[.,;!\n]|\s*$)",
    re.I,
)
CONFESSED = re.compile(
    r"\b(?:i(?:'m| am| was)\s+(?:probably |likely |surely |perhaps )?(?:wrong|mistaken|kidding|"
    r"joking)|just kidding|scratch that|i (?:disagree|dispute|reject|take (?:it|that) back)|"
    r"i (?:have )?made (?:a|an) (?:\w+ )?(?:mistake|error)|i doubt (?:it|this|that)\b|(?:do not|don't) trust|"
    r"(?:though|but) i think it's|i guessed(?=[.!\n]|$)|"
    r"i(?:'m| am) not (?:\w+ )?(?:sure|certain|convinced)(?: (?:about|of) (?:it|this|that))?(?=[.!;\n]|$)|"
    r"(?:ignore|disregard) (?:that|this|the above|(?:my|this|the) (?:previous )?answer))\b",
    re.I,
)
LEAD_TO_VALUE = re.compile(
    r"(?:[\s$*_(:\"“{]|\\\(|\\\[|\b(?:it|the|answer|is|be|simply|just|equivalently|also|even)\b)+",
    re.I,
)
NEARBY = 160


def offered_after(text: str, position: int, answer: str) -> list[str]:
    """What "or …", "maybe …" right after an answer offers beside it; not how it is rounded."""
    match = OR_AFTER.match(text, position)
    if match is None:
        return []
    rest = text[match.end() : match.end() + NEARBY]
    value = read_statement(rest)
    if not value or not is_value(value) or not only_value_first(rest, value):
        return []
    return [] if APPROXIMATELY.match(rest) and is_rounding(answer, value) else [value]


def only_value_first(rest: str, value: str) -> bool:
    """Whether an offer begins with its value: not "or one could use 4 unknowns"."""
    said = LEAD_TO_VALUE.sub("", APPROXIMATELY.sub("", rest, count=1), count=1)
    return said.startswith(value.strip()[:20]) or not WORD.search(rest[: rest.find(value)])


def changed_to(text: str, position: int) -> str | None:
    """What a response that takes its answer back says instead; "" if nothing."""
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
    """Whether what is said between two statements leaves both of them standing."""
    if CORRECTION.search(between[-2 * NEARBY :]):
        return bool(IF_WRONG.search(between[-2 * NEARBY :]))
    if certain == (True, False):
        return True
    if all(certain) and not WORD.search(COMMANDS.sub(" ", between)):
        return True
    near = between if len(between) <= NEARBY else between[-NEARBY // 2 :]
    return bool(HEDGE.search(near))
