"""The values that a sentence gives to several things."""

import re
from itertools import pairwise

from verifiers.extraction.context.plain import speaks_of_it
from verifiers.extraction.context.wording import JOINT
from verifiers.extraction.sentence.numbers import NUMBER
from verifiers.extraction.sentence.prose import stands

MOST_NAMED = 4
OPERATES = re.compile(
    r"[=+*/×÷^<>≤≥√≈\\$]|\w\(|\b(?:not|never|no|if|or|but|times|than|wait|instead)\b|n['’]t\b|[?？]",
    re.I,
)
ANOTHER_THING = re.compile(rf"[;；、，]|,(?=\s)|{JOINT}", re.I)
GIVEN_NEXT = re.compile(
    r"\b(?:in|of|at|by|per|from|for|to|every|each|after|when|with|between|within|than)\s+$", re.I
)


def named_values(sentence: str) -> tuple[str, ...]:
    """Return the numbers of a sentence that gives one to each of several things: "Tom has 5 apples
    and Ann has 3"."""
    found = list(NUMBER.finditer(sentence))
    if not 1 < len(found) <= MOST_NAMED or OPERATES.search(sentence) or speaks_of_it(sentence):
        return ()
    gaps = [sentence[a.end() : b.start()] for a, b in pairwise(found)]
    if not all(ANOTHER_THING.search(gap) and not GIVEN_NEXT.search(gap) for gap in gaps):
        return ()
    if GIVEN_NEXT.search(sentence[: found[0].start()]) or not stands(sentence, found[-1][0]):
        return ()
    return tuple(match[0] for match in found)
