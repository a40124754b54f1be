"""One spelling for answers that differ only in markup; choices and plain words."""

import re
import unicodedata
from functools import lru_cache

from verifiers.grammar.spoken import spoken

GOLD_MARK = "####"
MAX_WORDS = 200
WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"),
            ("__", "__"), ("*", "*"))  # fmt: skip
LONGEST_PHRASE = 40
LONGEST_KEPT = 200
RESPECTIVELY = re.compile(r",?\s+respectively$")
ONE_DOLLAR = re.compile(r"-?\$\s?\d")
GROUPED = re.compile(  # 12,34,567 and 1'234'567 and 1.234.567
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
UNIT = re.compile(r"(?<=\S) ([a-z]{2,20})$")
SAYS = re.compile(r"[^\W\d_]{2}|[^\x00-\x7f]|\d in")
EDGE = " \t\r\n.,;:"
EXCLAMATION = re.compile(r"(?<=[A-Za-z]{3})!+$")
INVISIBLE_EDGE = "\ufeff\u200b\u200c\u200d\u2060"
MARKUP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|textrm|textnormal|mbox|boxed|fbox|emph|textsf|texttt)\s*\{"
)
SPACE = re.compile(r"(?:\s|~|\\[,;:! ]|\\quad|\\qquad)+")
LETTER = r"(?:\(([A-J])\)|\[([A-J])\]|([A-J]))"
CHOICE = re.compile(
    rf"(?:the )?(?:correct )?(?:option|choice|answer|answer is)?[:\s]*{LETTER}[.:)]?", re.I
)
CHOICE_WITH_TEXT = re.compile(
    r"(?:(?:option|choice) )?(?:\(([A-J])\)|([A-J])[).:])(?!['’])\s*(?=\S)", re.I
)
OTHER_LABEL = re.compile(r"\([A-J]\)|(?<![\w.])[A-J][).:]\s")
LABEL = re.compile(
    r"^\s*(?:\\text[a-z]*\s*\{\s*|\\math[a-z]*\s*\{\s*)?(?:(?:option|choice)\s+)?"
    r"(?:\([A-J]\)|[A-J][).:])\s*\}?(?:\\\s|~|\\[,;:! ]|\\quad)*",
    re.I,
)
SCRIPT_DIGIT = re.compile(r"(?![0-9])\d")
SEVERAL = re.compile(rf"{LETTER}(?:(?:\s*(?:,|;|&|and)\s*)+{LETTER})+")
RUN = re.compile(r"[A-J]{2,6}")


def gold_text(gold: str) -> str:
    """Return the answer inside a gold field; GSM8K writes its solution first and then `####
    answer`. Digits of other scripts become plain ones."""
    gold = gold.rpartition(GOLD_MARK)[2].strip().strip(INVISIBLE_EDGE)
    if gold.isascii():
        return gold
    return SCRIPT_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), gold)


def normalize(text: str) -> str:
    """Drop the wrappers and the punctuation around an answer."""
    return _normalized(text) if len(text) > LONGEST_KEPT else _kept(text)


def _normalized(text: str) -> str:
    text = text.strip().replace(r"\!,", ",")
    if text.isalnum() and text.isascii():
        if text.upper() == "DNE":
            return "does not exist"
        return (spoken(text) if text.isalpha() else None) or text
    for _ in range(4):
        before = text
        text = text.strip()
        if not text.endswith(("...", r"\,", r"\;", r"\:", r"\!")):
            text = text.rstrip(EDGE)
            text = EXCLAMATION.sub("", text) if text.endswith("!") else text
        elif text.endswith((r"\,", r"\;", r"\:", r"\!")):
            text = text[:-2]
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        text = text.lstrip(" \t\r\n,;:")
        for opening, closing in WRAPPERS:
            if not (text.startswith(opening) and text.endswith(closing)):
                continue
            inner = text[len(opening) : -len(closing)]
            if len(text) > len(opening) + len(closing) and opening not in inner:
                text = inner
        if text == before:
            break
    text = RESPECTIVELY.sub("", text) if text.endswith("respectively") else text
    if text.count("$") == 1 and ONE_DOLLAR.match(text):
        text = text.replace("$", r"\$")
    if len(text) <= LONGEST_PHRASE:
        text = _as_usual(text)
    return (spoken(text) if SAYS.search(text) else None) or text


_kept = lru_cache(maxsize=4096)(_normalized)


def _as_usual(text: str) -> str:
    """Write the 5th day as 5th, 7 in the evening as 7 pm, "seven (7)" as 7."""
    if GROUPED.fullmatch(text.lstrip("₹ ")):
        return "".join(filter(str.isdigit, text))
    words = plain_words(text) if text.startswith("\\text") else text
    if time := HOURS_AND_MINUTES.fullmatch(words):
        return f"{time[1]} hours {time[2]} minutes"
    for phrase in (ORDINAL_OF, NO_SOLUTION, INFINITELY, CHANCE):
        if match := phrase.fullmatch(words):
            return next(group for group in match.groups() if group)
    if WHEN.match(words) and words[-1] in "mM.":
        text = words = WHEN.sub("", words)
    if match := HALF_OF_DAY.search(words):
        return f"{words[: match.start()]} {'am' if match[1] == 'morning' else 'pm'}"
    text = RATE.sub(r" per \1", text) if "/" in text or " a" in text.lower() else text
    text = MEASURED.sub(r"\1", text) if text[:1].isdigit() else text
    text = INCHES.sub(" inches", text) if "in" in text.lower() else text
    if DOES_NOT_EXIST.fullmatch(words):
        return "does not exist"
    if twice := TWICE.fullmatch(words):
        return _said_once(*twice.groups()) or text
    return words if words != text and spoken(words) else text


def _said_once(first: str, second: str, unit: str | None) -> str | None:
    """Write "six (6) apples" and "six apples (6 apples)" as 6 apples; None for two values."""
    if unit is None and (named := UNIT.search(second)) and first.endswith(named[0]):
        unit, first, second = named[1], first[: -len(named[0])], second[: named.start()]
    both = [spoken(part) or part for part in (first, second)]
    return " ".join(filter(None, (both[0], unit))) if both[0] == both[1] else None


def plain_words(text: str) -> str:
    """Return the text with its markup groups opened and its spacing made single."""
    text = MARKUP.sub("", text).replace("}", "") if MARKUP.search(text) else text
    return SPACE.sub(" ", text.replace("$", "").replace("*", "")).strip().rstrip(EDGE)


def choices(text: str, *, with_text: bool = False) -> frozenset[str]:
    """Return the letters of a multiple-choice answer: B, (B), Option B, A and C; else nothing."""
    if len(text) > MAX_WORDS:
        return frozenset()
    words = plain_words(text)
    if match := CHOICE.fullmatch(words):
        letter = next(group for group in match.groups() if group)
        bracketed = match[3] is None or words.endswith(")")
        return frozenset({letter.upper()}) if letter.isupper() or bracketed else frozenset()
    if SEVERAL.fullmatch(words):
        return frozenset(re.findall(r"[A-J]\b", words))
    if RUN.fullmatch(words) and list(words) == sorted(set(words)):
        return frozenset(words)
    if with_text and (labelled := label_and_text(text)):
        return frozenset({labelled[0]})
    return frozenset()


def label_and_text(text: str) -> tuple[str, str] | None:
    """Return the letter of a choice and what it labels, (C) 7; None where other choices follow."""
    if len(text) > MAX_WORDS:
        return None
    words = plain_words(text)
    match = CHOICE_WITH_TEXT.match(words)
    letter = (match[1] or match[2]) if match else ""
    if match is None or not letter.isupper() or OTHER_LABEL.search(words, match.end()):
        return None
    rest = LABEL.sub("", text, count=1).strip()
    whole = rest.count("{") == rest.count("}")
    return letter, rest if whole else words[match.end() :]
