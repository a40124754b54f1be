"""An answer that the layout of a response shows: lines of values, JSON, the last row of a table."""

import json
import re

from verifiers.extraction.context.standing import ANOTHERS_LABEL, denied_before
from verifiers.extraction.places import MOST_PLACES
from verifiers.extraction.readable import is_value
from verifiers.grammar.normalize import choices
from verifiers.grammar.tables import table
from verifiers.grammar.vocabulary import words

HEADED = re.compile(r"(?:^|\n)\s*(?:#{1,6}\s+|\*\*)?([^\n]{3,40}?):?\s*\n+([^\n]{1,40})\Z")
# "## Step 3: Divide both sides by 3", and under it x = -4.
STEP_SOLVED = re.compile(r"#{1,6}\s+step\s+\d[^\n]*\n+\s*\$?[a-z]\s*=[^=\n]+", re.I)
REFUSED = (False, "rejected", "wrong", "failed", "incorrect")
ANSWER_KEYS = words(table("unmarked")["answer_keys"])
EXPLAINED = re.compile(
    r"([^\n]{1,60})\n[\s*_#]{0,10}(?:explanation|reasoning|justification|here['’]s why|because)\b",
    re.I,
)
ROW = re.compile(
    r"\|\W*(?:final )?(?:answer|result|total|solution)\W*\|\W{0,4}?([^|\n]+?)\**\s*\|\s*$", re.I
)
FIRST_CHOICE = re.compile(
    r"\(?[A-J][).]\s(?:(?!\(?[A-J][).]\s)[^\n]){1,60}\n\s*(?=\n)"
    r"(?!(?:.|\n)*\n\W{0,4}[A-J][).])"
)
STEP_LINE = re.compile(r"[^=]*(?:\d\s?[a-z]|[a-z][²^]|[+*/-])[^=]*=")
WHOLE_SPAN = re.compile(r"\$[^$]+\$")
LINE_MARK = re.compile(r"^(?:[-*+•]|\d{1,2}[.)]|(?:Part\s+)?\(?(?:[a-e]|i{1,3}|iv)\)\s*[:.]?)\s+")
HEADING = re.compile(
    r"^(?:[^\n=]{1,80}[^\n\d=]\s?[:：]"
    r"|[^\n=\d]{0,30}\b(?:solutions?|answers?|results?|roots?))[ \t]*\n",
    re.I,
)
NEAR_END = 400


def first_line(text: str) -> str | None:
    """Return a value or a choice on the first line, before a paragraph that explains it."""
    if (explained := EXPLAINED.match(text)) and is_value(explained[1]):
        return explained[1]
    line, _, rest = text.partition("\n")
    return line.rstrip(" .") if FIRST_CHOICE.match(text) and not choices(rest) else None


def last_row(text: str) -> str | None:
    """Return the value of a table's last row, if the row names the answer."""
    row = ROW.search(text, max(0, len(text) - NEAR_END))
    return row[1].strip() if row else None


def value_lines(text: str) -> str | None:
    """Return lines that are nothing but values, as one list."""
    if "\n" not in text:
        return None
    text = HEADING.sub("", text, count=1)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 < len(lines) <= MOST_PLACES:
        return None
    values: list[str] = []
    for line in lines:
        value = LINE_MARK.sub("", line)
        values.append(value[1:-1] if WHOLE_SPAN.fullmatch(value) else value)
        if STEP_LINE.match(values[-1]) or not is_value(values[-1]):
            return None
    return ", ".join(values)


def from_json(text: str) -> tuple[str, str] | None:
    """Return the answer of a JSON object that has one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    said = [found[key] for key in ANSWER_KEYS if key in found]
    refused = any(value in REFUSED for value in found.values())
    if refused or len(said) != 1 or not isinstance(said[0], str | int | float):
        return None
    return str(said[0]), "JSON"


def misheaded(whole: str) -> bool:
    """Return whether a value stands under a heading that gives it to others: Wrong answer."""
    headed = HEADED.search(whole, max(0, len(whole) - 160))
    if headed is None or not is_value(headed[2]) or STEP_SOLVED.fullmatch(headed[0].strip()):
        return False
    said = headed[1].lower().split()
    return denied_before(headed[1] + " ") or not ANOTHERS_LABEL.isdisjoint(said)
