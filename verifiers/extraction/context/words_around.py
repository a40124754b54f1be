"""How much the words around a value speak against its being the answer: their weights."""

import re
from collections.abc import Iterator
from itertools import islice

from verifiers.extraction.context.weights import (
    BESIDE_AFTER,
    BESIDE_BEFORE,
    SPACELESS,
    pairs,
    total,
    weights,
    words_in,
)

SENTENCE_ENDS = re.compile(r"[\s。！？；](?:(?<=[\n。！？；])\n*|(?<=[.!?;]\s)\s*)")
# A word of the value's own sentence, among the names of its features.
WORDS = re.compile(rf"(?<!\S)[ab]:(?:[^\W\d_]{{2}}|[{SPACELESS}])")
PART_BEFORE, PART_AFTER = re.compile(BESIDE_BEFORE), re.compile(BESIDE_AFTER)
BEFORE, AFTER = 200, 150
STOPS = " .,;:!。"
MOST_WORDS = 16
MOST_PLACES = 2
LONGEST = 200
# A value whose words weigh more than the first in each of its last places is not what the response
# states, and one in a box only from the second on; one whose words weigh less than the third is
# stated without any mark.
AGAINST, AGAINST_BOXED, FOR, CLEARLY_FOR = 2.0, 3.0, -1.0, -2.5
BOX, BLOCK = "boxed", "<answer>"
BOX_OPENS = re.compile(r"[ ${]{1,35}")
CLOSES = " .$)}]*\n"
LABEL = re.compile(r"\n\W*(?:(?:the|final|correct|answer|is|a|boxed)\b\W*){0,5}", re.I)
NEAR = 40


def features(text: str, start: int, end: int) -> set[str]:
    """Return the words around text[start:end] by where they stand: before (b) and after (a) it in
    its sentence, with their pairs, right beside it (l, r), in the sentence before (p)."""
    earlier, before = _last_sentence(text[max(0, start - BEFORE) : start])
    after = words_in(SENTENCE_ENDS.split(text[end : end + AFTER], maxsplit=1)[0])
    left, right = ["^", *before[-MOST_WORDS:]], [*after[:MOST_WORDS], "$"]
    last = "end" if not text[end : end + AFTER].strip(CLOSES) else "more"
    return {
        *[f"p:{word}" for word in earlier[-MOST_WORDS:]],
        *[f"b:{said}" for said in pairs(left)],
        *[f"a:{said}" for said in pairs(right)],
        *[f"l:{' '.join(left[-many:])}" for many in (1, 2, 3)],
        *[f"r:{' '.join(right[:many])}" for many in (1, 2)],
        f"lr:{left[-1]} {right[0]}",
        last,
    }


def _last_sentence(before: str) -> tuple[list[str], list[str]]:
    """Return the words of the sentence before the one that a text ends in, and of that one."""
    *_, earlier, last = ["", "", *SENTENCE_ENDS.split(before)]
    words = words_in(last)
    return (words_in(earlier), words) if words else ([], words_in(earlier))


def places(text: str, value: str) -> list[tuple[int, int]]:
    """Return where a value stands last in a text, or in its boxes if it does, the last place
    first; none for an answer block that begins its line, which says itself what it is."""
    value = value.strip().rstrip(STOPS)
    if not 0 < len(value) <= LONGEST:
        return []
    found = list(islice(_in_boxes(text, value), MOST_PLACES))
    found = found or list(islice(_anywhere(text, value), MOST_PLACES))
    said_so = BLOCK in text and any(_in_block(text, start) for start, _ in found)
    return [] if said_so else found


def _anywhere(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield where a value stands, the last place first."""
    start = text.rfind(value)
    while start >= 0:
        if _whole(text, start, len(value)):
            yield start, start + len(value)
        start = text.rfind(value, 0, start)


def _in_boxes(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield where a value is what a box begins with, the last place first."""
    box = text.rfind(BOX)
    while box >= 0:
        opened = box + len(BOX)
        inside = BOX_OPENS.match(text, opened)
        begins = range(inside.end() if inside else opened, opened - 1, -1)
        start = next((at for at in begins if text.startswith(value, at)), -1)
        if start >= 0 and _whole(text, start, len(value)):
            yield start, start + len(value)
        box = text.rfind(BOX, 0, box)


def _whole(text: str, start: int, length: int) -> bool:
    """Return whether a value at a place is no part of a longer one."""
    part = start > 0 and PART_BEFORE.match(text, start - 1)
    return not (part or PART_AFTER.match(text, start + length))


def _in_block(text: str, start: int) -> bool:
    return text[text.rfind("\n", 0, start) + 1 : start].lstrip().startswith(BLOCK)


def not_its_answer(text: str, value: str, start: int = -1) -> bool:
    """Return whether the words around a value, where it stands last and where it starts in a
    phrase, speak against it; signs alone do not, nor does a last line like "Answer: 7"."""
    found = places(text, value)
    if found and start >= 0 and text.startswith(value, start):
        found.append((start, start + len(value)))
    if not found or _ends_plainly(text, *found[0]):
        return False
    return all(_denied(text, *place) for place in found)


def _ends_plainly(text: str, start: int, end: int) -> bool:
    if text[end : end + NEAR].strip(CLOSES) or len(text) > end + NEAR:
        return False
    begin = max(0, start - NEAR, text.rfind("\n", 0, start))
    return LABEL.fullmatch(text, begin, start) is not None


def _denied(text: str, start: int, end: int) -> bool:
    boxed = text[max(0, start - NEAR) : start].rstrip(" ${").endswith(BOX)
    return _speaks(text, start, end, limit=AGAINST_BOXED if boxed else AGAINST)


def _speaks(text: str, start: int, end: int, *, limit: float) -> bool:
    """Return whether the words around a place, and not signs alone, weigh more than a limit."""
    names = features(text, start, end)
    return _weight(names) > limit and WORDS.search(" ".join(names)) is not None


def doubtful(text: str, value: str, limit: float = FOR) -> bool:
    """Return whether the words around a value, where it stands last, do not speak for it."""
    return any(_speaks(text, *place, limit=limit) for place in places(text, value)[:1])


def weight(text: str, start: int, end: int) -> float:
    """Return the weight of the words around text[start:end] against its being the answer, in
    log-odds."""
    return _weight(features(text, start, end))


def _weight(names: set[str]) -> float:
    return total(weights("words_around"), names) / 10
