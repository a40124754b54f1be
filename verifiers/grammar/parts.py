"""The labelled parts of an answer: (a) 3, (b) 4; (i) and (ii)."""

import re
from typing import NamedTuple

LABEL = re.compile(
    r"(?:(?<![\w\\])part\s+)?\*{0,3}"
    r"(?:(?<![\w)\\}+/^=({·-])(?<![+/^=({·]\s)\(([a-h]|i{1,3}|iv)\)|(?<![^\s*])([a-h]|i{1,3}|iv)\)"
    r"|(?<![^\n])(?-i:([a-h]):(?=\s)))"
    r"[:.]?\*{0,3}[:.]?\s*(?:=|→|->|\\to\b)?\s*",
    re.I,
)
# A bracket that is no label but multiplied: (a)(b), (a) + 1, (a) (x); a point (2, 3) is a part.
MULTIPLIES = re.compile(
    r"\s*(?:$|[+*/^=·]|\((?![^()]*,)|\\(?:cdot|times))|\W+$|.*[-+*/^=·(]$", re.S
)
ORDERS = (["a", "b", "c", "d", "e", "f", "g", "h"], ["i", "ii", "iii", "iv"])
JOINT = re.compile(r"(?<![\s;,.*-])(?:[\s;,.*]|\\q?quad)*+(?:\band)?[\s;,*-]*$")
IN_TEXT = re.compile(r"\\(?:text\w*|mathrm)\s*\{\s*(\((?:[a-h]|i{1,3}|iv)\))[:\s]*\}")
MARGIN = " \t\r\n*-•"
LONGEST_PART = 60
MOST_LABELS = 60


class Part(NamedTuple):
    """A label, where it stands, and the text that follows it up to the next one."""

    label: str
    text: str
    start: int


def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of an answer that begins with its first one; nothing for other answers."""
    if ")" not in text[:20]:
        return ()
    text = IN_TEXT.sub(r"\1 ", text) if text.startswith("\\") else text
    lead = len(text) - len(text.lstrip(MARGIN))
    first = LABEL.match(text, lead)
    return _run(text, list(LABEL.finditer(text))[:MOST_LABELS]) if first else ()


def last_parts(text: str, count: int) -> tuple[Part, ...]:
    """Return the last run of exactly so many parts in a text; nothing if it has none."""
    labels = list(LABEL.finditer(text))[-MOST_LABELS:]
    for start in reversed(range(len(labels))):
        parts = _run(text, labels[start:])
        if len(parts) >= count:
            return parts if len(parts) == count else ()
    return ()


def as_list(text: str) -> str | None:
    """Write short parts as one list: (a) 3, (b) 4 is 3, 4; None for what is not such parts."""
    parts = [part.text for part in parts_of(text)]
    short = all(0 < len(part) <= LONGEST_PART and not re.search(r"[;,\n]", part) for part in parts)
    return ", ".join(parts) if parts and short else None


def _without_joint(part: str) -> str:
    return part[:-LONGEST_PART] + JOINT.sub("", part[-LONGEST_PART:])


def _run(text: str, labels: list[re.Match[str]]) -> tuple[Part, ...]:
    """Return the parts whose labels follow the first one in their order."""
    names = [(match[1] or match[2] or match[3]).lower() for match in labels]
    order = next((order for order in ORDERS if names[0] == order[0]), None)
    if order is None:
        return ()
    found = labels[:1]
    for match, name in zip(labels[1:], names[1:], strict=True):
        if len(found) < len(order) and name == order[len(found)]:
            found.append(match)
    if len(found) < 2:
        return ()
    ends = [match.start() for match in found[1:]] + [len(text)]
    parts = tuple(
        Part(name, _without_joint(text[match.end() : end]), match.start())
        for name, match, end in zip(order, found, ends, strict=False)
    )
    return () if any(MULTIPLIES.match(part.text) for part in parts) else parts
