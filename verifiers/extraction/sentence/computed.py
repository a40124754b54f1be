"""What a computation in words comes to: 57 of "50 shells + 7 shells = 57 shells"."""

import re

from verifiers.grammar.normalize import normalize
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import ParseError
from verifiers.values.exact import InexactError, UndefinedError, exact

COMPUTED = re.compile(r"\d.*[-+*/×÷−–x].*\d")
TIMES = re.compile(r"(?<=\d)\s*x\s*(?=[\d$])")
UNITS = re.compile(
    r"(?<=\d)\s?[A-Za-z]{1,3}/[A-Za-z]{1,3}(?![A-Za-z])|/[A-Za-z]{2,}|[A-Za-z]{2,}|[$%]"
    r"|(?<=\d),(?=\d{3})"
)
NUMBER = re.compile(r"\W*(-?\$?\d[\d,]*(?:\.\d+)?)")
LONGEST = 200


def computed_side(clause: str) -> str | None:
    """Return the last side of a chain of plain numbers with units, if its last step is right."""
    head, _, side = clause[-LONGEST:].rpartition("=")
    head = head.rpartition("=")[2]
    number = NUMBER.match(side)
    if number is None or not COMPUTED.search(head):
        return None
    plain = UNITS.sub(" ", TIMES.sub(" * ", head)).replace("–", "-")
    try:
        left, right = (
            exact(parse(normalize(text)), {}) for text in (plain, UNITS.sub("", number[1]))
        )
    except (ParseError, InexactError, UndefinedError, RecursionError):
        return None
    return side.strip() if left == right else None
