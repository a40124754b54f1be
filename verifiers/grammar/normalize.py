"""Give answers that differ only in markup one spelling, and read choices and plain words."""

import re
import unicodedata
from functools import lru_cache

from verifiers.grammar.spoken import spoken
from verifiers.grammar.vocabulary import FUNCTIONS, GREEK, RELATIONS, TEXT_GROUPS, words

GOLD_MARK = "####"
MAX_WORDS = 200  # characters of an answer in words
WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"),
            ("__", "__"), ("*", "*"))  # fmt: skip
LONGEST_PHRASE = 40  # characters of a phrase that is rewritten
LONGEST_REMEMBERED = 200  # characters of a text whose spelling is cached
RESPECTIVELY = re.compile(r",?\s+respectively$")
ONE_DOLLAR = re.compile(r"-?\$\s?\d")
THOUSANDS = re.compile(  # 12,34,567 and 1'234'567 and 1.234.567
    r"\d{1,2}(?:,\d{2})+,\d{3}|\d{1,3}(?:[\u00a0\u202f\u2009']\d{3})+|\d{1,3}(?:\.\d{3}){2,}"
)
COUNTED = r"(?:day|week|month|year|century|floor|hour|grade|place)"
TWICE = re.compile(r"([\w -]{1,40}?)\s+\((\w[\w -]{0,20}?)\)(?: ([a-z]{2,20}))?")
ORDINAL_OF = re.compile(
    rf"(?:on\s+)?(?:the\s+)?(?:(\d+(?:st|nd|rd|th))\s+{COUNTED}|{COUNTED}\s+(\d+))", re.I
)
NO_SOLUTION = re.compile(r"(?:there (?:is|are) )?(no (?:real )?solutions?) exists?", re.I)
HOURS_AND_MINUTES = re.compile(
    r"(\d+)\s?(?:h|hr|hrs)\.?\s+(?:and\s+)?(\d+)\s?(?:m|min|mins)\.?", re.I
)
INFINITELY = re.compile(r"(?:there are )?(infinitely many)(?: \w+)?", re.I)
CHANCE = re.compile(r"(?:an?\s+)?(\d.*?)\s+(?:chance|probability)", re.I)
WHEN = re.compile(r"(?:at|on)\s+(?=\d|[A-Z])")
HALF_OF_DAY = re.compile(r"(?<=\d)\s+(?:in the (morning|afternoon|evening)|at night)$", re.I)
RATE = re.compile(r"(?<=\d)(?:/|\s+an?\s+)(hour|day|week|month|year|person|piece|item)$", re.I)
MEASURED = re.compile(
    r"\b(feet|foot|inch(?:es)?|c?m|k?m|met(?:er|re)s?|miles?|years?|yards?|ft)\s+(?:tall|long|wide|high|deep|thick|old)$"
)
INCHES = re.compile(r"(?<=\d)\s?in(?:\.|(?=[²³^])|$)")
DOES_NOT_EXIST = re.compile(
    r"(?:(?:the|this)\s+(?:limit|value|derivative|integral|sum)\s+|it\s+)?"
    r"(?:dne|does\s?n['’]t\s+exist|does\s+not\s+exist)\W*",
    re.I,
)
LAST_WORD = re.compile(r"(?<=\S) ([a-z]{2,20})$")
MAY_BE_SPOKEN = re.compile(r"[^\W\d_]{2}|[^\x00-\x7f]|\d in")
ESCAPED = {"\b": "b", "\f": "f", "\t": "t", "\n": "n", "\r": "r"}
BENT = re.compile(  # a tab or a line break may also come before other words
    r"[\b\f](?=[A-Za-z])|(?:\t(?=imes|ext|extbf|extit|extrm|anh?|heta|au|riangle|op|[fb]rac|binom|ilde)"
    r"|\n(?=u|eq|abla|otin)|\r(?=ho|ight|angle|vert|floor|ceil|brace))(?=[a-z]+(?![A-Za-z]))"
)
COMMANDS = {*FUNCTIONS, *GREEK, *TEXT_GROUPS, *filter(str.isalpha, RELATIONS)} | words(
    "frac dfrac tfrac cfrac sqrt pi infty cdot times div left right begin binom pm mathbb circ"
)
DOUBLED = re.compile(rf"(?<!\\)\\\\(?:[%$]|(?:{'|'.join(COMMANDS)})(?![a-z]))")
SINGLE = re.compile(r"(?<!\\)\\[A-Za-z]")
ENVIRONMENT = re.compile(r"(?<!\\)\\begin")  # whose rows two backslashes end
PUNCTUATION = " \t\r\n.,;:"
CUT_SPACING = (r"\,", r"\;", r"\:", r"\!")  # a LaTeX space, of which no part may be stripped
EXCLAMATION = re.compile(r"(?<=[A-Za-z]{3})!+$")
INVISIBLE_EDGE = "\ufeff\u200b\u200c\u200d\u2060"
MARKUP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|textrm|textnormal|mbox|boxed|fbox|emph|textsf|texttt)\s*\{"
)
SPACE = re.compile(r"(?:\s|~|\\[,;:! ]|\\quad|\\qquad)+")
LETTER = r"(?:\(([A-J])\)|\[([A-J])\]|([A-J]))"
CHOICE_ALONE = re.compile(
    rf"(?:the )?(?:correct )?(?:option|choice|answer|answer is)?[:\s]*{LETTER}[.:)]?", re.I
)
CHOICE_WITH_TEXT = re.compile(
    r"(?:(?:option|choice) )?(?:\(([A-J])\)|([A-J])[).:：．])(?!['’])\s*(?=\S)", re.I
)
OTHER_LABEL = re.compile(r"\([A-J]\)|(?<![\w.])[A-J][).:]\s")
LABEL = re.compile(
    r"^\s*(?:\\text[a-z]*\s*\{\s*|\\math[a-z]*\s*\{\s*)?(?:(?:option|choice)\s+)?"
    r"(?:\([A-J]\)|[A-J][).:：．])\s*\}?(?:\\\s|~|\\[,;:! ]|\\quad)*",
    re.I,
)
QUOTED_LIST = re.compile(r"""\[\s*(?:'[^'"]*'|"[^"']*")(?:\s*,\s*(?:'[^'"]*'|"[^"']*"))*\s*\]""")
SCRIPT_DIGIT = re.compile(r"[^\D0-9]")
SEVERAL = re.compile(rf"{LETTER}(?:(?:[\s,;&、，；]|and|et|und|y|и|和|与|與|及)+{LETTER})+")
# C (12), C 12: of an answer to a gold that is a letter, as it may be a point or a binomial
LOOSE_CHOICE = re.compile(
    r"(?:[Oo]ption )?([A-J])\s*"
    r"(?:(?:\\left)?[(（](?!.*(?<![A-Za-z\\])[A-J](?![A-Za-z])).*[)）]|(?<=\s)[\d\\$][^A-J]*)"
)
RUN = re.compile(r"[A-J]{2,6}")


def gold_text(gold: str) -> str:
    """Return the answer in a gold field, in which GSM8K writes its solution and then `#### answer`.
    Digits of other scripts become plain ones, and commands that JSON has bent are restored."""
    gold = restored_commands(gold.rpartition(GOLD_MARK)[2]).strip().strip(INVISIBLE_EDGE)
    if QUOTED_LIST.fullmatch(gold):  # of Python or JSON
        return gold[1:-1].replace("'", "").replace('"', "")
    return gold


def plain_digits(text: str) -> str:
    """Write digits of other scripts as plain ones."""
    if text.isascii():
        return text
    return SCRIPT_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def restored_commands(text: str) -> str:
    """Restore LaTeX commands whose backslash JSON took for an escape, \frac for a form feed and
    "rac", and those whose backslash is doubled."""
    return undoubled(BENT.sub(lambda control: "\\" + ESCAPED[control[0]], text))


def undoubled(text: str) -> str:
    r"""Write \\frac as \frac, where every command is doubled and no environment has rows, and
    digits of other scripts as plain ones."""
    text = plain_digits(text)
    if "\\\\" not in text or ENVIRONMENT.search(text) or not DOUBLED.search(text):
        return text
    return text if SINGLE.search(text) else text.replace("\\\\", "\\")


def normalize(text: str) -> str:
    """Drop the wrappers and the punctuation around an answer, and rewrite its phrases."""
    return _normalized(text) if len(text) > LONGEST_REMEMBERED else _cached_normalized(text)


def _normalized(text: str) -> str:
    text = text.strip().replace(r"\!,", ",")
    if text.isalnum() and text.isascii():
        if text.upper() == "DNE":
            return "does not exist"
        return (spoken(text) if text.isalpha() else None) or text
    for _ in range(4):  # wrappers nest: **$(…)$**
        before = text
        text = text.strip()
        if text.endswith(CUT_SPACING):
            text = text[:-2]
        elif not text.endswith("..."):
            text = EXCLAMATION.sub("", text.rstrip(PUNCTUATION))
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        text = text.lstrip(" \t\r\n,;:")
        for opening, closing in WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            is_wrapped = text.startswith(opening) and text.endswith(closing)
            if is_wrapped and inner and opening not in inner:
                text = inner
        if text == before:
            break
    if text.endswith("respectively"):
        text = RESPECTIVELY.sub("", text)
    if text.count("$") == 1 and ONE_DOLLAR.match(text):
        text = text.replace("$", r"\$")
    if len(text) <= LONGEST_PHRASE:
        text = _rewritten_phrase(text)
    return (spoken(text) if MAY_BE_SPOKEN.search(text) else None) or text


_cached_normalized = lru_cache(maxsize=4096)(_normalized)


def _rewritten_phrase(text: str) -> str:
    """Write the 5th day as 5th, 7 in the evening as 7 pm, "seven (7)" as 7."""
    if THOUSANDS.fullmatch(text.lstrip("₹ ")):
        return "".join(filter(str.isdigit, text))
    words = plain_words(text) if text.startswith("\\text") else text
    time = HOURS_AND_MINUTES.fullmatch(words)
    if time:
        return f"{time[1]} hours {time[2]} minutes"
    for phrase in (ORDINAL_OF, NO_SOLUTION, INFINITELY, CHANCE):
        match = phrase.fullmatch(words)
        if match:
            return next(group for group in match.groups() if group)
    if WHEN.match(words) and words[-1] in "mM.":
        text = words = WHEN.sub("", words)
    half = HALF_OF_DAY.search(words)
    if half:
        day_half = "am" if half[1] == "morning" else "pm"
        return f"{words[: half.start()]} {day_half}"
    text = RATE.sub(r" per \1", text)
    if text[:1].isdigit():
        text = MEASURED.sub(r"\1", text)
    text = INCHES.sub(" inches", text)
    if DOES_NOT_EXIST.fullmatch(words):
        return "does not exist"
    twice = TWICE.fullmatch(words)
    if twice:
        return _one_of_two(*twice.groups()) or text
    return words if words != text and spoken(words) else text


def _one_of_two(first: str, second: str, unit: str | None) -> str | None:
    """Write "six (6) apples" and "six apples (6 apples)" as 6 apples, or return None for
    two values."""
    word = LAST_WORD.search(second)
    if unit is None and word and first.endswith(word[0]):
        unit, first, second = word[1], first[: -len(word[0])], second[: word.start()]
    value = spoken(first) or first
    if value != (spoken(second) or second):
        return None
    return f"{value} {unit}" if unit else value


def plain_words(text: str) -> str:
    """Return a text without markup, its spacing made single."""
    if MARKUP.search(text):
        text = MARKUP.sub("", text).replace("}", "")
    return SPACE.sub(" ", text.replace("$", "").replace("*", "")).strip().rstrip(PUNCTUATION)


def choices(text: str, *, with_text: bool = False, loose: bool = False) -> frozenset[str]:
    """Return the letters of a multiple-choice answer, as of B, (B), Option B, or A and C.

    `with_text`: also that of (B) 7. `loose`: also that of B (7) and B 7."""
    if len(text) > MAX_WORDS:
        return frozenset()
    words = plain_words(text)
    match = CHOICE_ALONE.fullmatch(words)
    if match:
        letter = next(group for group in match.groups() if group)
        is_bracketed = match[3] is None or words.endswith(")")
        return frozenset({letter.upper()}) if letter.isupper() or is_bracketed else frozenset()
    if SEVERAL.fullmatch(words):
        return frozenset(re.findall(r"[A-J](?![A-Za-z])", words))
    if RUN.fullmatch(words) and list(words) == sorted(set(words)):
        return frozenset(words)
    loosely = LOOSE_CHOICE.fullmatch(words) if loose else None
    if loosely:
        return frozenset({loosely[1]})
    label = label_and_text(text) if with_text else None
    return frozenset({label[0]}) if label else frozenset()


def label_and_text(text: str) -> tuple[str, str] | None:
    """Return the letter of a choice and the text it labels, as (C) 7. Return None for any other
    text, and if other choices follow."""
    if len(text) > MAX_WORDS:
        return None
    words = plain_words(text)
    match = CHOICE_WITH_TEXT.match(words)
    letter = (match[1] or match[2]) if match else ""
    if match is None or not letter.isupper() or OTHER_LABEL.search(words, match.end()):
        return None
    rest = LABEL.sub("", text, count=1).strip()
    is_balanced = rest.count("{") == rest.count("}")
    return letter, rest if is_balanced else words[match.end() :]
