"""How much the words around a value speak against its being the answer: their weights."""

import re

from verifiers.extraction.context.weights import SPACELESS, pairs, total, weights, words_in

SENTENCE_ENDS = re.compile(r"(?<=[.!?;])\s+(?=\S)|\n+|[。！？；]")
# A word of the value's own sentence, among the names of its features.
WORDS = re.compile(rf"(?<!\S)[ab]:(?:[^\W\d_]{{2}}|{SPACELESS})")
BEFORE, AFTER = 400, 300
STOPS = " .,;:!。"
MOST_WORDS = 40
MOST_PLACES = 2
LONGEST = 200
# A value whose words weigh more than the first in each of its last places is not what the response
# states, and one in a box only from the second on; one whose words weigh less than the third is
# stated without any mark.
AGAINST, AGAINST_BOXED, FOR = 2.0, 3.0, -1.0
BOX = "boxed"
NEAR = 20


def features(text: str, start: int, end: int) -> set[str]:
    """Return the words around text[start:end] and their pairs, by where they stand: before (b)
    and after (a) it in its sentence, right beside it (l, r), in the sentence before (p)."""
    earlier, before = _last_sentence(text[max(0, start - BEFORE) : start])
    after = words_in(SENTENCE_ENDS.split(text[end : end + AFTER], maxsplit=1)[0])
    left, right = ["^", *before[-MOST_WORDS:]], [*after[:MOST_WORDS], "$"]
    said = {"b": left, "a": right, "p": ["^", *earlier[-MOST_WORDS:]]}
    named = {f"{place}:{pair}" for place, words in said.items() for pair in pairs(words)}
    named |= {f"l:{' '.join(left[-many:])}" for many in (1, 2, 3)}
    named |= {f"r:{' '.join(right[:many])}" for many in (1, 2)}
    last = "end" if not text[end:].strip(" .$)}]*\n") else "more"
    return {*named, f"lr:{left[-1]} {right[0]}", last}


def _last_sentence(before: str) -> tuple[list[str], list[str]]:
    """Return the words of the sentence before the one that a text ends in, and of that one."""
    *_, earlier, last = ["", "", *SENTENCE_ENDS.split(before)]
    words = words_in(last)
    return (words_in(earlier), words) if words else ([], words_in(earlier))


def places(text: str, value: str) -> list[tuple[int, int]]:
    """Return where a value stands last in a text, or in its boxes if it does, the last place
    first."""
    value = value.strip().rstrip(STOPS)
    if not 0 < len(value) <= LONGEST:
        return []
    whole = re.compile(rf"(?<![A-Za-z0-9.]){re.escape(value)}(?![A-Za-z0-9]|\.\d)")
    found = [match.span() for match in whole.finditer(text)]
    boxed = [place for place in found if _in_box(text, place[0])]
    return (boxed or found)[: -MOST_PLACES - 1 : -1]


def _in_box(text: str, start: int) -> bool:
    return text[max(0, start - NEAR) : start].rstrip(" ${").endswith(BOX)


def not_its_answer(text: str, value: str) -> bool:
    """Return whether the words around a value, wherever it stands last, speak against it; signs
    alone do not."""
    found = places(text, value)
    return bool(found) and all(_denied(text, *place) for place in found)


def _denied(text: str, start: int, end: int) -> bool:
    names = features(text, start, end)
    limit = AGAINST_BOXED if _in_box(text, start) else AGAINST
    return WORDS.search(" ".join(names)) is not None and _weight(names) > limit


def weight(text: str, start: int, end: int) -> float:
    """Return the weight of the words around text[start:end] against its being the answer, in
    log-odds."""
    return _weight(features(text, start, end))


def _weight(names: set[str]) -> float:
    return total(weights("words_around"), names) / 10
