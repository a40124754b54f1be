"""Whether a sentence without mark and phrase states its value, and not a circumstance of it."""

import re

from verifiers.extraction.context.abroad import TO_DO
from verifiers.grammar.gates import words_of
from verifiers.grammar.tables import gated, pattern, table
from verifiers.grammar.vocabulary import words

SPEAKS_OF = gated("plain", "speaks_of")
OPENS = gated("plain", "opens")
OWN_STEP = gated("plain", "own_step", flags=0)
ANOTHER_CLAUSE = gated("plain", "another_clause")
GOES_ON = pattern("plain", "goes_on")
PREPOSITIONS = words(table("plain")["prepositions"])
LEADS = gated("plain", "leads")
LEADS_TO = gated("prose", "leads_to")
ENGLISH = words(table("plain")["english"])
DEFINITE = words(table("plain")["definite"])
CONCLUDED = words(table("plain")["concluded"])
LAST_WORD = re.compile(r"([^\W\d_]+)[\s$€£*(~-]*$")
ASIDE = re.compile(r",\s+\w+\s+$")
NOUN = re.compile(r"\s+[^\W\d_]{2,}")
NEAR = 1_000
DIGIT = re.compile(r"\d")
NAMED_ASIDE = re.compile(
    r"\b(?:with|from|for|when|where|if|by|to|until)\s+[$*]*[a-z]\s*=[\s$*-]*$", re.I
)
TIME_OR_POINT = re.compile(r":\d|\(")
NEXT_STEP = gated("plain", "next_step")
THATS = gated("plain", "thats")
TIME = re.compile(r"^\S+\s+(?:second|minute|hour|day|week|month|year)s?\b", re.I)
NEVER = re.compile(r"\b(?:never\s+\w+|that\s+adds?\s+up\s+to)\s+$", re.I)
UNSOLVED = re.compile(
    r"(?<![A-Za-z0-9.+*/^=−-])(?<![+*/^=−-]\s)"
    r"(?:\d+[a-z]|[a-z]\s*[-+−]\s*\d+|\d+[a-z]\s*[-+−]\s*\d+|\d+\s*[-+−]\s*\d*[a-z])\s*=[\s$*-]*$"
)
EQUATES = re.compile(r"[=≈][\s$€£*-]*$")


def speaks_of_it(sentence: str) -> bool:
    """Return whether a sentence speaks of the task, opens a step or tells what the writer does."""
    sentence = sentence[: 2 * NEAR]
    return (
        SPEAKS_OF.found(sentence)
        or TO_DO.found(sentence)
        or OPENS.found(sentence)
        or OWN_STEP.found(sentence)
    )


def stated_plainly(sentence: str, start: int, end: int, *, linked: bool = False) -> bool:
    """Return whether sentence[start:end] is what the sentence says, and no circumstance of it.

    After a preposition, in a second clause or before one the number beside another may be a part
    of what was given: "5 km in 25 minutes", "12 when y is 5".
    """
    before, after = sentence[max(0, start - NEAR) : start], sentence[end : end + NEAR]
    if GOES_ON.match(after) or (after.startswith(",") and ASIDE.search(before)):
        return False
    if NEVER.search(before):
        return False
    if EQUATES.search(before):
        return not (NAMED_ASIDE.search(before) or UNSOLVED.search(before))
    if TIME_OR_POINT.search(sentence[start:end]):
        return True
    if THATS.found(before):
        return True
    last = LAST_WORD.search(before)
    word = last[1].casefold() if last else ""
    if (
        word in ("in", "after", "within")
        and TIME.search(sentence[start:][:30])
        and not DIGIT.search(before)
    ):
        return True
    money = sentence[start : start + 1] == "$" or before[-1:] == "$"
    if (word in DEFINITE and NOUN.match(after) and not money) or not (linked or _led_to(before)):
        return False
    if not DIGIT.search(before):
        return True
    if not CONCLUDED.isdisjoint(words_of(before)):
        return True
    return word not in PREPOSITIONS and not ANOTHER_CLAUSE.found(before)


def _led_to(before: str) -> bool:
    """Return whether an English sentence leads to its value by a verb or its place."""
    said = words_of(before)
    if ENGLISH.isdisjoint(said) or not CONCLUDED.isdisjoint(said):
        return True
    return LEADS_TO.found(before) or LEADS.found(before)


def next_step(rest: str) -> bool:
    """Return whether what follows an answer begins by going on with the task."""
    return NEXT_STEP.begins(rest.lstrip())
