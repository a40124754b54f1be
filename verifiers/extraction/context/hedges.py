"""What is said around a value so that it is no answer: bounds, conditions, doubts, other voices."""

import re

from verifiers.extraction.context.standing import ANOTHERS_LABEL

BOUND = re.compile(
    r"(?:(?:no|not)\s+)?(?:less|greater|more|fewer|smaller|larger|bigger|higher|lower|"
    r"strictly\s+\w+)"
    r" than\b|(?:up to|close to|anything|everything)\b|"
    r"\$?\s*(?:[<>≤≥≠]|\\(?:leq?|geq?|neq?|[lg]t)\b)|"
    r"(?:at (?:least|most)|between|under|below|above)\b|"
    r"(?:an?|some|any)\s+(?:\w+\s+)?(?:integer|number|value)s?\s+(?:from|between|in|less|"
    r"greater)\b",
    re.I,
)
CONDITIONAL = re.compile(
    r"[^.\n]{0,200}?\b(?:unless|depend(?:s|ing) on)\b"
    r"|[^.\n]{1,200}?\bif\b[^.\n]{1,200}?\b(?:else|otherwise|and\b[^.\n]{1,80}?\bif)\b",
    re.I,
)
HEDGED = re.compile(
    r"\.\.\s*\d|\d\s*\+\W*$|\d\s*\((?:possibly|maybe|perhaps|could|might|alternatively)\b|"
    r"\b(?:or (?:more|less|fewer|greater|higher|above|below)|xor|and/or)\b"
    r"|\d.{0,40}\bor\s+is\s+it\b",
    re.I,
)
LABELLED = re.compile(
    r"\s*((?:[A-Za-z'_]+ ){0,3}[A-Za-z'_]{3,20})\s*:\s*(?=[-$\\\d(])"
    r"|\s*([A-Za-z_]{3,20})\s*=\s*(?=-?\d)"
)
GAVE_UP = re.compile(
    r"\b(?:I (?:give up|cannot solve|can['’]t solve|don['’]t know|do not know)|random(?:ly)?|guess|"
    r"unsure|Traceback \(most recent)\b|Error:",
    re.I,
)
DENIED = re.compile(
    r"\b(?:wrong|incorrect|not|including|except|unsure|know|maybe|perhaps|possibly)\b|n't\b", re.I
)
APPROXIMATELY = re.compile(
    r"[\s$(]*(?:approximately|approx\.?|about|roughly|around|nearly|≈|~|\\approx|\\simeq)", re.I
)
OTHERS_SAY = re.compile(
    r"(?:\b(?:reference|expected|gold|official|ground[- ]truth|"
    r"backup|alternat(?:iv)?e|previous|initial|wrong|incorrect|student|bad|example|sample|"
    r"placeholder|dummy|trap|false|rejected|lower|upper|"
    r"user's|student's|textbook's|book's|"
    r"model)\s*|\b(?:user|problem|question|prompt|key|solution|he|she|they|someone|people|some|"
    r"many|textbook|book|students?)\s+(?:says?|said|claims?|claimed|states?|stated|suggests?|"
    r"thinks?|thought|writes?|wrote)[,:]?(?:\s+that)?(?:\s+the)?\s*)[\"“']?(?:the\b\s*)?$",
    re.I,
)
UNLESS_OR_IF = re.compile(r"\b(?:unless|if|depend)", re.I)
LONGEST_CONDITION = 200
LONGEST_QUALIFIER = 40


def conditional(rest: str) -> str | None:
    """The beginning of a statement that holds only under a condition."""
    if not UNLESS_OR_IF.search(rest, 0, LONGEST_CONDITION):
        return None
    match = CONDITIONAL.match(rest)
    return rest[: match.end()] if match else None


def not_its_own(text: str, match: re.Match[str], quoted: list[tuple[int, int]]) -> bool:
    """Whether others are said to give this answer, or it stands between quotation marks."""
    start, end = match.span()
    if start and text[start - 1] != "\n":
        before = max(0, start - LONGEST_QUALIFIER)
        if OTHERS_SAY.search(text, before, start):
            return True
    return any(opening < start and end < closing < len(text) for opening, closing in quoted)


def labelled(text: str) -> tuple[str, bool] | None:
    """What "Sum: 42" labels, and whether the label gives it to others or bounds it."""
    match = LABELLED.match(text)
    if match is None:
        return None
    return text[match.end() :], not ANOTHERS_LABEL.isdisjoint(
        (match[1] or match[2]).lower().split()
    )
