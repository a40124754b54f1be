"""The last number of a passage of prose, with what belongs to it: lists, units, ratios."""

import re

from verifiers.extraction.context.wording import JOINT
from verifiers.extraction.readable import parsed
from verifiers.grammar.spelling import unit_abroad
from verifiers.grammar.tables import pattern
from verifiers.grammar.units import SPELLINGS

NUMBER_TEXT = (
    r"[-−+]?(?:[$€£]\s?)?(?>\d{1,3}(?:,\d{3})++|\d{1,3}(?:\.\d{3}){2,}+|\d++)(?:\.\d++|"
    r"(?::\d\d?+){1,3}(?:\s?[aApP]\.?[mM]\b| in the (?:morning|afternoon|evening)| at night)?)?"
    r"(?:\s\d{1,2}/\d{1,3}(?![\d/])|/\d++|[½⅓⅔¼¾⅛⅜⅝⅞])?(?:\s?%|\\%|[€£°])?"
)
INVISIBLE = "\u0300-\u036f\u20d0-\u20f0\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
NUMBER = re.compile(
    rf"(?<![\w.^_/√\\{{{INVISIBLE}]){NUMBER_TEXT}(?![\w^/]*\d|[{INVISIBLE}⁰¹²³⁴-⁹])", re.ASCII
)
NUMBER_LIST = re.compile(
    rf"(?<![\d.,]){NUMBER_TEXT}(?:(?:\s*(?:[,、，;]|,?\s*{JOINT})\s*|\s+){NUMBER_TEXT})+", re.I
)
PART_OF_KNOWN = re.compile(
    r"(?<![\w.,/$])(\d+)\s+(?:\w+\s+)?of\s+(?:the|these|those|its|his|her|their)\s+(?:\w+\s+)?\d+\s+[^\d]*$"
)
RATIO = re.compile(r"(?<![\d.,:])\d+(?:\.\d+)?(?:\s:\s\d+(?:\.\d+)?)+$")
NAMED = rf"[a-z](?:_\w)?\s?=\s?{NUMBER_TEXT}"
NAMED_LIST = re.compile(rf"(?<![\w=]){NAMED}(?:,?\s+{JOINT}\s+{NAMED}|,\s+{NAMED})+")
WORD = re.compile(r"\w")
COMPOUND = pattern("prose", "compound", flags=0)
AND_A_PART = pattern("prose", "and_a_part")
ROOT_AFTER = re.compile(r"\s?(?:√\s?\d+\s?)?π?")
UNIT_AFTER = re.compile(
    r"\s?([a-zA-Z]{1,12}(?:/[a-z]{1,5}(?![²³^a-z]))?)(?:[²³]|\^\d)?(?:\s+per\s+[a-z]{1,10})?(?=[\s.,;!?)]|$)"
)
UNITS_AFTER = SPELLINGS.keys() - {"in", "A", "min", "pt", "percentage"}


def last_number(text: str) -> str | None:
    """Return the last number of a text as it is meant: 2 : 5, x = 1 or x = 2, 5 kg."""
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    forms = [COMPOUND] * (len(numbers) > 1) + [AND_A_PART] * (" and " in text)
    for form in forms:
        if (found := list(form.finditer(text))) and found[-1].end() >= last.end():
            return found[-1][0]
    named = list(NAMED_LIST.finditer(text)) if "=" in text else []
    if named and not WORD.search(text, named[-1].end()):
        return named[-1][0]
    if " of " in text and (part := PART_OF_KNOWN.search(text)):
        return part[1]
    lists = list(NUMBER_LIST.finditer(text))
    if lists and lists[-1].end() >= last.end():
        start, end = lists[-1].span()
        closed = text[start - 1 : start] + text[end : end + 1]
        return text[start - 1 : end + 1] if closed in ("()", "[]", "[)", "(]") else lists[-1][0]
    root = ROOT_AFTER.match(text, last.end())
    end = root.end() if root else last.end()
    if " : " in text and (ratio := RATIO.search(text[: last.end()])):
        return ratio[0]
    unit = UNIT_AFTER.match(text, end)
    known = unit is not None and unit[1].partition("/")[0] in UNITS_AFTER
    whole = text[last.start() : unit.end() if unit and known else end]
    if unit is None and (abroad := unit_abroad(text, end)):
        return text[last.start() : abroad].replace("$", " ")
    return whole.rstrip() if parsed(whole) is not None else last[0]
