"""Whether a text is a value that the grammar reads, or prose."""

import re
from functools import lru_cache

from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import LONGEST_KEPT, normalize
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError
from verifiers.grammar.units import SPELLINGS
from verifiers.grammar.vocabulary import FUNCTIONS

YES_OR_NO = re.compile(
    r"(?:(?:so|thus|hence|therefore|also|donc)[,\s]+)?(yes|no|true|false|ja|nein|oui|non|sí|sim|да|нет)\b(?=[,.;!]|:\s+(?!\$?\d)|\s+(?:it|they|he|she|we|you)\s+(?:is|are|can|does|do)\b|\s+[—–-]\s)(?!\W+(?:(?:and|or|but|maybe|"
    r"perhaps)\W+){0,2}(?:yes|no|not|true|false|maybe|perhaps)"
    r"\s*(?:[^\w\s]|$))",
    re.I,
)
MATHEMATICAL = re.compile(r"[\d\\=<>+*/^_√π∞-]")
PROSE_WORD = re.compile(r"(?<![\\A-Za-z])(?![A-Z]{2,3}(?![A-Za-z]))[A-Za-z]{2,}")
KANA = re.compile(r"[\u3041-\u3096]{3}")
TEXT_GROUP = re.compile(r"\\[A-Za-z]+\s*\{[^{}]*\}")
NOT_PROSE = (
    FUNCTIONS.keys() | SPELLINGS.keys() | {"and", "or", "sqrt", "pi", "per", "square", "cubic"}
)
# A command that an operand has to follow: where it stands last, a value is cut off.
UNFINISHED = r"\\(?:cdot|times|div|pm|[dt]?frac|sqrt)"
LONGEST_PROSE = 2_000
LONGEST_BARE = 300


def is_value(text: str) -> bool:
    """Return whether a text can be read as mathematics or a short choice, not as prose."""
    if is_plain_number(text):
        return True
    return _reads(text) if len(text) > LONGEST_KEPT else _reads_kept(text)


def _reads(text: str) -> bool:
    usual = normalize(text)
    try:
        return not parse(usual).has("text") and not is_prose(usual)
    except ParseError:
        return False


_reads_kept = lru_cache(maxsize=4096)(_reads)


def is_prose(text: str) -> bool:
    """Return two words or more outside LaTeX that are neither functions, units nor connectives."""
    if len(text) > LONGEST_PROSE:
        return False
    if not text.isascii() and KANA.search(text):
        return True
    found = set(PROSE_WORD.findall(TEXT_GROUP.sub(" ", text))) - {"and", "or"}
    if not MATHEMATICAL.search(text) and len(text.split()) > 1:
        return bool(found)
    return len(found - NOT_PROSE) >= 2


def parsed(text: str) -> Node | None:
    try:
        return parse(normalize(text))
    except ParseError:
        return None
