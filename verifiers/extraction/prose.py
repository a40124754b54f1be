"""Find the values in a sentence: formulas between $ signs, and numbers and formulas outside."""

import re

from verifiers.extraction.marks import Span
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.units import SPELLINGS
from verifiers.grammar.vocabulary import FUNCTIONS, SCALES

# Limits that keep every scan linear, far above what a person writes.
LONGEST_FORMULA = 1_000  # characters
MOST_UNCLOSED = 20  # opening signs without a closing one; after them no formula is looked for
LONGEST_JOINER = 200  # characters
NAME_BEFORE_VALUE = 12  # characters, as "x_{10} = "

CLOSING_SIGN = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
OPENING_SIGN = re.compile(r"(?<!\\)(?:\$\$?|\\[(\[])")
# "$5 and" is money and opens no formula, "$5 + x$" is one.
MONEY = re.compile(r"\s?\d[\d.,]*\s(?![-+*/=<>^\\])")
DISPLAY = re.compile(r"\\\[.{0,999}?\\\]|\$\$.{0,999}?\$\$", re.S)
SENTENCE_END = re.compile(
    r"(?:(?:[.?]|(?<=[A-Za-z]{3})!)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\.\.\.)(?=[\s*_\"')]{0,9}(?:\s|$))|[。！？]|\n)+"
    r"[*_\"')]*"
)
NAME = r"(?:[A-Za-z](?:_\{?\w{1,3}\}?)?\s{0,3}(?:=|\\in(?![a-z]))\s{0,3})"
NAME_BEFORE = re.compile(rf"{NAME}$")
JOINER = re.compile(  # atomic groups: Python 3.11.2 misses matches of possessive ones
    r"(?>(?:\n\s*(?:[-*•]|\d\d?[.)])\s|[\s,;.$&，、；]|\\[()\[\],;! ]|\\q?quad"
    r"|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\b(?:and|or)\b|和|或者?|\\cup"
    rf"|{NAME})*)"
)

# These tell a word of prose from a part of a formula.
TEXT_GROUP = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname)\w*\s*\{[^{}]*\}|\\[A-Za-z]+")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
FORMULA_WORDS = {*FUNCTIONS, *SPELLINGS, "and", "or", "sqrt", "pi", "per", "square", "cubic"}
MATHEMATICAL = re.compile(r"[\d\\=<>^_√π∞]")
WORD_BEYOND_ASCII = re.compile(r"[À-ÖØ-öø-ɏ\u0400-\u1fff\u3040-\u318f\u3400-\ud7ff]")
# A word cut at its accent would leave letters: 9 d of 9 días.
ACCENTED = re.compile(
    r"(?<![A-Za-z])[A-Za-z]*[À-ÖØ-öø-ɏ\u0300-\u036f][A-Za-zÀ-ÖØ-öø-ɏ\u0300-\u036f]*"
)
BEYOND_ASCII = re.compile(r"[^\x00-\x7f≤≥≠≈±√π∞°€£¥₹×·÷−–²³⁴⁵⁶⁷⁸⁹½¼¾⅓⅔∪∩∈→¬…]")
FORMULA_PART = re.compile(
    r"(?>(?:(?:sqrt|pi|sin|cos|tan|ln|log|exp|infinity|inf)(?![a-z])|\\[a-zA-Z]+|\\[$%,;!{} ]"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[^A-Za-z\\\"#@?])+)"
)
OPERATOR = "+-*/^=<>≤≥≠≈±×·÷−–|∪∩"
LONE = re.compile(r"[A-Za-z]|[-–—:.,;*_()]*")
HAS_VALUE = re.compile(r"[\dπ∞=]|sqrt|pi\b|\\[a-z]")
# Without the words that are units in a formula, and mean something else after a number in prose.
UNITS_IN_PROSE = (SPELLINGS.keys() | SCALES.keys()) - {"in", "a", "A", "s", "с"}
_ABROAD = sorted((unit for unit in UNITS_IN_PROSE if not unit.isascii()), key=len, reverse=True)
_UNIT = rf"(?:{'|'.join(_ABROAD)}|[A-Za-z]+)(?![A-Za-zÀ-ÖØ-öø-ɏ\u0400-\u052f])"
UNIT_AFTER = re.compile(
    rf"[*_ ]{{0,3}}(?:(?:square|cubic|sq\.?) )?({_UNIT}|°[CF])(?:\^?[23²³])?(?:(?:/| per ){_UNIT})?"
)
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
EDGE = " \t\n.,;:!?'\"*_`"


def is_value(text: str) -> bool:
    """Return whether the grammar reads a text to its end, and not as mere words."""
    text = normalize(text)
    if is_plain_number(text):
        return True
    formula = TEXT_GROUP.sub(" ", text)
    words = {word.lower() for word in WORD.findall(formula)} - FORMULA_WORDS
    if (
        not text
        or WORD_BEYOND_ASCII.search(formula)
        or len(words) > 1
        or (words and not MATHEMATICAL.search(text))
    ):
        return False
    tree = tree_of(text)
    return tree is not None and not tree.has("text")


def is_whole(text: str) -> bool:
    """Return whether a text is a value, or the letter of a choice and its text: (B) 7."""
    return is_value(text) or label_and_text(text) is not None


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text. A displayed formula is one line."""
    text = DISPLAY.sub(lambda display: display[0].replace("\n", " "), text)
    pieces = []
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        pieces.append(text[start:end].strip().rstrip("!"))
        start = end
    return [piece for piece in pieces if piece]


def values(sentence: str) -> list[Span]:
    """Return all values of a sentence in order."""
    spans: list[Span] = []
    position = 0
    for formula in formulas(sentence):
        spans += _plain_values(sentence, position, formula.start)
        spans.append(formula)
        position = formula.end
    return spans + _plain_values(sentence, position, len(sentence))


def formulas(text: str) -> list[Span]:
    """Return the formulas between their signs, in one scan."""
    spans: list[Span] = []
    unclosed = 0
    match = OPENING_SIGN.search(text)
    while match and unclosed < MOST_UNCLOSED:
        position = match.end()
        closing = CLOSING_SIGN[match[0]]
        end = text.find(closing, position + 1, position + LONGEST_FORMULA)
        content = text[position : max(end, 0)]
        is_formula = end >= 0
        if end < 0:
            unclosed += 1
        elif closing == "$":  # unless "$5 and $6", or \$ closes it
            is_formula = not (
                "\n" in content
                or MONEY.match(text, position)
                or content.endswith("\\")
                or text[end + 1 : end + 2].isdigit()
            )
        if is_formula:
            position = end + len(closing)
            spans.append(Span(match.start(), position, content.strip()))
        match = OPENING_SIGN.search(text, position)
    return spans


def _plain_values(text: str, start: int, end: int) -> list[Span]:
    """Return the numbers and formulas outside of signs: runs of tokens that are no words."""
    part = text[start:end]
    if not part.isascii():
        part = ACCENTED.sub(lambda word: "@" * len(word[0]), part)
        part = BEYOND_ASCII.sub("@", part)
    spans: list[Span | None] = []
    run: list[tuple[int, int]] = []
    depth = 0
    for token in re.finditer(r"[^\s@]+|@+|$", part):
        bare = token[0].strip('*_"')
        if bare and FORMULA_PART.fullmatch(bare):
            run.append((token.start() + start, token.end() + start))
            depth += sum(map(bare.count, "([")) - sum(map(bare.count, ")]"))
            depth = max(depth, 0)
            if bare[-1] not in ",;:" or depth:  # a comma inside of brackets ends nothing
                continue
        spans.append(_run_value(text, run))
        run = []
        depth = 0
    return [span for span in spans if span]


def _run_value(text: str, run: list[tuple[int, int]]) -> Span | None:
    """Return the value of a run of formula parts: all of it, or its last side, and its unit."""
    first = 0
    while first < len(run):  # "a" and "-" before a number belong to the sentence
        following = text[run[first + 1][0]] if first + 1 < len(run) else " "
        if following in OPERATOR or not LONE.fullmatch(text[slice(*run[first])].strip(EDGE)):
            break
        first += 1
    if first == len(run):
        return None
    start, end = run[first][0], run[-1][1]
    value = text[start:end].rstrip(EDGE)
    bare = value.lstrip("*_\"'`: ")
    start, value = start + len(value) - len(bare), bare
    for opening, closing in 2 * BRACKETS:  # "(about 7)" holds 7
        if value.endswith(closing) and value.count(closing) > value.count(opening):
            value = value[:-1].rstrip(EDGE)
        if value.startswith(opening) and value.count(opening) > value.count(closing):
            start, value = start + 1, value[1:]
    if not HAS_VALUE.search(value):
        return None
    head, equal, side = value.rpartition("=")
    if equal and not re.search(r"[A-Za-z]", head) and is_value(side):  # 12 + 3 = 15
        start, value = start + len(value) - len(side.lstrip()), side.strip()
    end = start + len(value)
    unit = UNIT_AFTER.match(text, end)
    if unit and unit[1] in UNITS_IN_PROSE:
        value, end = f"{value} {unit[0].strip('*_ ')}", unit.end()
    return Span(start, end, value)


def groups(text: str, spans: list[Span]) -> list[list[Span]]:
    """Return the spans of a text in groups, in which only joiners stand between the spans: "and",
    "or", commas, list marks, names as in "x = "."""
    joined: list[list[Span]] = []
    for span in spans:
        if joined and is_joined(text, joined[-1][-1].end, span.start):
            joined[-1].append(span)
        else:
            joined.append([span])
    return joined


def is_joined(text: str, start: int, end: int) -> bool:
    """Return whether nothing but joiners stands between two places."""
    return end - start <= LONGEST_JOINER and JOINER.fullmatch(text, start, end) is not None


def answer_text(text: str, group: list[Span]) -> str:
    """Return the answer of a group: one value, as 1 hour 12 minutes, if all of it is one, else a
    list of its values, each with its name."""
    if len(group) == 1:
        return group[0].content
    joined_text = text[group[0].start : group[-1].end]
    if "box" not in joined_text and is_value(joined_text):
        return joined_text
    items = []
    for span in group:
        name = NAME_BEFORE.search(text, max(0, span.start - NAME_BEFORE_VALUE), span.start)
        has_name = name is not None and "=" not in span.content
        items.append(f"{name[0]}{span.content}" if name and has_name else span.content)
    return ", ".join(items)
