"""How much a sentence after an answer speaks against it: the weights of its words.

The weights are those of a logistic regression on words and pairs of words, fitted by
`benchmarks/weigh_words.py` to the sentences of `tests/verifiers/after`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from verifiers.grammar.tables import FOLDER

SPACELESS = "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
# A character of a script without spaces, a word, or a sign.
WORD = re.compile(rf"<\w+>|{SPACELESS}|(?:(?!{SPACELESS})[^\W\d_])+(?:'[a-z]+)?|[?!:;=≠？！]")
BOX = re.compile(r"\\boxed\{[^{}]*\}|-?\d[\d.,/]*\d|\d")
MARKUP = re.compile(r"\$|\\[()\[\]]|\*|\\[a-z]+")
LINK = re.compile(r"\[[^\]\n]*\]\([^)\n]*\)|https?://\S+")
NOT = re.compile(r"n't\b")
# "That is incorrect." says of what the sentence before it is about.
REFERS = re.compile(
    r"(?:That|This|It|Which|They|Those|These)\b(?:['’]\w+)?(?:\s+[^\s\d]+){0,5}\W*$"
)
ASIDE = re.compile(r"\W*(?:or|and)?[\W\d]*", re.I)
FEWEST = 6
LONGEST, LONGEST_OWN = 600, 60
# A sentence of more weight than the first takes its answer back; one of less than the second
# leaves it.
AGAINST, HARMLESS = 0.5, -3.5


def features(sentence: str, answer: str) -> set[str]:
    """Return the words of a sentence and their pairs: the answer as <own>, other numbers as
    <num>."""
    said = LINK.sub(" ", sentence[:LONGEST]).replace("’", "'")
    if 0 < len(answer) <= LONGEST_OWN:
        said = re.sub(rf"(?<![A-Za-z0-9.]){re.escape(answer)}(?![A-Za-z0-9]|\.\d)", " <own> ", said)
    said = NOT.sub(" not", MARKUP.sub(" ", BOX.sub(" <num> ", said)).lower())
    words = ["^", *WORD.findall(said), "$"]
    return {*words[1:-1], *(f"{a} {b}" for a, b in pairwise(words))}


def passages(sentences: Sequence[str]) -> list[str]:
    """Return the sentences, each short one that refers back with the one before it."""
    return [
        f"{before} {said}" if before and REFERS.match(said) else said
        for before, said in zip(["", *sentences], sentences, strict=False)
    ]


@lru_cache(maxsize=1)
def _tenths() -> dict[str, int]:
    """Return the weights, which are whole numbers: their sum does not depend on its order."""
    text = (FOLDER / "weights.json").read_text(encoding="utf-8")
    return {
        f"{first} {second}" if second else first: tenths
        for first, seconds in json.loads(text).items()
        for second, tenths in seconds.items()
    }


@lru_cache(maxsize=256)
def against(sentence: str, answer: str) -> float:
    """Return the weight of a sentence against the answer before it, in log-odds."""
    return total(_tenths(), features(sentence, answer)) / 10


def total(weights: Mapping[str, float], names: Iterable[str]) -> float:
    """Return the bias and the weights of the features that are known, by the root of their
    number."""
    known = [weights[name] for name in names if name in weights]
    return weights["<bias>"] + sum(known) / root(len(known))


def root(known: int) -> float:
    """Return what the sum of so many weights is divided by."""
    return max(FEWEST, known) ** 0.5


def speaks_against(sentence: str, answer: str) -> bool:
    """Return whether a sentence takes the answer before it away; "(or 75%)" says nothing of it."""
    return not ASIDE.fullmatch(sentence) and against(sentence, answer) > AGAINST


def is_harmless(sentence: str, answer: str) -> bool:
    """Return whether a sentence clearly leaves the answer before it as it is."""
    return against(sentence, answer) < HARMLESS
