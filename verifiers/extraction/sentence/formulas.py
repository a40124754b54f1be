"""An equation or an expression that a sentence ends in, in signs outside mathematics."""

import re

from verifiers.extraction.readable import is_value
from verifiers.grammar.literals import is_plain_number

LEADS_TO_EQUATION = re.compile(
    r"(?:,|:|\b(?:so|by|is|that|get|gives?|becomes?|equation|obtain|have|satisfies|thus|hence|therefore|then|es|ist|est|è|é|är|er|jest|to|это|là|adalah|yaitu|şudur))\s+"
)
EXPRESSION = re.compile(
    r"\b(?:with|to|is|by|expression|get|obtain|becomes|equals|gives?|are)\s+"
    r"((?:(?:\d*+[a-z](?![a-z])|\d++)[²³]?(?:\^\d)?|[-+−–*/()\s])++)\.?$"
)
# A name, or a product to multiply out: y =, f(x) =, (x − 1)(x + 1) =.
FIRST_SIDE = re.compile(
    r"(?:[^\W\d_][\w'’]{0,3}(?:\([\w ,]{1,5}\))?(?:/d\w)?|(?:\([^()=]{1,20}\)[²³]?){1,4})\s*="
)
LONGEST_SAID = 400
OPERATES = re.compile(r"[-+−–*/^²³]")


def formula_at_end(sentence: str) -> str | None:
    """Return θ = 2π/3 of "..., so θ = 2π/3", or 2n + 1 of "the nth term is given by 2n + 1"."""
    if "$" in sentence or "\\" in sentence or len(sentence) > LONGEST_SAID:
        return None
    return _equation(sentence) if "=" in sentence else _expression(sentence)


def _expression(sentence: str) -> str | None:
    found = EXPRESSION.search(sentence)
    if found is None:
        return None
    value = found[1].rstrip(" .")
    named = any(map(str.isalpha, value)) and OPERATES.search(value)
    return value if named and is_value(value) else None


def _equation(sentence: str) -> str | None:
    starts = [match.end() for match in LEADS_TO_EQUATION.finditer(sentence)]
    rests = [sentence[start:].rstrip(" .") for start in starts]
    found = [rest for rest in rests if FIRST_SIDE.match(rest) and is_value(rest)]
    found = [rest for rest in found if not is_plain_number(rest.rpartition("=")[2].strip())]
    return found[0] if found else None
