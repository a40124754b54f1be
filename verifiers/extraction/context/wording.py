"""Words that deny, doubt, change or join a value, in the languages that responses have."""

import re

from verifiers.grammar.gates import WORD as WHOLE
from verifiers.grammar.gates import possible, registered_words, words_of
from verifiers.grammar.tables import table
from verifiers.grammar.vocabulary import FOREIGN_SCALES, words


def listed(words: str) -> str:
    """Return the words of a string as one alternative, longest first; `_` stands for a space."""
    by_length = sorted(set(words.split()), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace("_", r"\s+") for word in by_length)


SENTENCE_MARKS = frozenset(".:!?)]},;0123456789")


class Words:
    """A vocabulary: words that stand whole, and pieces of scripts without spaces that may not."""

    def __init__(self, whole: str, anywhere: str = "") -> None:
        self.source = whole, anywhere
        known = {word.replace("_", " ").casefold() for word in whole.split()}
        self.single = {word for word in known if WHOLE.fullmatch(word)}
        self.by_first: dict[str, list[str]] = {}
        self.by_last: dict[str, list[str]] = {}
        for phrase in sorted(known - self.single):
            pieces = WHOLE.findall(phrase)
            self.by_first.setdefault(pieces[0], []).append(phrase)
            self.by_last.setdefault(pieces[-1], []).append(phrase)
        self.pieces = tuple(piece.replace("_", " ") for piece in anywhere.split())
        self.longest = 2 + max((len(phrase) for phrase in known), default=0)
        first = self.single | self.by_first.keys()
        self.bits = registered_words(first, beyond_ascii=bool(self.pieces))

    def __or__(self, other: "Words") -> "Words":
        whole, anywhere = (f"{a} {b}" for a, b in zip(self.source, other.source, strict=True))
        return Words(whole, anywhere)

    def search(self, text: str) -> bool:
        """Return whether any of the words stands in a text."""
        if not possible(text) & self.bits:
            return False
        found = words_of(text)
        if not self.single.isdisjoint(found):
            return True
        text = text.casefold()
        for first in self.by_first.keys() & found:
            if any(
                phrase in text and _stands_whole(phrase, text) for phrase in self.by_first[first]
            ):
                return True
        return not text.isascii() and any(piece in text for piece in self.pieces)

    def ends(self, text: str) -> bool:
        """Return whether a text ends in one of the words."""
        if text[-1:] in SENTENCE_MARKS:
            return False
        text = text[-self.longest :].casefold()
        last = "".join(WHOLE.findall(text)[-1:])
        if last in self.single and text.endswith(last):
            return True
        phrases = self.by_last.get(last, ())
        if any(text.endswith(phrase) and _stands_whole(phrase, text) for phrase in phrases):
            return True
        return not text.isascii() and text.endswith(self.pieces or ("\0",))

    def begins(self, text: str) -> bool:
        """Return whether a text begins with one of the words."""
        text = text.casefold()
        match = WHOLE.match(text)
        first = match[0] if match else ""
        if first in self.single:
            return True
        phrases = self.by_first.get(first, ())
        if any(text.startswith(phrase) and _stands_whole(phrase, text) for phrase in phrases):
            return True
        return not text.isascii() and text.startswith(self.pieces or ("\0",))


def _stands_whole(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


# Joining words: between values they make a list.
OR = table("wording")["or"]
AND = "and und et y e и а і й oraz en och og ja és ve ile και و और एवं এবং và dan ו și a i та"
JOINT = (
    rf"(?:(?<!\w)(?:{listed(f'{AND} {OR}')})(?!\w)"
    "|和|或者|或|及|与|與|または|と|および|과|와|및|또는|และ|หรือ)"
)
EITHER = re.compile(rf"(?<!\w)(?:{listed(OR)})(?!\w)|或|または|또는|หรือ", re.I)

# Outside English a negation anywhere in the clause counts; English has its own patterns below.
NEGATION = Words(*table("wording")["negation"])
WRONG = Words(*table("wording")["wrong"])
DOUBT = Words(*table("wording")["doubt"])
# A value is thrown away, or only said under a condition or by others.
REJECTED = Words(*table("wording")["rejected"])
NOT_SAID = Words(*table("wording")["not_said"])
QUESTION = re.compile(
    r"[?？؟](?=[\s\"”'’*_)»」$]*$)|吗[?？。.]?\s*$|ですか|ますか|でしょうか|습니까|인가요|일까"
)

# What makes another value of the number beside it: before it (with articles between) or after it.
CHANGES_NEXT = Words(*table("wording")["changes_next"])
NUMBERED = Words(table("wording")["numbered"])
NAMED_BY = re.compile(
    r"\b(?:(?:the|an?|its|our|this)\s+(?:\w+\s+)?|has\s+|have\s+|with\s+)\w+$", re.I
)
CHANGES_BEFORE = Words(*table("wording")["changes_before"]) | Words("", " ".join(FOREIGN_SCALES))
BOUNDS = table("wording")["bounds"]
ARTICLES = words(table("wording")["articles"])
BESIDE = " \t\n$\\({*'’-\""
LAST_WORD = re.compile(r"(?s:.*)(?<!\w)(\w+)$")
SHORT_WORD = re.compile(r"\w{1,3}\s+|[的の의]\s*")
AFTER_MARKS = " \t\n$)\\*'’\"-"
CLOSES = ".,;}]"
KEEPS = re.compile(
    r"\b(?:(?:round|add|sum|com|work)\w*\s+(?:\w+\s+)?up\s+to|no(?:ne)?\s+other\s+than|hand(?:s|ed|ing)?\s+over"
    r"|read(?:s|ing)?\s+(?:\w+\s+)?off|\ban?\s+(?:quotient|sum|product|difference|remainder)\s+of)$",
    re.I,
)
NAME_OF = re.compile(r"\b[a-z]\s*=\s*$")
AREA_UNIT = re.compile(
    r"^[\s$*]*(?:(?:平方|立方)?(?:[厘分毫千公][米尺里升克瓦分斤顷]|米|センチ|キロ|メートル)|(?:平方|立方)m|百分|(?:(?:سانتی|سنتی|کیلو|سنتي|كيلو)?\u200c?\s?متر|سم|م|سنتيمتر)\s?ا?ل?(?:مربع|مكعب|مکعب))"
)
SHARE_OF = re.compile(r"(?:\d\s?\\?%|\d/\d+|\\[dt]?frac\S{1,12}|per\s?cent)\$?\s+of$")
ABUTS = re.compile(
    r"(?<=[\u3040-\u9fff\uac00-\ud7af])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u3040-\u9fff])"
)
A_TIME = re.compile(
    r"[\s$)}]*\s(?:second|minute|hour|day|week|month|year)s?\b(?!\s+(?:before|after|and))", re.I
)
OVER_A_TIME = re.compile(
    r"[\s$*]*(?:(?!summed|averaged|taken|added)[a-z]+\s+){0,3}over\s+(?:the|a|an|this|that)\s", re.I
)
THAN_SOMEBODY = re.compile(
    r"[\s$}]*(?:more|less|fewer)\s+than\s+(?:[A-Z][a-z]+|he|she|they|him|her|his|their)\b"
)
TIMES_AS = re.compile(r"[\s$*]*times\s+as\s+[a-z]+\s+(?:as\b|[a-z]+\s+(?:as|than)\b)", re.I)
IMAGE_OF = re.compile(
    r"\b(?:supplement|absolute\s+value|reflection|image|negative|inverse|opposite|reciprocal|complement|projection|conjugate)\s+of"
    r"(?:\s+the)?(?:\s+(?:point|number|value|answer|vector|interval|set))?$",
    re.I,
)
OPERAND = re.compile(r"[\d)}$]\s*,?\s*(?:increased|decreased)\s+by$", re.I)
UP_TO_HERE = re.compile(r"\bbetween\s+\$?-?[\w.]{1,20}\$?\s+and$", re.I)
AND_NEXT = re.compile(r"[\s$)]*(?:and|&|y|e|et|und|en|и|і|i|och|og|și|a)\s")
PART_OF = re.compile(
    r"\s*(?-i:BCE?\b|B\.C\.)|"
    r"[\s$}]*(?:\\?%|percent|per cent)[\s$}]*\s+of\s+(?:\$?[\d\\(]|[k-z]\b|that\b|this\b|it\b|"
    r"the\s+\$?\d|the\s+(?:answer|result|number|total|sum|above|price|amount)\b)|"
    r",?\s*(?:and\s+)?then\s+[a-z]{3,}|[\s$]*times\s+\$?(?:\\?pi\b|π|\\sqrt|\d|[k-z]\b|two|three|four|ten|that\b|this\b|its\b)",
    re.I,
)
COMPUTES = "|".join(table("wording")["computes"])
# What is at least 7 is bounded; "he needs at least 7" states the least number.
IS_BOUNDED = re.compile(
    rf"(?:\b(?:is|are|(?<!can\s)be|ist|est|es|è|é|jest|to|är|er|on|là|adalah|равен)|[:：是は])\s*(?:{listed(BOUNDS)})$",
    re.I,
)
BOTH_AFTER = re.compile(
    rf"[\s$)}}]*(?:(?:sets|groups|lots|copies)\s+of|\\?%\s?(?:of|de|di|von|van|от|av)|[的の의]|mais|分[之の]|(?:{COMPUTES}))"
    r"\s*\$?\d+(?!\s*[=≈])|[\s$)]*[和と와과]\s?\d+\s?(?:之间|の間|사이)",
    re.I,
)
BETWEEN = re.compile(
    r"(?<!\w)(?:between|entre|zwischen|tra|fra|tussen|между|між|mellan|mellem|mellom|între|mezi|między)$",
    re.I,
)
BOTH = re.compile(rf"[\d%]\s*(?:{COMPUTES})$", re.I)
NEEDS = Words(table("wording")["needs"], table("wording")["needs_pieces"])
BOUND = Words(BOUNDS, table("wording")["bound_pieces"])
OPENED = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox)\s*\{([^{}]*)\}|\\(?:quad|qquad|[,;:! ])")


def opened(after: str) -> str:
    """Return what follows a value with words out of \\text{…} and plain spaces."""
    return OPENED.sub(lambda match: f" {match[1] or ''}", after)


def changed(before: str, after: str) -> bool:
    """Return whether words beside a value make another of it: "half of 7", "7 squared"."""
    before = opened(before[-80:]) if "\\text" in before else before[-80:]
    if not (before.isascii() and after.isascii()):
        before, after = (ABUTS.sub(" ", beside) for beside in (before, after[:60]))
    before = (NAME_OF.sub("", before) if "=" in before else before).rstrip(BESIDE)
    if before.endswith("after") and A_TIME.match(after):
        return False
    if before.endswith(("to", "than", "over", "off", "of")) and KEEPS.search(before):
        before = ""
    if before[-1:].isalpha() and (
        BOTH.search(before)
        or (before.endswith("of") and SHARE_OF.search(before))
        or ("of" in before[-16:] and IMAGE_OF.search(before))
        or (NUMBERED.ends(before) and not NAMED_BY.search(before))
    ):
        return True
    while not (before[-1:].isalnum() and CHANGES_NEXT.ends(before)):
        word = LAST_WORD.match(before)
        if word is None or word[1].casefold() not in ARTICLES:
            break
        before = before[: word.start(1)].rstrip(BESIDE)
    else:
        return True
    if before.endswith("by") and OPERAND.search(before):
        return True
    if BOUND.ends(before) and (IS_BOUNDED.search(before) or not NEEDS.search(f"{before} {after}")):
        return True
    if before.endswith("and") and UP_TO_HERE.search(before):
        return True
    if not after.strip(AFTER_MARKS + CLOSES):
        return False
    if AND_NEXT.match(after) and BETWEEN.search(before):
        return True
    after = opened(after) if "\\" in after else after
    after = after[:60] if after.isascii() else AREA_UNIT.sub("", after[:60], count=1)
    if PART_OF.match(after) or BOTH_AFTER.match(after):
        return True
    if OVER_A_TIME.match(after) or TIMES_AS.match(after) or THAN_SOMEBODY.match(after):
        return False
    after = after.lstrip(AFTER_MARKS)
    if CHANGES_BEFORE.begins(after):
        return True
    short = SHORT_WORD.match(after)
    return short is not None and CHANGES_BEFORE.begins(after[short.end() :])
