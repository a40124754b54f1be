"""Other ways to read what a response ends in: a decimal comma, words of its language."""

import re

from verifiers.extraction.context.later_words import MOST_REMARKS, only_remarks
from verifiers.extraction.extract import answer_of
from verifiers.extraction.found import Extraction
from verifiers.extraction.response.passages import sentences
from verifiers.extraction.response.written import writes_comma
from verifiers.extraction.sentence.last_sentence import closing_words, ends_abroad, ends_in
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import ENGLISH_OF, plain_words, words_alone

DECIMAL_COMMA = re.compile(r",(?<=\d,)(?=\d{1,6}(?!\d|,\d))")
ENGLISH_WORDS = {
    word for said in ENGLISH_OF.values() for word in (said, said.lower(), said.title())
}
POINT_OF_THOUSANDS = re.compile(r"(?<=\d)\.(?=\d{3}(?:\.\d{3})*,\d)")
THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
WORD = re.compile(r"[^\W\d_]{3,}")
TIME = re.compile(r"((?:[01]?\d|2[0-3]))\.([0-5]\d)")


def other_readings(found: Extraction) -> tuple[str, ...]:
    """Return 2,5 as a decimal where the language writes it so; 42 of a sentence that ends in 42!"""
    value, end = found.text or "", found.passage
    boxed = found.reason.startswith(("answer tag", "box"))
    loud = value.endswith("!") and not boxed
    if loud and not any(f"{value}{sign}" in end for sign in ("$", "\\", "*")):
        return (value[:-1],)
    if "." in value:
        amount = value.lstrip("$€£ ").split(" ")[0]
        if not boxed and THOUSANDS.fullmatch(amount) and writes_comma(end):
            return (value.replace(".", "", 1),)
        time = TIME.fullmatch(value.split(" ")[0])
        if time and (writes_comma(end) or not end.isascii()):
            return (f"{time[1]}:{time[2]}",)
    end = end.replace("{,}", ",") if "{,}" in end else end
    if "," in end and DECIMAL_COMMA.search(end) and writes_comma(end):
        end = DECIMAL_COMMA.sub(".", POINT_OF_THOUSANDS.sub("", end))
        again = answer_of(end, format=found.format, cut_off=False)
        plain = (DECIMAL_COMMA.sub(".", value),) if found.reason == "emphasis" else ()
        return (again.text, *plain) if again.text and not again.rivals else plain
    return ()


def says_words(found: Extraction, gold: str) -> bool:
    """Return whether a gold in words is what a box holds or a response ends in, in its language."""
    if is_plain_number(gold):
        return False
    words = plain_words(gold)
    words = "no solution" if words == "no solutions" else words
    known = words.casefold() in ENGLISH_OF or words in ENGLISH_WORDS or not words.isascii()
    if not (words_alone(gold) or (known and words.replace(" ", "").isalpha())):
        return False
    if found.text and found.reason == "box or mark":
        return ends_in(plain_words(found.text), words)
    text = found.passage
    for later in reversed(sentences(text)[-MOST_REMARKS:]):
        sentence = closing_words(text)
        if ends_in(sentence, words) or (known and ends_abroad(text, sentence, words)):
            return True
        if not only_remarks([later], words) or _names_another(later, words):
            return False
        text = text[: text.rfind(later)]
    return False


def _names_another(sentence: str, gold: str) -> bool:
    """Return whether a sentence has another of the words that the grammar knows in all languages:
    days, months, yes and no."""
    english = ENGLISH_OF.get(gold.casefold(), gold).casefold()
    found = {word.casefold() for word in WORD.findall(sentence)}
    known = {ENGLISH_OF[word].casefold() for word in found & ENGLISH_OF.keys()}
    return bool((known | (found & ENGLISH_WORDS)) - {english})
