"""The last of the steps on a line, and a value without the words that lead to it."""

import re

from verifiers.extraction.readable import LONGEST_BARE
from verifiers.extraction.statements import LEAD
from verifiers.grammar.tables import pattern

TAIL = pattern("unmarked", "tail")
STEP = pattern("unmarked", "step")
ARROWS = re.compile(r"^[^\n]*[=<>≤≥][^\n]*→\s*(?=[^\n→]*[=<>≤≥])")
FOLLOWS = r"(?:\\(?:Long)?(?:left)?[Rr]ightarrow|\\implies|\\iff|⇒|⟹|⇔|⟺)"
CONCLUDES = re.compile(rf"(\$?)[^\n]*{FOLLOWS}(?:\s|\\q?quad)*")
SEPARATES = re.compile(rf"(?:\s|\\q?quad)*(?:\n+|[,;]\s|=>|→|{FOLLOWS})(?:\s|\\q?quad)*")
SOLUTION = re.compile(r"\$?([a-z])\s*=\s*\$?[-−]?[\d\\](?:[^=A-Za-z]|\\[a-z]+)*$")


def bare_answer(text: str) -> str:
    """Return a text without "so," before its value and "I think" after it."""
    text = TAIL.sub("", LEAD.sub("", text, count=1), count=1)
    if len(text) <= LONGEST_BARE:
        text = solved(text) or text
        text = STEP.sub("", text, count=1) if "=" in text else text
        text = ARROWS.sub("", text, count=1) if "→" in text else text
    return f"{match[1]}{text[match.end() :]}" if (match := CONCLUDES.match(text)) else text


def solved(text: str) -> str | None:
    """Return x = 120 of "2x = 240, x = 120": the last of several equations in one unknown, if it
    says what the unknown is and those before it do not."""
    if text.count("=") < 2 or len(text) > LONGEST_BARE:
        return None
    *steps, last = SEPARATES.split(text.strip().rstrip("."))
    named = SOLUTION.match(last)
    if named is None or not steps:
        return None
    unknown = re.compile(rf"(?<![A-Za-z\\]){named[1]}(?![A-Za-z])")
    for step in steps:
        if step.strip("$* ") == last.strip("$* "):
            continue
        if step.count("=") < 1 or not unknown.search(step) or SOLUTION.match(step):
            return None
    return last
