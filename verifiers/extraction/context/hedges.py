"""What is said around a value so that it is no answer: bounds, doubts, other voices."""

import re

from verifiers.extraction.context.standing import ANOTHERS_LABEL
from verifiers.grammar.tables import gated, pattern

BOUND = pattern("hedges", "bound")
LABELLED = pattern("hedges", "labelled", flags=0)
GAVE_UP = gated("hedges", "gave_up")
DENIED = re.compile(
    r"\b(?:wrong|incorrect|not|including|except|unsure|know|maybe|perhaps|possibly)\b|n't\b", re.I
)
APPROXIMATELY = re.compile(
    r"[\s$(]*(?:approximately|approx\.?|about|roughly|around|nearly|≈|~|\\approx|\\simeq)", re.I
)
OTHERS_SAY = gated("hedges", "others_say")
EXPECTED_VALUE = re.compile(
    r"\s*expected\s+(?:number|value|cost|time|length|sum|profit|gain)\b", re.I
)
PERSONAL = {"my", "your"}
OWN_RESULT = {"answer", "result", "solution", "total", "choice", "conclusion", "calculation"}
LONGEST_QUALIFIER = 40


def not_its_own(text: str, match: re.Match[str], quoted: list[tuple[int, int]]) -> bool:
    """Return whether others are said to give this answer, or it stands between quotation marks."""
    start, end = match.span()
    if start and text[start - 1] != "\n":
        before = max(0, start - LONGEST_QUALIFIER, text.rfind("\n\n", 0, start))
        if OTHERS_SAY.search(text, before, start):
            return True
    return any(opening < start and end < closing < len(text) for opening, closing in quoted)


def labelled(text: str) -> tuple[str, bool] | None:
    """Return what "Sum: 42" labels, and whether the label gives it to others or bounds it."""
    match = LABELLED.match(text)
    if match is None:
        return None
    if EXPECTED_VALUE.match(text):
        return text[match.end() :], False
    said = set((match[1] or match[2]).lower().split())
    personal = not PERSONAL.isdisjoint(said) and OWN_RESULT.isdisjoint(said)
    return text[match.end() :], personal or not ANOTHERS_LABEL.isdisjoint(said)
