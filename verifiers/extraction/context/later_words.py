"""How much a sentence after an answer speaks against it: the weights of its words."""

import re
from collections.abc import Sequence
from functools import lru_cache

from verifiers.extraction.context.weights import (
    BESIDE_AFTER,
    BESIDE_BEFORE,
    pairs,
    total,
    weights,
    words_in,
)

# "That is incorrect." says of what the sentence before it is about.
REFERS = re.compile(
    r"(?:That|This|It|Which|They|Those|These)\b(?:['’]\w+)?(?:\s+[^\s\d]+){0,5}\W*$"
)
ASIDE = re.compile(r"\W*(?:or|and)?[\W\d]*", re.I)
LONGEST, LONGEST_OWN = 600, 60
STEM = 4
# A sentence of more weight than the first takes its answer back; one of less than the second
# leaves it.
AGAINST, HARMLESS = 0.75, -3.5
# One of less weight than this says no more than a remark; so many of them may follow an answer.
REMARK, MOST_REMARKS = -1.5, 4


def features(sentence: str, answer: str) -> set[str]:
    """Return the words of a sentence, their pairs and how they begin: the answer as <own>, other
    numbers as <num>."""
    said = sentence[:LONGEST]
    if 0 < len(answer) <= LONGEST_OWN:
        own = rf"(?<!{BESIDE_BEFORE}){re.escape(answer)}(?!{BESIDE_AFTER})"
        said = re.sub(own, " <own> ", said)
    words = words_in(said)
    begun = {f"{word[:STEM]}~" for word in words if len(word) > STEM}
    return {*begun, *pairs(["^", *words, "$"])} - {"^", "$"}


def passages(sentences: Sequence[str]) -> list[str]:
    """Return the sentences, each short one that refers back with the one before it."""
    return [
        f"{before} {said}" if before and REFERS.match(said) else said
        for before, said in zip(["", *sentences], sentences, strict=False)
    ]


@lru_cache(maxsize=256)
def against(sentence: str, answer: str) -> float:
    """Return the weight of a sentence against the answer before it, in log-odds."""
    return total(weights("later_words"), features(sentence, answer)) / 10


def speaks_against(sentence: str, answer: str, limit: float = AGAINST) -> bool:
    """Return whether a sentence takes the answer before it away; "(or 75%)" says nothing of it."""
    return not ASIDE.fullmatch(sentence) and against(sentence, answer) > limit


def only_remarks(sentences: Sequence[str], answer: str, limit: float = REMARK) -> bool:
    """Return whether all of a few sentences only remark on the answer before them."""
    return len(sentences) <= MOST_REMARKS and all(
        against(said, answer) < limit for said in passages(sentences)
    )


def is_harmless(sentence: str, answer: str) -> bool:
    """Return whether a sentence clearly leaves the answer before it as it is."""
    return against(sentence, answer) < HARMLESS
