"""Whether a number in prose stands alone, or something beside it makes it a part of a value."""

import re

from verifiers.grammar.tables import pattern

OPERATOR_BEFORE = re.compile(
    r"==\s*$|[A-Za-z0-9)√∛∜∑∏∫'′]\($|[*^/×·+−-]\s?\($|[*/×·÷^√±<>≤≥≠≡＜＞@#§&|\\~_⌊⌈]\s*$|[;?!%'](?=$)"
    r"|[\w)}∞π°%]\s*[-−–+]\s*$|(?<!\w)[+]\s*$|/[-−–]\s*$|[、，。：是为は]\s?[-–]\s?$"
    r"|\d\s*(?:modulo|mod|choose|R|remainder|[xX]|(?:out\s+)?of)\s*$|(?<!from\s)(?<![A-Za-z0-9.])\d+\s+(?:to|in)\s+$|(?<![A-Za-z])(?:no|not)\s+$|\bthan\s+\w+['’]s\s+$|\^\{?[-−]?$"
)
OPERATOR_AFTER = pattern("prose", "operator_after", flags=0)
# x + 5 = 7: the unknown is yet to be found.
UNSOLVED = re.compile(
    r"(?<![A-Za-z0-9.+*/^=−-])(?<![+*/^=−-]\s)"
    r"(?:\d+[a-z]|[a-z]\s*[-+−]\s*\d+|\d+[a-z]?\s*[-+−]\s*\d*[a-z]|\d+[a-z]\s*[-+−]\s*\d+)"
    r"\s*=[\s$*-]*$"
)
APPLIED = re.compile(r"[A-Za-z0-9)]$")
SHARE = re.compile(r"(?:%|per\s?cent)[\s.]*$")
OF_A_NUMBER = re.compile(r"\s+of\s+\$?\d")
NEAR = 200
STOPS = " .,;:!"


def is_share(value: str, after: str) -> bool:
    """Return whether a percentage is one of a number: 5% of 80."""
    return SHARE.search(value) is not None and OF_A_NUMBER.match(after) is not None


def touches_nothing(sentence: str, value: str) -> bool:
    """Return whether a number in prose is no part of something that was not read."""
    start = sentence.rfind(value)
    end = start + len(value.rstrip(STOPS))
    if value[:1] in ("(", "[") and APPLIED.search(sentence[:start]) and sentence[end:].strip(STOPS):
        return False
    return not part_of_more(sentence, start, end)


def part_of_more(text: str, start: int, end: int) -> bool:
    """Return whether an operator, or an equation to be solved, is right beside text[start:end]."""
    before = text[max(0, start - NEAR) : start]
    if OPERATOR_BEFORE.search(before) or OPERATOR_AFTER.match(text, end):
        return True
    return "=" in before and UNSOLVED.search(before) is not None
