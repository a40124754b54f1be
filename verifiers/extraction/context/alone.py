"""Whether a box stands alone, or is only an operand of what is written around it."""

import re

from verifiers.grammar.tables import pattern

NEAR = 80
SPACING = r"(?:\s|~|\\[,;:! ]|\\quad|\\qquad|&)"
SPACES_BEFORE = re.compile(rf"{SPACING}+$")
SPACE_ENDS = " \t\r\n~&\\,;:!quad"
SPACES_AFTER = re.compile(rf"{SPACING}+")
# What may stand before a box in mathematics: relations that say what it is, arrows, layout.
LEADS = pattern("alone", "leads", flags=0)
OPENS_MATH = re.compile(r"(?:\$\$?|\\\(|\\\[)$")
GROUP_BEFORE = pattern("alone", "group_before", flags=0)
TEXT_BEFORE = re.compile(
    r"\\(?:text\w*|mathrm|mbox|hbox)\s*\{[^{}]*\}$|\\(?:tag|label)\{[^{}]*\}$|\\color\{\w+\}$"
)
LIST_MARK = re.compile(r"(?:^|\n)[ \t]*(?:[-*+•–—]|#+|>|\|)[ \t]*$")
TABLE_ROW = re.compile(r"(?:^|\n)[ \t]*\|[^\n]*\|$")
ENDS_IN_WORD = re.compile(
    r"(?<!\\)(?<![A-Za-z\\])(?:[A-Za-z]{2,}|[A-Za-z]*[^\W\dA-Za-z_][^\W\d_]*)$|(?<!\w)[aAI]$"
)
FUNCTION_WORD = re.compile(
    r"(?<![A-Za-z])(?:sqrt|log|ln|lg|sin|cos|tan|exp|abs|mod|floor|ceil|not|neg)$"
)
CLOSES = re.compile(r"(?:\$\$?|\\\)|\\\]|\)|\]|\}|\\right\s*[)\]}|.]|\*\*|__|\"|”|')")
FOLLOWS = pattern("alone", "follows", flags=0)
TOUCHED = re.compile(r"(?:[\w^+/!-]|(?<!\*)\*)\$\$?$")
WORD_TOUCHES = re.compile(r"(?:[A-Za-z]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])\$\$?$")
MEMBER_AFTER = re.compile(r"\s*,\s*(?!\\(?:boxed|fbox))[-\w\\]")
RELATES = re.compile(r"\s*(?:[<>]\s*[\w\\]|:\s*\d)")
SPACED_RELATION = re.compile(r"\s+[<>]\s")
SIGNS = "－﹣‐‑‒⁻₋➖➕✕✖➗"
# A bound of an interval, one side of an equation to solve, what a limit goes to, a product.
PART_BEFORE = re.compile(
    r"(?:[\[(](?:[^\[\]()$\\\n]|\\infty)*,\s*|"
    r"(?:^|[$(\[\n.,;:]\s*)\d+\s*[a-z]\s*=\s*|\\text\{answer\}(?:\\right)?\s?\)\^\{?\d\}?\s*=\s*|_\{[^{}$]*|[\d)}]\s\*\s)$"
)
# "The side is $2a = ⬚$": the multiple is what is stated.
STATED_SO = re.compile(r"\b(?:is|are|was|be)\s+\$\d+\s*[a-z]\s*=\s*\Z")
PART_AFTER = re.compile(
    r"\s*=\s*(?:\d*\s*[a-z]\s*[-+^]|[^=$\\\n]{1,20}[-+]\s*[a-z]\b)|"
    r"\s*\\n?mid\b|[ \t]+[*×·/][ \t]*\d"
)
ASIDE_OPENS = re.compile(r"quad|\(\s*(?:\\text|[A-Za-z]{3})")
SIZE = re.compile(r"\\(?:left|[bB]igg?l?)\s*$")
MONEY = re.compile(r"\$\d[\d,]*(?:\.\d+)?(?=[.,;:)]?\s+[A-Za-z]{2}|[.;:)]?\n)")
APPLIED = re.compile(r"(?<![A-Za-z\\])[a-zA-Z]'*$")
OPERATES = re.compile(r"\s*[-+*/^_×·÷±!]|\s*\*\*\s*\d")
IN_A_LIST = re.compile(
    r"[ \t]*+(?:[,;]|and\b|&)?[ \t]*+\$?(?:-?\d[\d./]*|\\[dt]?frac\S+)\$?"
    r"(?=[ \t]*(?:,|and\b|or\b|\.?\s*$|\.?\n))"
)
AFTER_A_LIST = re.compile(r"(?:^|\n|[:.]\s)(?:(?:\$-?\d[\d./]*\$|-?\d[\d./]*)\s*[,;]\s*)+\$?$")
IN_BRACKETS = re.compile(r"\s*,\s*-?\d[\d./]*\s*[)\]]")
TOUCHES = pattern("alone", "touches", flags=0)
NOTHING_MORE = re.compile(r"[\s$.*)}\]]*\Z")


def stands_alone(text: str, start: int, end: int, *, after_box: int = 0) -> bool:
    """Return whether nothing written around text[start:end] makes another value of it.

    What stands right after a box that ends at `after_box` stands beside it.
    """
    more = None if NOTHING_MORE.match(text, end) else _among_others(text, start, end)
    if more is not None:
        return more
    if text.endswith(".", 0, start) and text[start - 2 : start - 1].isdigit():
        return False
    near = max(0, start - NEAR)
    if PART_BEFORE.search(text, near, start) and not STATED_SO.search(text, near, start):
        return False
    before = text[near:start].rstrip("$ \t\n")
    if before.endswith((",", ";")) and AFTER_A_LIST.search(text, near, start):
        return False
    if PART_AFTER.match(text, end):
        return False
    beside = after_box and not text[after_box:start].strip()
    return bool(beside or _free_before(text, start)) and _free_after(text, end)


def _among_others(text: str, start: int, end: int) -> bool | None:
    """Return whether what follows text[start:end] lets it stand; None where it does not say."""
    if MEMBER_AFTER.match(text, end) and text[:start].rstrip()[-1:] in ("(", "["):
        return not (IN_BRACKETS.match(text, end) or _in_math(text, end))
    if RELATES.match(text, end) and (_in_math(text, end) or SPACED_RELATION.match(text, end)):
        return False
    if TOUCHES.match(text, end):
        return False
    listed = IN_A_LIST.match(text, end + text.startswith("$", end))
    return False if listed and text[end : end + 1] != "}" else None


def _free_before(text: str, start: int) -> bool:
    before = text[max(0, start - NEAR) : start]
    while True:
        spaces = SPACES_BEFORE.search(before, max(0, len(before.rstrip(SPACE_ENDS)) - 1))
        bare = before[: spaces.start()] if spaces else before
        if not bare or (spaces and "\n" in spaces[0]) or OPENS_MATH.search(bare):
            touching = not spaces and bare.endswith("$") and TOUCHED.search(bare)
            return not touching or bool(WORD_TOUCHES.search(bare))
        if (LIST_MARK.search(bare) and spaces) or TABLE_ROW.search(bare):
            return True
        if not bare[-1].isprintable() or LEADS.search(bare) or TEXT_BEFORE.search(bare):
            return True
        if bare[-1] in "([":
            before = SIZE.sub("", bare[:-1])
            if APPLIED.search(before):
                return False
            continue
        if bare[-1] == "{":
            group = GROUP_BEFORE.search(bare)
            if not group:
                return False
            before = bare[: group.start()]
            continue
        if bare.endswith(("**", "__")) and not re.search(r"[\w)}]\s*(?:\*\*|__)$", bare):
            return True
        if bare.endswith(("–", "**")) and _in_math(text, start):
            return False
        if bare[-1] in SIGNS:
            return False
        if bare[-1] in "*_`\"'“”‘’«»":
            return not bare[:-1] or bare[-2] in " \n\t:(*_"
        if spaces and bare[-1] in "–—-)]}0123456789%!?" and not _in_math(text, start):
            return bare[-1] not in "-" or bare[-2:-1] in ("", " ", "\n")
        if FUNCTION_WORD.search(bare):
            return False
        if not bare[-1].isascii() and not bare[-1].isalnum():
            return bare[-1] not in "√−×·÷±∓¬≠<>≤≥∛"
        return bool(ENDS_IN_WORD.search(bare))


def _free_after(text: str, end: int) -> bool:
    position, inside = end, _in_math(text, end)
    while True:
        rest = text[position : position + NEAR]
        spaces = SPACES_AFTER.match(rest)
        bare = rest[spaces.end() :] if spaces else rest
        if not bare or (spaces and "\n" in spaces[0]):
            return True
        closing = CLOSES.match(bare)
        if closing:
            position += (spaces.end() if spaces else 0) + closing.end()
            if closing[0].startswith(("$", "\\)", "\\]")):
                return not re.match(r"[\d^_!]|\s?[×·*/^]\s?\d", text[position : position + 4])
            continue
        if inside or not spaces:
            if bare[0] == "!":
                return not inside and not re.match(r"!\s*[\w=+*/-]", bare)
            if OPERATES.match(bare) and not (not inside and bare[0] in "*_-–—"):
                return FOLLOWS.match(bare) is not None and bare[0] == "^"
            if bare[0] == "(" and not (
                spaces and (not inside or ASIDE_OPENS.search(spaces[0] + bare))
            ):
                return False
            if inside and bare[0] == "|":
                return False
        return FOLLOWS.match(bare) is not None or (bare[0].isalpha() and not inside)


def _in_math(text: str, position: int) -> bool:
    """Return whether a place lies between the marks of mathematics of its own paragraph."""
    begin = max(text.rfind("\n\n", 0, position), position - 2_000, 0)
    before = MONEY.sub("", text[begin:position])
    opened = max(before.rfind("\\("), before.rfind("\\["))
    if opened >= 0 and max(before.rfind("\\)"), before.rfind("\\]")) < opened:
        return True
    dollars = len(re.findall(r"(?<!\\)\$\$?", before))
    return dollars % 2 == 1
