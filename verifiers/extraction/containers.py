"""Open the containers of an answer before any rule on words reads it: JSON, a choice that comes
first, code fences, marks at the end of a line."""

import re
from itertools import pairwise

JSON_ANSWER = re.compile(
    r'[{,]\s*"(?:final[ _]?)?answers?"\s*:\s*'
    r'("(?:[^"\\]|\\.)*"|\[[^\[\]{}]*\]|\{[^{}]*\}|[^\s,{}\[\]"]{1,60})\s*(?=[,}])',
    re.I | re.S,
)
"""The key "answer" or "final_answer", and its value. The rest need not be JSON: models leave quotes
and line breaks in a text as they are."""
COMMAND = re.compile(r"(?<!\\)(?:\\\\)*\\[A-Za-z]{2}")
"""A LaTeX command whose backslash is not doubled, as JSON asks."""
FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$", re.M)
END_MARKS = re.compile(r"(?<![ \t])(?:[ \t]*</?[A-Za-z|_]{2,16}>)+[ \t]*$", re.M)
"""Marks that end a line: C<eoa>."""
_LABEL = r"\n[ \t]*[*_(-]{0,3}"
_LAST_OF_LIST = "|".join(
    rf"{letter}(?!(?:(?!{_LABEL}[A-J][).:：．\n]).)*{_LABEL}{following}[).:：．\n])"
    for letter, following in pairwise("ABCDEFGHIJ")
)
FIRST_CHOICE = re.compile(
    rf"(?:[^\n]{{1,300}}[:：][ \t]*\n\s*)?[*_(]{{0,3}}({_LAST_OF_LIST})"
    r"(?:[).:：．]\S*\s[^\n]*\n|[*_)]{0,3}[ \t]*\n)",
    re.S,
)
"""A choice in the first line, or after a first line that ends in a colon, before its explanation.
It is no list of choices: the next labelled line is not that of the next letter."""


def json_answers(text: str) -> list[str]:
    """Return the answers of the JSON in a text. A list is written with commas."""
    answers = []
    for match in JSON_ANSWER.finditer(text):
        value = match[1] if COMMAND.search(match[1]) else match[1].replace("\\\\", "\\")
        items = value[1:-1].replace('"', "") if value[0] == "[" else value.strip('"')
        answers.append("" if items == "null" else items)
    return answers
