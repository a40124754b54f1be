"""Nouns after a quantity in other languages than English: 26 км/ч, 360千克, 12 Äpfel."""

import re

from verifiers.grammar.tables import table
from verifiers.grammar.vocabulary import FOREIGN_SCALES

WORD = re.compile(r"[A-Za-z]*[^\x00-\x7f\W\d_][^\W\d_]*[²³]?")
IN_ENGLISH = {
    word: unit
    for unit, abroad in table("foreign_units")["units"].items()
    for word in abroad.split()
}
_LISTS = [entry for entry in table("wording").values() if isinstance(entry, list)]
_SAID = {word for whole, *_ in _LISTS for word in whole.casefold().split()}
_PIECES = {piece.replace("_", " ") for _, *more in _LISTS for piece in " ".join(more).split()}
_PIECES |= {word.replace("_", " ") for word in _SAID if "_" in word}
RUN = re.compile(r"[^\d.,;:!?$\\{}()\[\]\n]{1,60}")
SCALED = re.compile(rf"({'|'.join(scale for scale in FOREIGN_SCALES if len(scale) == 1)})(?=\w)")
NO_NOUNS = re.compile(r"[成折倍番割つ]$|[或か]|多|几|余|약$")


def units_in_english(text: str) -> str:
    """Write the units of other languages in English, and 3万元 as 3万 and a unit."""
    return WORD.sub(_in_english, text)


def _in_english(match: re.Match[str]) -> str:
    word = match[0]
    if unit := IN_ENGLISH.get(word):
        return f" {unit} " if "^" in unit or " " in unit else rf" \text{{ {unit} }} "
    if scaled := SCALED.match(word):
        rest = word[scaled.end() :]
        return rf"{scaled[0]} \text{{ {IN_ENGLISH.get(rest, rest)} }}"
    return word


def counts(text: str, start: int) -> bool:
    """Return whether the words that stand at a place may be what the quantity before them counts:
    none of them denies, doubts or changes it."""
    run = RUN.match(text, start)
    said = run[0].casefold() if run else ""
    words = said.split()
    return (
        _SAID.isdisjoint(words)
        and not any(NO_NOUNS.search(word) for word in words)
        and not any(piece in said for piece in _PIECES)
    )
