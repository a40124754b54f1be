"""The values in a sentence: formulas between signs, numbers and formulas beside them."""

import re

from verifiers.extraction.marks import Piece
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.units import SPELLINGS
from verifiers.grammar.vocabulary import FUNCTIONS, SCALES

LONGEST_SPAN = 1_000
MOST_UNCLOSED = 20
"""Opening signs without their closing ones after which a text has no more formulas."""
LONGEST_JOINER = 200

CLOSING_SIGN = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
OPENING_SIGN = re.compile(r"(?<!\\)(?:\$\$?|\\[(\[])")
# "$5 and" is money and opens no formula; "$5 + x$" does.
MONEY = re.compile(r"\s?\d[\d.,]*\s(?![-+*/=<>^\\])")
DISPLAY = re.compile(r"\\\[.{0,999}?\\\]|\$\$.{0,999}?\$\$", re.S)
SENTENCE_END = re.compile(
    r"(?:(?:[.?]|(?<=[A-Za-z]{3})!)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\.\.\.)(?=[\s*_\"')]{0,9}(?:\s|$))|[。！？]|\n)+"
    r"[*_\"')]*"
)
NAME = r"(?:[A-Za-z](?:_\{?\w{1,3}\}?)?\s{0,3}(?:=|\\in(?![a-z]))\s{0,3})"
NAME_BEFORE = re.compile(rf"{NAME}$")
JOINER = re.compile(
    r"(?:\n\s*(?:[-*•]|\d\d?[.)])\s|[\s,;.$&，、；]|\\[()\[\],;! ]|\\q?quad"
    r"|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\b(?:and|or)\b|\\cup"
    rf"|{NAME})*+"
)

# What is a word of prose, and not of a formula.
TEXT_GROUP = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname)\w*\s*\{[^{}]*\}|\\[A-Za-z]+")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
FORMULA_WORDS = {*FUNCTIONS, *SPELLINGS, "and", "or", "sqrt", "pi", "per", "square", "cubic"}
MATHEMATICAL = re.compile(r"[\d\\=<>^_√π∞]")
BEYOND_ASCII = re.compile(r"[^\x00-\x7f≤≥≠≈±√π∞°€£¥₹×·÷−–²³⁴⁵⁶⁷⁸⁹½¼¾⅓⅔∪∩∈→¬…]")
FORMULA_PART = re.compile(
    r"(?:(?:sqrt|pi|sin|cos|tan|ln|log|exp|infinity|inf)(?![a-z])|\\[a-zA-Z]+|\\[$%,;!{} ]"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[^A-Za-z\\\"#@?])++"
)
OPERATOR = "+-*/^=<>≤≥≠≈±×·÷−–|∪∩"
LONE = re.compile(r"[A-Za-z]|[-–—:.,;*_()]*")
HAS_VALUE = re.compile(r"[\dπ∞=]|sqrt|pi\b|\\[a-z]")
UNIT = re.compile(
    r"[*_ ]{0,3}(?:(?:square|cubic|sq\.?) )?([A-Za-z]+|°[CF])(?:\^?[23²³])?(?:(?:/| per )[a-z]+)?"
)
# Words that are units elsewhere, and mean something else after a number in prose.
UNITS = (SPELLINGS.keys() | SCALES.keys()) - {"in", "a", "A", "s"}
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
EDGE = " \t\n.,;:!?'\"*_`"


def is_value(text: str) -> bool:
    """Return whether the grammar reads a text to its end, as something else than words."""
    text = normalize(text)
    if is_plain_number(text):
        return True
    words = {word.lower() for word in WORD.findall(TEXT_GROUP.sub(" ", text))} - FORMULA_WORDS
    if not text or len(words) > 1 or (words and not MATHEMATICAL.search(text)):
        return False
    tree = tree_of(text)
    return tree is not None and not tree.has("text")


def is_whole(text: str) -> bool:
    """Return whether a text is a value, or a choice with what it says: (B) 7."""
    return is_value(text) or label_and_text(text) is not None


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text; a displayed formula is one line."""
    text = DISPLAY.sub(lambda display: display[0].replace("\n", " "), text)
    pieces = []
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        if piece := text[start:end].strip().rstrip("!"):
            pieces.append(piece)
        start = end
    return pieces


def values(sentence: str) -> list[Piece]:
    """Return all values of a sentence in order."""
    found: list[Piece] = []
    position = 0
    for formula in _formulas(sentence):
        found += _plain_values(sentence, position, formula.start)
        found.append(formula)
        position = formula.end
    return found + _plain_values(sentence, position, len(sentence))


def _formulas(text: str) -> list[Piece]:
    """Return the formulas between their signs, in one scan."""
    found: list[Piece] = []
    position = unclosed = 0
    while unclosed < MOST_UNCLOSED and (match := OPENING_SIGN.search(text, position)):
        position = match.end()
        closing = CLOSING_SIGN[match[0]]
        end = text.find(closing, position + 1, position + LONGEST_SPAN)
        content = text[position : max(end, 0)]
        is_dollar = closing == "$"
        if end < 0 or (is_dollar and ("\n" in content or MONEY.match(text, position))):
            unclosed += end < 0
            continue
        if is_dollar and (content.endswith("\\") or text[end + 1 : end + 2].isdigit()):
            continue  # \$, or "$5 and $6"
        position = end + len(closing)
        found.append(Piece(match.start(), position, content.strip()))
    return found


def _plain_values(text: str, start: int, end: int) -> list[Piece]:
    """Return the numbers and formulas outside of signs: runs of what is no word of prose."""
    part = BEYOND_ASCII.sub("@", text[start:end])
    found: list[Piece] = []
    run: list[tuple[int, int]] = []
    depth = 0
    for token in re.finditer(r"[^\s@]+|@+|$", part):
        bare = token[0].strip('*_"')
        if bare and FORMULA_PART.fullmatch(bare):
            run.append((token.start() + start, token.end() + start))
            is_open = depth + sum(map(bare.count, "([")) - sum(map(bare.count, ")]"))
            depth = max(is_open, 0)
            if bare[-1] not in ",;:" or depth:  # a comma inside of brackets ends nothing
                continue
        if piece := _value_of_run(text, run):
            found.append(piece)
        run, depth = [], 0
    return found


def _value_of_run(text: str, run: list[tuple[int, int]]) -> Piece | None:
    """Return the value of a run of formula parts: all of it, or its last side, and its unit."""
    first = 0
    for number, token in enumerate(run):  # "a", "-" before a number are of the sentence
        follows = text[run[number + 1][0]] if number + 1 < len(run) else ""
        is_lone = LONE.fullmatch(text[slice(*token)].strip(EDGE)) is not None
        if not is_lone or (follows and follows in OPERATOR):
            break
        first = number + 1
    if first == len(run):
        return None
    start, end = run[first][0], run[-1][1]
    value = text[start:end].rstrip(EDGE)
    start += len(value) - len(value := value.lstrip("*_\"'`: "))
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
    unit = UNIT.match(text, end)
    if unit and unit[1] in UNITS:
        value, end = f"{value} {unit[0].strip('*_ ')}", unit.end()
    return Piece(start, end, value)


def groups(text: str, pieces: list[Piece]) -> list[list[Piece]]:
    """Return the pieces of a text in runs with only joiners between: "and", "or", commas, list
    marks, names as in "x = "."""
    found: list[list[Piece]] = []
    for piece in pieces:
        if found and is_joined(text, found[-1][-1].end, piece.start):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def is_joined(text: str, start: int, end: int) -> bool:
    """Return whether nothing but joiners stands between two places."""
    return end - start <= LONGEST_JOINER and JOINER.fullmatch(text, start, end) is not None


def listed(text: str, group: list[Piece]) -> str:
    """Return the pieces of a group as one list, each with its name; or as the one value that they
    are together: 1 hour 12 minutes."""
    if len(group) == 1:
        return group[0].content
    start, end = group[0].start, group[-1].end
    if "box" not in text[start:end] and is_value(text[start:end]):
        return text[start:end]
    items = []
    for piece in group:
        name = NAME_BEFORE.search(text, max(0, piece.start - 12), piece.start)
        items.append(f"{name[0] if name and '=' not in piece.content else ''}{piece.content}")
    return ", ".join(items)
