"""Weights of words: what a text says, word by word, and how much that speaks against an answer.

The weights are those of logistic regressions on words and pairs of words, fitted by
`benchmarks/weigh_words.py` to the labelled sentences of `tests/verifiers`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from verifiers.grammar.tables import FOLDER

SPACELESS = "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
# A character of a script without spaces, a word, or a sign.
WORD = re.compile(
    rf"<\w+>|{SPACELESS}|(?:(?!{SPACELESS})[^\W\d_])+(?:'[a-z]+)?"
    r"|[?!:;=≠？！,+\-*/^%<>()\[\]−×÷√、，]"
)
NUMBER = re.compile(r"-?\d[\d.,/]*\d|\d")
BOX = re.compile(r"\\(?:boxed|fbox)(?![a-z])")
FRACTION = re.compile(r"\\[dt]?frac(?![a-z])")
MARKUP = re.compile(r"\$|\\[()\[\]]|\*|\\[a-z]+")
LINK = re.compile(r"\[[^\]\n]*\]\([^)\n]*\)|https?://\S+")
NOT = re.compile(r"n't\b")
FEWEST = 6


def words_in(text: str) -> list[str]:
    """Return the words and signs of a text in small letters, numbers as <num>, marks by name."""
    said = LINK.sub(" ", text).replace("’", "'")
    said = FRACTION.sub("/", BOX.sub(" <box> ", said)) if "\\" in said else said
    said = said.replace("####", " <hash> ")
    return WORD.findall(NOT.sub(" not", MARKUP.sub(" ", NUMBER.sub(" <num> ", said)).lower()))


def pairs(words: Sequence[str]) -> Iterator[str]:
    """Yield the words and the pairs of neighbours."""
    yield from words
    for before, after in pairwise(words):
        yield f"{before} {after}"


@lru_cache
def weights(name: str) -> dict[str, int]:
    """Return a table of weights in tenths; their sum does not depend on its order."""
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    return {
        f"{first} {second}" if second else first: tenths
        for first, seconds in json.loads(text).items()
        for second, tenths in seconds.items()
    }


def total(table: Mapping[str, float], names: Iterable[str]) -> float:
    """Return the bias and the weights of the features that are known, by the root of their
    number."""
    known = [table[name] for name in names if name in table]
    return table["<bias>"] + sum(known) / root(len(known))


def root(known: int) -> float:
    """Return what the sum of so many weights is divided by."""
    return max(FEWEST, known) ** 0.5
