"""Whether what follows an answer overturns it: it is refused, taken back, or replaced."""

import re
from functools import lru_cache

from verifiers.extraction.context.abroad import denies_answer
from verifiers.extraction.context.wording import REJECTED, WRONG, Words, listed
from verifiers.grammar.tables import gated, pattern, table

REFUSED = gated("aftermath", "refused")
OWN = "¤"
OWN_REFUSED = pattern("aftermath", "own_refused")
REVISED = gated("aftermath", "revised")
NONE_ABOVE = re.compile(r"\W*none\s+of\s+the\s+above\W*", re.I)
CHOICE_FIRST = re.compile(r"\W*(?:\(([A-J])\)|([A-J])[).:]|([B-HJ])\s|([a-j])\))")
CHOICE = re.compile(r"(?:\\text\s*\{)?\(?([A-Ja-j])\)?\}?")
COMPUTES = re.compile(r"[0-9=]")
SELF = re.compile(r"\bI\b|[Mm]y\b")
OF_SELF = pattern("aftermath", "of_self", flags=0)
OF_SELF_ABROAD = gated("aftermath", "of_self_abroad", flags=0)
ANNOUNCED = pattern("aftermath", "announced", flags=0)
HARMLESS = gated("aftermath", "harmless")
ABROAD = WRONG | REJECTED | Words(*table("aftermath")["abroad"])
TAKEN_BACK_ABROAD = Words(*table("aftermath")["taken_back_abroad"])
ASKED = gated("aftermath", "asked_abroad")
FORM = pattern("aftermath", "form_abroad")
OTHERS_ABROAD = table("aftermath")["others_abroad"].split()
SENTENCE = re.compile(r"[^\n.!?;。！？；]+(?:\.(?=\w)[^\n.!?;。！？；]*)*[.!?;。！？；]*")
ENDED = re.compile(r"[\s$)\]}*_\\]*(?:([.!?;\n。！？(（][\s$)\]}*_(（-]*)|[,，:：]\s*)?")
CONTINUES = re.compile(r"[\s$,]*(?:and|but|while|though)\b", re.I)
BUT = listed(table("aftermath")["but"])
BUT_ABROAD = re.compile(rf"[\s$,，]*(?:{BUT})(?![^\W_])", re.I)
LATER = re.compile(r"^\W*(?:(?:\w+\W+){0,3}?)(?:question|problem|exercise)\W*\d*\W*:", re.I)
VALUE = re.compile(r"\d|(?<![a-z])[b-hj-z]\s?[=<>≠]|\\[a-z]+", re.I)
FIRST_CLAUSE = re.compile(
    r"[^,;:，；：]{1,60}[,;:，；：](?:\s?[^,;:，；：\d$\\]{1,40}[,;:，；：])?"
)
FEW_WORDS = 9
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
    return bool(ended and (ended[1] or "\n\n" in ended[0])), tuple(match[0] for match in said)


def overturned(text: str, end: int, answer: str) -> bool:
    """Return whether the sentences after a stated answer say that it is not the answer."""
    ended, sentences = _after(text, end)
    own = answer.strip(" .$")
    of_another = False
    for number, sentence in enumerate(sentences[:MOST_SENTENCES]):
        if LATER.match(sentence):
            return False
        said = sentence.strip()
        if number or ended or said[:1].isupper():
            if _overturns(said, own, of_another):
                return True
            of_another = VALUE.search(said) is not None and own not in said
        elif _goes_back(said) or (asks_abroad(said) and own not in said):
            return True
    return False


def _goes_back(rest: str) -> bool:
    """Return whether the rest of an answer's own sentence takes it back: ", but that is wrong"."""
    if (CONTINUES.match(rest) and REVISED.found(rest)) or TAKEN_BACK_ABROAD.search(rest):
        return True
    return bool(BUT_ABROAD.match(rest) or not rest.isascii()) and _abroad(rest)


def _overturns(sentence: str, answer: str, of_another: bool) -> bool:
    choice = CHOICE_FIRST.match(sentence)
    own = CHOICE.fullmatch(answer.strip())
    if choice and own and own[1].upper() != choice[choice.lastindex or 0].upper():
        return False
    if own and NONE_ABOVE.fullmatch(sentence):
        return False
    if REVISED.found(sentence) or (SELF.search(sentence) and OF_SELF.search(sentence)):
        return True
    if asks_abroad(sentence):
        return answer.rpartition("=")[2].strip() not in sentence
    if answer and OWN_REFUSED.search(sentence.replace(answer, OWN)):
        return True
    if REFUSED.found(sentence):
        return not (of_another or HARMLESS.found(sentence) or _of_another(sentence, answer))
    return _abroad(sentence)


def asks_abroad(sentence: str) -> bool:
    """Return whether a sentence of another language says what is asked for, and not in what
    form."""
    return ASKED.found(sentence) and not FORM.search(sentence)


def announced(before: str) -> bool:
    """Return whether the writer speaks of himself, and computes nothing, before an answer."""
    return not COMPUTES.search(before) and ANNOUNCED.search(before) is not None


def _of_another(sentence: str, answer: str) -> bool:
    """Return whether a sentence names a value before it refuses something, and not the answer."""
    named = VALUE.search(sentence)
    return named is not None and answer not in sentence and "≠" not in sentence


def _abroad(sentence: str) -> bool:
    """Return whether a sentence says no in another language, or a short one without a value of its
    own does; or whether its writer speaks of himself."""
    if OF_SELF_ABROAD.found(sentence) or TAKEN_BACK_ABROAD.search(sentence):
        return True
    if VALUE.search(sentence):
        first = FIRST_CLAUSE.match(sentence)
        return first is not None and not VALUE.search(first[0]) and _abroad(first[0])
    if len(sentence.split()) > FEW_WORDS or len(sentence) > 80:
        return False
    if sentence.isascii() and HARMLESS.found(sentence):
        return False
    lowered = sentence.casefold()
    said = ABROAD.search(sentence) or denies_answer(sentence)
    return said and not any(other in lowered for other in OTHERS_ABROAD)
