"""Whether what follows an answer overturns it: it is refused, taken back, or replaced."""

import re
from functools import lru_cache

from verifiers.extraction.context.abroad import denies_answer
from verifiers.extraction.context.later_words import AGAINST, against, passages, speaks_against
from verifiers.extraction.context.wording import REJECTED, WRONG, Words
from verifiers.grammar.tables import gated, pattern, table

NONE_ABOVE = re.compile(r"\W*none\s+of\s+the\s+above\W*", re.I)
CHOICE_FIRST = re.compile(r"\W*(?:\(([A-J])\)|([A-J])[).:]|([B-HJ])\s|([a-j])\))")
CHOICE = re.compile(r"(?:\\text\s*\{)?\(?([A-Ja-j])\)?\}?")
COMPUTES = re.compile(r"[0-9=]")
ANNOUNCED = pattern("aftermath", "announced", flags=0)
ABROAD = WRONG | REJECTED | Words(*table("aftermath")["abroad"])
ASKED = gated("aftermath", "asked_abroad")
FORM = pattern("aftermath", "form_abroad")
OTHERS_ABROAD = table("aftermath")["others_abroad"].split()
SENTENCE = re.compile(r"[^\n.!?;。！？；]+(?:\.(?=\w)[^\n.!?;。！？；]*)*[.!?;。！？；]*")
ENDED = re.compile(r"[\s$)\]}*_\\]*(?:([.!?;\n。！？(（][\s$)\]}*_(（-]*)|[,，:：]\s*)?")
CONTINUES = re.compile(r"[\s$,]*(?:and|but|while|though|mais|aber|pero|mas?|maar|ale|men)\b", re.I)
LATER = re.compile(r"^\W*(?:(?:\w+\W+){0,3}?)(?:question|problem|exercise)\W*\d*\W*:", re.I)
ENGLISH = re.compile(r"\b(?:the|it|this|that|are|not|we|you|my)\b", re.I)
VALUE = re.compile(r"\d|(?<![a-z])[b-hj-z]\s?[=<>≠]|\\[a-z]+", re.I)
FIRST_CLAUSE = re.compile(
    r"[^,;:，；：]{1,60}[,;:，；：](?:\s?[^,;:，；：\d$\\]{1,40}[,;:，；：])?"
)
# A sentence that ends in the answer says it again, if it does not speak so much more against it.
RESTATED = 1.0
CLOSES = " .!$)]}*\\"
FEW_WORDS = 9
FEW_SIGNS = 12
LONGEST = 900
MOST_SENTENCES = 8


def later_sentences(text: str, end: int) -> list[str]:
    """Return the sentences that follow the one of an answer."""
    ended, sentences = _after(text, end)
    own = not ended and not (sentences and sentences[0].strip()[:1].isupper())
    return [sentence.strip() for sentence in sentences[own:][:MOST_SENTENCES]]


@lru_cache(maxsize=8)
def _after(text: str, end: int) -> tuple[bool, tuple[str, ...]]:
    """Return whether the sentence of an answer ends with it, and what is said from there on."""
    rest = text[end : end + LONGEST]
    if not rest.strip(" .$)]}*\n"):
        return True, ()
    ended = ENDED.match(rest)
    said = SENTENCE.finditer(rest, ended.end() if ended else 0)
    anew = ended and "\n" in ended[0] and not rest[ended.end() : ended.end() + 1].islower()
    return bool(ended and (ended[1] or anew)), tuple(match[0] for match in said)


def overturned(text: str, end: int, answer: str) -> bool:
    """Return whether the sentences after a stated answer say that it is not the answer."""
    ended, sentences = _after(text, end)
    own = answer.strip(" .$")
    later = [sentence.strip() for sentence in sentences[:MOST_SENTENCES]]
    for number, (said, passage) in enumerate(zip(later, passages(later), strict=True)):
        if LATER.match(said):
            return False
        if number or ended or said[:1].isupper():
            if _overturns(said, passage, own):
                return True
        elif _goes_back(said, own) or (asks_abroad(said) and own not in said):
            return True
    return False


def _goes_back(rest: str, answer: str) -> bool:
    """Return whether the rest of an answer's own sentence takes it back: ", but that is wrong"."""
    first = rest[:1]
    caseless = len(rest) > FEW_SIGNS and first.isalpha() and first.lower() == first.upper()
    continues = CONTINUES.match(rest) is not None
    if (caseless or continues) and against(rest, answer) > 2 * AGAINST:
        return True
    return (continues or not rest.isascii()) and not ENGLISH.search(rest) and _abroad(rest)


def _overturns(sentence: str, passage: str, answer: str) -> bool:
    """Return whether a sentence, or the passage that it ends, is no remark on other choices and
    overturns an answer."""
    choice = CHOICE_FIRST.match(sentence)
    own = CHOICE.fullmatch(answer.strip())
    if choice and own and own[1].upper() != choice[choice.lastindex or 0].upper():
        return False
    if own and NONE_ABOVE.fullmatch(sentence):
        return False
    restated = answer and sentence.rstrip(CLOSES).endswith(answer)
    if speaks_against(passage, answer, AGAINST + RESTATED if restated else AGAINST):
        return True
    if asks_abroad(sentence):
        return answer.rpartition("=")[2].strip() not in sentence
    return not ENGLISH.search(sentence) and _abroad(sentence)


def asks_abroad(sentence: str) -> bool:
    """Return whether a sentence of another language says what is asked for, and not in what
    form."""
    return ASKED.found(sentence) and not FORM.search(sentence)


def announced(before: str) -> bool:
    """Return whether the writer speaks of himself, and computes nothing, before an answer."""
    return not COMPUTES.search(before) and ANNOUNCED.search(before) is not None


def _abroad(sentence: str) -> bool:
    """Return whether a sentence says no in another language, or a short one without a value of its
    own does."""
    if VALUE.search(sentence):
        first = FIRST_CLAUSE.match(sentence)
        return first is not None and not VALUE.search(first[0]) and _abroad(first[0])
    if len(sentence.split()) > FEW_WORDS or len(sentence) > 80:
        return False
    lowered = sentence.casefold()
    said = ABROAD.search(sentence) or denies_answer(sentence)
    return said and not any(other in lowered for other in OTHERS_ABROAD)
