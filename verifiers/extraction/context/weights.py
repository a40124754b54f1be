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

SPACELESS = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# A command of LaTeX, a number, a mark by its name, a character of a script without spaces, a word,
# a sign.
TOKEN = re.compile(
    rf"\\(?:[a-z]+|[()\[\]])|-?\d(?:[\d.,/]*\d)?|####|<\w+>|[{SPACELESS}]"
    rf"|[^\W\d_{SPACELESS}]+(?:'[a-z]+)?|[?!:;=≠？！,+\-/^%<>()\[\]−×÷√、，]"
)
NAMES = {
    **dict.fromkeys((r"\boxed", r"\fbox"), "<box>"),
    **dict.fromkeys((r"\frac", r"\dfrac", r"\tfrac"), "/"),
    "####": "<hash>",
}
# What stands beside a value that is a part of a longer one.
BESIDE_BEFORE, BESIDE_AFTER = r"[A-Za-z0-9.]", r"[A-Za-z0-9]|\.\d"
LINK = re.compile(r"\[[^\]\n]*\]\([^)\n]*\)|https?://\S+")
FEWEST = 6


def words_in(text: str) -> list[str]:
    """Return the words and signs of a text in small letters, numbers as <num>, marks by name."""
    said = LINK.sub(" ", text) if "](" in text or "://" in text else text
    said = said.lower().replace("’", "'").replace("n't", " not")
    return [word for token in TOKEN.findall(said) if (word := _named(token))]


@lru_cache(maxsize=4096)
def _named(token: str) -> str:
    """Return a token as it is counted, "" for other commands of LaTeX."""
    first = token[0]
    if first in "\\#":
        return NAMES.get(token, "")
    return "<num>" if first.isdigit() or (first == "-" and len(token) > 1) else token


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
    known = [weight for weight in map(table.get, names) if weight is not None]
    return table["<bias>"] + sum(known) / root(len(known))


def root(known: int) -> float:
    """Return what the sum of so many weights is divided by."""
    return max(FEWEST, known) ** 0.5
