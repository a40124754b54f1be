"""An inequality that a sentence ends in, in words or in signs outside mathematics: "x is greater
than 3", "all numbers between 1 and 6"."""

import re

from verifiers.extraction.context.standing import not_stated, only_offered

SIGNS = {"greater": ">", "more": ">", "larger": ">", "less": "<", "smaller": "<", "fewer": "<"}
VALUE = r"\$?([-−]?\d[\d.,]*(?:/\d+)?(?<![.,]))\$?"
LEAD = (
    r"(?:\b([a-z])\s+(?:is|lies|must\s+be|has\s+to\s+be)|\b(?:numbers?|values?(?:\s+of\s+([a-z]))?(?:\s+(?:is|are|must\s+be))?"
    r"|reals|integers?|side|must\s+(?:be|lie)|lies?|is|are))\s+(?:strictly\s+)?"
)
THAN = r"(greater|more|larger|less|smaller|fewer)\s+than(\s+or\s+equal\s+to)?\s+"
DIGIT = re.compile(r"[\d\\]")
END = r"(?:,?\s*(?:i\.\s?e\.|that\s+is|or)\s[^.]{0,40}[\])]\W*)?[\s.$)]*$"
COMPARED = re.compile(rf"{LEAD}{THAN}{VALUE}(?:,?\s+(?:and|but)\s+{THAN}{VALUE})?{END}", re.I)
BETWEEN = re.compile(
    rf"(?:{LEAD})(strictly\s+)?between\s+{VALUE}\s+and\s+{VALUE}(,?\s+inclusive)?{END}", re.I
)
EXCEPT = re.compile(
    rf"\ball\s+(?:real\s+)?(?:numbers?|values?|[a-z])(?:\s+of\s+[a-z])?,?\s+except\s+(?:for\s+)?"
    rf"(?:\$?([a-z])\s*=\s*)?{VALUE}{END}",
    re.I,
)
IN_SIGNS = re.compile(
    rf"(?<![=<>≤≥≠+*/^$\\-]\s)(?<![\w=<>≤≥≠+*/^$\\-])"
    rf"((?:[-−]?\d[\d.]*\s*[<≤]\s*)?[a-z]\s*[<>≤≥≠]\s*[-−]?\d[\d.,]*(?:/\d+)?(?<![.,])){END}"
)


def bounds_stated(sentence: str) -> str | None:
    """Return the inequality that a sentence states at its end; None for all other sentences."""
    for form, written in (
        (COMPARED, _compared),
        (BETWEEN, _between),
        (EXCEPT, lambda match: f"{match[1] or 'x'} ≠ {match[2]}"),
        (IN_SIGNS, lambda match: match[1]),
    ):
        match = form.search(sentence)
        if match is None:
            continue
        start = match.start()
        if form is not IN_SIGNS and DIGIT.search(sentence, 0, start):
            return None
        if not_stated(sentence, start, len(sentence)) or only_offered(sentence, start):
            return None
        return written(match)
    return None


def _sign(word: str, equal: str | None) -> str:
    return {">": "≥", "<": "≤"}[SIGNS[word.lower()]] if equal else SIGNS[word.lower()]


def _compared(match: re.Match[str]) -> str:
    name = match[1] or match[2] or "x"
    first = f"{name} {_sign(match[3], match[4])} {match[5]}"
    if not match[6]:
        return first
    low, high = sorted(
        ((_sign(match[3], match[4]), match[5]), (_sign(match[6], match[7]), match[8])), reverse=True
    )
    turned = {">": "<", "≥": "≤"}.get(low[0], "<")
    return f"{low[1]} {turned} {name} {high[0]} {high[1]}"


def _between(match: re.Match[str]) -> str:
    sign = "≤" if match[6] else "<"
    return f"{match[4]} {sign} {match[1] or match[2] or 'x'} {sign} {match[5]}"
