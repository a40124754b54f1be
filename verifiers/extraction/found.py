"""What was found as the answer of a response: its text, checked, with what stands beside it."""

import re
from typing import NamedTuple

from verifiers.extraction.competing_answers import with_aside
from verifiers.extraction.context.hedges import labelled
from verifiers.extraction.context.wording import EITHER, JOINT
from verifiers.extraction.readable import LONGEST_BARE, YES_OR_NO, is_value
from verifiers.extraction.sentence.numbers import NUMBER_LIST
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import normalize, plain_words
from verifiers.grammar.tables import pattern
from verifiers.types import Format

LABEL = pattern("extract", "label")
CUT_WORD = re.compile(r"\b(?:or|and|to)\W*$|[\w)}]\s*[-+*/=<>]\s*$")
# "2x = 8 \\quad\\Longrightarrow\\quad x = 4": what follows is the answer.
ARROW = re.compile(
    r"\\(?:(?:Long)?(?:left)?[Rr]ightarrow|implies)(?![a-z])(?:\s|\\q?quad)*"
    r"(?=[^\s.}])"
)
LONGEST_ANSWER = 30_000
MOST_RIVALS = 12
FOREIGN_JOINT = re.compile(rf"\s*(?!and\b|or\b){JOINT}\s*", re.I)
INVISIBLE = re.compile(r"\\(?:text)?color\s*\{\s*(?:white|transparent)\s*\}")
LISTED = re.compile(
    rf"{NUMBER_LIST.pattern}|\([^()]*\)(?:\s*(?:,|{JOINT})\s*\([^()]*\))+", NUMBER_LIST.flags
)
NAMED_JOINT = re.compile(rf"(?<=\d)\s+(?!and\b|or\b){JOINT}\s+(?=[a-z]\s*=)", re.I)


class Extraction(NamedTuple):
    """The answer's text, or None and the reason; `rivals` are other answers given beside it,
    `parts` all boxes of a response that has several: one list, if the gold is one as long,
    `passage` the end of the text, which may be read in another way; `start` is where a phrase
    states it."""

    text: str | None
    reason: str
    rivals: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    passage: str = ""
    format: Format = "any"
    start: int = -1


def checked(text: str, reason: str, rivals: tuple[str, ...] = (), *, start: int = -1) -> Extraction:
    """Return a value as the answer, without its label, unless nothing is left or it is cut off."""
    if is_plain_number(text):
        return Extraction(text, reason, tuple(dict.fromkeys(rivals))[-MOST_RIVALS:], start=start)
    if "\\boxed" in text and not reason.startswith(("box", "answer tag")):
        return Extraction(None, "denied")
    if "color" in text and INVISIBLE.search(text):
        return Extraction(None, "hidden")
    if not normalize(text):
        return Extraction(None, "empty answer")
    if len(text) > LONGEST_ANSWER:
        return Extraction(None, "answer too long")
    text = ARROW.split(text.strip())[-1] if "rrow" in text or "impl" in text else text.strip()
    if match := YES_OR_NO.match(plain_words(text[:LONGEST_BARE])):
        text = match[1]
    if not text[0].isdigit():
        text = LABEL.sub(r"\1", text, count=1)
        if ":" in text and (label := labelled(plain_words(text))):
            value, anothers = label
            if anothers:
                return Extraction(None, "another's")
            text = value if "\\" not in text and is_value(value) else text
    if CUT_WORD.search(text, max(0, len(text) - 12)):
        return Extraction(None, "cut off")
    if len(text) <= LONGEST_BARE and LISTED.fullmatch(text.rstrip(" .")):
        text = FOREIGN_JOINT.sub(lambda join: " or " if EITHER.search(join[0]) else ", ", text)
    if len(text) <= LONGEST_BARE and "=" in text:
        text = NAMED_JOINT.sub(" or ", text)
    if len(text) <= LONGEST_BARE and ("(" in text or "i.e" in text or "that is" in text):
        text, rivals = with_aside(text, rivals)
    return Extraction(text, reason, tuple(dict.fromkeys(rivals))[-MOST_RIVALS:], start=start)


def beside(found: Extraction, others: list[str]) -> Extraction:
    """Return what was found with other answers that stand beside it."""
    return found._replace(rivals=(*found.rivals, *others)[-MOST_RIVALS:]) if others else found
