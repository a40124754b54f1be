"""Where in a text answers stand: boxes, lines that start with ####, phrases."""

import re
from typing import NamedTuple

from verifiers.extraction.context.alone import stands_alone
from verifiers.extraction.context.standing import (
    changed_beside,
    not_stated,
    only_offered,
    sentence_after,
    sentence_before,
)
from verifiers.extraction.readable import is_value
from verifiers.extraction.response.passages import boxes
from verifiers.extraction.sentence.prose import JOIN
from verifiers.extraction.statements import Statement, stated
from verifiers.grammar.tables import pattern

CALLED_WRONG = pattern("standing", "called_wrong")
CONTRAST_BEFORE = re.compile(r",?\s+(?:and\s+)?(?:not|rather than|instead of)\s+\$?$")
HASHES = re.compile(r"####[ \t]*([^\n]+)")
BETWEEN_BOXES = re.compile(
    r"(?:[a-zA-Z](?:\w|_\{?\w{1,3}\}?)?\s*=|[\s,;$.&，、；]|\\[()\[\],;! ]|\\quad|\\qquad|"
    r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\b(?:and|or)\b)*"
)
NAME_BEFORE = re.compile(r"(?<![A-Za-z\\])([a-zA-Z](?:_\{?\w\}?)?)\s*=\s*$")
MOST_PLACES = 50


class Place(NamedTuple):
    """A statement of an answer between two positions of the text."""

    start: int
    end: int
    value: str
    certain: bool
    offered: bool = False
    final: bool = False


def marked(text: str) -> list[Place]:
    """Return boxes, those that stand together as one list, and lines that start with ####."""
    groups: list[list[tuple[int, int, str]]] = []
    last = 0
    for box in boxes(text)[-MOST_PLACES:]:
        alone = stands_alone(text, *box[:2], after_box=last)
        last = box[1]
        if not alone:
            continue
        between = text[groups[-1][-1][1] : box[0]] if groups else ""
        if groups and (BETWEEN_BOXES.fullmatch(between) or JOIN.fullmatch(between.strip("$ "))):
            groups[-1].append(box)
        else:
            groups.append([box])
    places = [
        Place(
            group[0][0], group[-1][1], _joined(text, group), True, only_offered(text, group[0][0])
        )
        for group in groups
    ]
    if "#" not in text or "####" not in text:
        return places
    for match in list(HASHES.finditer(text))[-MOST_PLACES:]:
        start = text.rfind("\n", 0, match.start()) + 1
        said = text[start : match.start()].strip(" \t")
        if (said and said[-1] not in ".!?0123456789") or any(
            place.start < match.end() and start < place.end for place in places
        ):
            continue
        if is_value(match[1]) or not text[match.end() :].strip():
            places.append(Place(start, match.end(), match[1], True))
    return sorted(places, key=lambda place: place.end)


def without_denied(text: str) -> str:
    """Return the text without the boxes that it denies or changes, and without their like
    before them."""
    found = boxes(text)[-MOST_PLACES:]
    gone: list[tuple[int, int]] = []
    for at, (start, end, content) in enumerate(found):
        if not_stated(text, start, end) or changed_beside(text, start, end):
            gone += [box[:2] for box in found[: at + 1] if box[2].strip() == content.strip()]
    for start, end in gone:
        contrast = CONTRAST_BEFORE.search(text, max(0, start - 20), start)
        start = contrast.start() if contrast else start
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def offered_last(text: str, place: Place) -> bool:
    """Return whether a box after the last one that stands holds another value, and is supposed or
    offered rather than called wrong."""
    found = boxes(text)
    if not found:
        return False
    start, end, content = found[-1]
    if start < place.end or content.strip() in ("", place.value.strip()):
        return False
    return not CALLED_WRONG.search(sentence_before(text, start) + sentence_after(text, end))


def _joined(text: str, group: list[tuple[int, int, str]]) -> str:
    """Join boxes that stand together, each with the name before it: x = ⬚ and y = ⬚."""
    if len(group) == 1:
        return group[0][2]
    parts = []
    for start, _, content in group:
        name = NAME_BEFORE.search(text, max(0, start - 12), start)
        if not content.strip():
            return ""
        parts.append(f"{name[1]} = {content}" if name and "=" not in content else content)
    return ", ".join(parts)


def phrased(text: str, places: list[Place]) -> list[Place]:
    """Return statements in words; beside a marked answer only those that state a value count."""
    offset = places[-1].end if places else 0
    found = [spoken_at(said, offset) for said in stated(text[offset:]) if said.whole or not offset]
    values = [place for place in found if is_value(place.value)]
    return values if values or places else found


def spoken_at(said: Statement, offset: int = 0) -> Place:
    start = offset + said.start
    return Place(start, start, said.value, False, said.offered, said.final)
