"""One spelling for answers that differ only in markup; choices and plain words."""

import re

from verifiers.grammar.spoken import spoken

GOLD_MARK = "####"
MAX_WORDS = 200
WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"),
            ("__", "__"))  # fmt: skip
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
CHOICE_WITH_TEXT = re.compile(r"(?:(?:option|choice) )?(?:\(([A-J])\)|([A-J])[).:])\s*(?=\S)", re.I)
OTHER_LABEL = re.compile(r"\([A-J]\)|(?<![\w.])[A-J][).:]\s")
LABEL = re.compile(
    r"^\s*(?:\\text[a-z]*\s*\{\s*|\\math[a-z]*\s*\{\s*)?(?:(?:option|choice)\s+)?"
    r"(?:\([A-J]\)|[A-J][).:])\s*\}?(?:\\\s|~|\\[,;:! ]|\\quad)*",
    re.I,
)
SEVERAL = re.compile(rf"{LETTER}(?:(?:\s*(?:,|;|&|and)\s*)+{LETTER})+")
RUN = re.compile(r"[A-J]{2,6}")


def gold_text(gold: str) -> str:
    """The answer inside a gold field; GSM8K writes its solution first and then `#### answer`."""
    return gold.rpartition(GOLD_MARK)[2].strip().strip(INVISIBLE_EDGE)


def normalise(text: str) -> str:
    """Drop the wrappers and the punctuation around an answer."""
    text = text.strip()
    if text.isalnum() and text.isascii():
        return text
    for _ in range(4):
        before = text
        text = text.strip()
        if not text.endswith(("...", r"\,", r"\;", r"\:", r"\!")):
            text = EXCLAMATION.sub("", text.rstrip(EDGE))
        elif text.endswith((r"\,", r"\;", r"\:", r"\!")):
            text = text[:-2]
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        text = text.lstrip(" \t\r\n,;:")
        for opening, closing in WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            long_enough = len(text) > len(opening) + len(closing)
            if (
                long_enough
                and text.startswith(opening)
                and text.endswith(closing)
                and opening not in inner
            ):
                text = inner
        if text == before:
            break
    return spoken(text) or text


def plain_words(text: str) -> str:
    """The text with its markup groups opened and its spacing made single."""
    text = MARKUP.sub("", text).replace("}", "") if MARKUP.search(text) else text
    return SPACE.sub(" ", text.replace("$", "").replace("*", "")).strip().rstrip(EDGE)


def choices(text: str, *, with_text: bool = False) -> frozenset[str]:
    """The letters of a multiple-choice answer: B, (B), Option B, A and C; else nothing."""
    if len(text) > MAX_WORDS:
        return frozenset()
    words = plain_words(text)
    if match := CHOICE.fullmatch(words):
        letter = next(group for group in match.groups() if group)
        bracketed = match[3] is None
        return frozenset({letter.upper()}) if letter.isupper() or bracketed else frozenset()
    if SEVERAL.fullmatch(words):
        return frozenset(re.findall(r"[A-J]\b", words))
    if RUN.fullmatch(words) and list(words) == sorted(set(words)):
        return frozenset(words)
    if with_text and (labelled := label_and_text(text)):
        return frozenset({labelled[0]})
    return frozenset()


def label_and_text(text: str) -> tuple[str, str] | None:
    """The letter of a choice and what it labels, (C) 7; None where other choices follow."""
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


def words_alone(text: str) -> bool:
    """Whether an answer is words of more than three letters, and neither a choice nor a value."""
    if not text[-1:].isalpha() and not text.endswith("}"):
        return False
    words = plain_words(text)
    return len(words) > 3 and len(words) <= MAX_WORDS and words.replace(" ", "").isalpha()
