"""The value of the last sentences that words speak for, where no rule reads the answer."""

import re

from verifiers.extraction.context.aftermath import overturned
from verifiers.extraction.context.later_words import MOST_REMARKS, only_remarks
from verifiers.extraction.context.plain import CROSSED, speaks_of_it
from verifiers.extraction.context.standing import (
    changed_beside,
    not_stated,
    only_offered,
    sentence_after,
    sentence_before,
)
from verifiers.extraction.context.words_around import (
    CLEARLY_FOR,
    FOR,
    doubtful,
    not_its_answer,
    weight,
)
from verifiers.extraction.later_values import only_remarked
from verifiers.extraction.response.passages import LIST_ITEM, math_spans, sentences
from verifiers.extraction.sentence.last_sentence import last_sentence
from verifiers.extraction.sentence.numbers import NUMBER
from verifiers.extraction.sentence.operators import part_of_more
from verifiers.extraction.sentence.prose import last_expression
from verifiers.extraction.statements import speaks_of_answer
from verifiers.grammar.tables import pattern

# A number beside it, a bracket around it, one or two words of the same clause between them: a part
# of something larger.
PART_BEFORE = re.compile(r"[\d%](?:,?|\s[^\W\d]+(?:\s[^\W\d]+)?)\s$|[{(\[¬]$")
PART_AFTER = re.compile(r"[,;]?\s\d|\s\w+\s\d|[})\]?？]")
# How a sentence begins that concludes, in many languages.
CONCLUDES = pattern("later_values", "concludes")
ARGUES = re.compile(r"[,;]\s+(?:and\s+)?(?:so|hence|thus|therefore)\b[^.]{0,200}\d", re.I)
LAST_SENTENCES = 2
MOST = 12
# A last sentence of so few words, "Distance: 60 km.", states its value.
FEW_WORDS = 4


def likelier(text: str, read: str | None) -> tuple[str, str] | None:
    """Return the value that words speak for where they do not for the one that rules read, and how
    it was found."""
    wordy = len(last_sentence(text).split()) > FEW_WORDS
    for limit, concluded in ((CLEARLY_FOR, True), (FOR, False)):
        unsaid = read is None or (wordy and doubtful(text, read, limit))
        if unsaid and (value := before_remarks(text, concluded=concluded)):
            return value, "before remarks"
    refused = read is None or not_its_answer(text, read)
    if refused and (value := most_likely(text)):
        return value, "most likely"
    return None


def most_likely(text: str) -> str | None:
    """Return the value of the last two sentences, or of the last where that does not end, whose
    words speak most for it, if they do and nothing beside it makes another value of it."""
    ended = not text[-1:].isalnum()
    last = sentences(text)[-LAST_SENTENCES if ended else -1 :]
    begin = text.rfind(last[0]) if last else -1
    if begin < 0 or speaks_of_answer(text):
        return None
    found = sorted((weight(text, *place), place) for place in _values(text, begin)[-MOST:])
    if not found or found[0][0] > FOR:
        return None
    start, end = found[0][1]
    value = text[start:end]
    part = (
        part_of_more(text, start, end)
        or PART_BEFORE.search(text, begin, start)
        or PART_AFTER.match(text, end)
        or CROSSED.search(text, end)
        or changed_beside(text, start, end)
        or not_stated(text, start, end)
        or only_offered(text, start)
        or speaks_of_it(sentence_before(text, start) + value + sentence_after(text, end))
    )
    return None if part or overturned(text, end, value) else value


def before_remarks(text: str, *, concluded: bool) -> str | None:
    """Return the value of a sentence whose words speak for it and after which all others clearly
    only remark on it; if asked, one that concludes where the last does not."""
    if text[-1:].isalnum() or CROSSED.search(text):
        return None
    last = sentences(text)[-MOST_REMARKS - 1 :]
    if not last or CONCLUDES.match(last[-1]) or ARGUES.search(last[-1]):
        return None
    for at, said in enumerate(last[:-1], start=1):
        if LIST_ITEM.match(said) or (concluded and not CONCLUDES.match(said)):
            continue
        value = (last_expression(said) or "").strip(" .$")
        end = text.rfind(said) + len(said)
        if (
            value
            and value in said
            and (concluded or not doubtful(text[:end], value))
            and only_remarked(text, end - 1, value)
            and only_remarks(last[at:], value)
        ):
            return value
    return None


def _values(text: str, begin: int) -> list[tuple[int, int]]:
    """Return where mathematics, without its marks, and other numbers stand from a place on."""
    spans = [span for span in math_spans(text) if span[0] >= begin]
    values = []
    for start, end, content in spans:
        at = text.find(content, start, end) + len(content) - len(content.lstrip())
        values.append((at, at + len(content.strip())))
    at = 0
    for number in NUMBER.finditer(text, begin):
        while at < len(spans) and spans[at][1] <= number.start():
            at += 1
        if at == len(spans) or number.end() <= spans[at][0]:
            values.append(number.span())
    return sorted(values)
