"""Read a gold answer that may be a sentence, and the final answer that a derivation states."""

import re
from functools import lru_cache

from verifiers.equality.compare import readable
from verifiers.extraction import prose
from verifiers.extraction.extract import extract
from verifiers.grammar.normalize import plain_words

MAY_BE_SENTENCE = re.compile(r"[A-Za-z]{2}[.,:;]?\s+\S|[.:]\s+[A-Za-z]{2}")
SENTENCE_END = re.compile(r"(?:[A-Za-z]{4,}[.:]|[a-z]{2,}[.:](?=\s+[A-Z])|[\d)}\]$][.:])\s")
"""A full stop or a colon before a space, but not that of an abbreviation such as St. or sq."""
VERB = re.compile(r"\b(?:is|are|was|were|equals)\s+")
WORD = re.compile(r"[A-Za-z]{2,}")
NOT_WORDS = re.compile(r"[\d=$\\.:]")
LONGEST_WORDS = 60
"""Characters of a gold answer in words. A longer one is hardly ever written again alike."""
FEWEST_OF_SENTENCE = 4
"""Words before a last full stop that make a sentence: "All real numbers." is an answer in words."""
MOST_BEFORE_WORDS = 6
"""Words of a sentence whose last ones may be the answer: "The winner is Evelyn", but not "It does
not matter which point is taken"."""
MOST_OF_DERIVATION = 2
"""Words of a derivation that may be its answer: "no solution", but not "use symmetry here"."""
STATEMENT = 'last "answer is"'
STATED = (STATEMENT, "last ####", "last box", "all boxes")


@lru_cache(maxsize=100_000)  # as `readable`: the golds of a large data set, again and again
def gold_value(gold: str) -> str | None:
    """Return a gold answer that is a value or a few words, and of a sentence the value in it.

    Return None for any other text.
    """
    if not MAY_BE_SENTENCE.search(gold) or prose.is_whole(gold):
        return gold if readable(gold) else None
    text, place = extract(gold)
    if place in STATED:
        return _value_inside(text, gold)
    if _is_sentence(gold):
        values = len(prose.groups(gold, prose.values(gold)))
        is_clear = values == 1 or (not values and len(WORD.findall(gold)) <= MOST_BEFORE_WORDS)
        return _value_inside(text, gold) if is_clear else None
    last = VERB.split(gold)[-1]
    if last != gold and prose.is_whole(last):
        return last
    return gold if len(plain_words(gold)) <= LONGEST_WORDS and readable(gold) else None


def stated_value(derivation: str) -> str | None:
    """Return the final answer that a derivation states in words, or that is the whole of it.

    Return None if it states none. Boxes are `boxed_answer`'s.
    """
    text, place = extract(derivation)
    if place == STATEMENT:
        return _value_inside(text, derivation)
    line = derivation.strip()
    if "\n" in line or not readable(line):
        return None
    is_few_words = len(WORD.findall(line)) <= MOST_OF_DERIVATION and not NOT_WORDS.search(line)
    return line if prose.is_whole(line) or is_few_words else None


def _is_sentence(gold: str) -> bool:
    """Return whether a text ends a sentence, in it or after several words."""
    if SENTENCE_END.search(gold):
        return True
    has_value = NOT_WORDS.search(gold[:-1]) is not None
    return gold.endswith(".") and (has_value or len(WORD.findall(gold)) >= FEWEST_OF_SENTENCE)


def _value_inside(text: str | None, gold: str) -> str | None:
    """Return the text that was found in a gold, if it is a value or words, and not all of it."""
    if text is None or text.strip(prose.EDGE) == gold.strip(prose.EDGE):
        return None
    part = text.strip().removesuffix(".")
    return part if readable(part) and not _is_sentence(part) else None
