"""Take the domain or the condition off the end of an answer: 2x for x > 0, k ≥ 1."""

import re

LONGEST = 300  # characters of an answer with its condition
_NAME = r"(?:\\[a-z]{2,}|[A-Za-z])(?:_\{?\w{1,3}\}?)?"
_SIGN = (
    r"(?:\\(?:geqslant|leqslant|geqq|leqq|geq?|leq?|gt|lt|neq?|in|notin)(?![a-z])|[<>]=?|[≥≤≠∈]|!=)"
)
_SPACE = r"(?:[\s~$]|\\[,;:! ]|\\q?quad(?![a-z])|\\left(?![a-z]))"
_TEXT = r"(?:\\(?:text|mathrm|textrm)\s*\{\s*)"
_BOUND = rf"(?:[-\\\w.{{}}/]{{1,20}}{_SPACE}*{_SIGN}{_SPACE}*)?"
_RIGHT = r"(?:[\[(][^\[\]()=]{1,40}[\])]|[^,;=]){1,60}"
_CONDITION = rf"{_BOUND}{_NAME}(?:,{_SPACE}*{_NAME})*{_SPACE}*{_SIGN}{_RIGHT}"
NAME = re.compile(rf"(?<![A-Za-z\\])(?!\\(?:q?quad|left|text)){_NAME}")
SIGN = re.compile(_SIGN)
_VALUES = r"\d{1,4}(?:,\s*\d{1,4}){1,9},?\s*(?:\\[lc]?dots|\.\.\.|…)"  # n = 1, 2, 3, \ldots
RELATIONS = re.compile(
    rf"{_SPACE}*[,;]{_SPACE}*{_NAME}{_SPACE}*={_SPACE}*{_VALUES}$"
    rf"|{_SPACE}*(?:[,;]|\\q?quad|\((?=[^()]*\)[\s$.]*$)|(?<=\))\s){_SPACE}*\(?{_CONDITION}"
    rf"(?:[,;]{_SPACE}*{_CONDITION})*$"
)
WORDS = re.compile(
    rf"(?:{_SPACE}|,|\(|{_TEXT})*(?:(?<![A-Za-z\\])(?:for|if|where|when|whenever|with|provided)"
    rf"(?![A-Za-z])|\\forall(?![a-z]))(.*)$",
    re.S,
)
ALL = re.compile(
    r"\\forall(?![a-z])|(?<![A-Za-z])(?:all|any|every|each)(?![A-Za-z])|\\[lc]?dots|\.\.\.|…"
    r"|(?<![A-Za-z])(?:is|are)(?![A-Za-z])[\sa-z]*(?<![a-z])(?:an?\s+(?:[a-z]+\s+)?[a-z]+|[a-z]+s)[\s}.$]*$"
)
"""Words that make a condition of what follows: for all x, where A is a constant."""
WORDS_INSIDE = re.compile(
    r"\\forall(?![a-z])|\\(?:text|mathrm|textrm)\s*\{|[{}()$]|"
    r"(?<![A-Za-z\\])(?:for|if|where|when|whenever|with|provided|that|all|any|every|each)(?![A-Za-z])"
)


def split_condition(text: str) -> tuple[str, str]:
    """Return an answer and the condition after it, or an empty text without a condition."""
    if len(text) > LONGEST or not (SIGN.search(text) or ALL.search(text)):
        return text, ""
    words = WORDS.search(text)
    is_one = words and words.start() and not WORDS.search(words[1])
    if words and is_one and (SIGN.search(words[1]) or ALL.search(words[0])):
        return text[: words.start()], _bare(words[1])
    relations = RELATIONS.search(text)
    if relations is None:
        return text, ""
    answer = text[: relations.start()]
    name = NAME.search(relations[0])
    is_beside = name is not None and name[0] in answer and not SIGN.search(answer)
    return (answer, _bare(relations[0])) if is_beside else (text, "")


def _bare(condition: str) -> str:
    """Return a condition without the words and the signs around it."""
    return WORDS_INSIDE.sub(" ", condition).strip(" ,;.\\") or "all"
