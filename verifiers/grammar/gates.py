"""Patterns that are tried only on texts with a word or a sign that each of their matches holds."""

import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]
from typing import Any

WORD = re.compile(r"[^\W_]+")
# Signs beyond ASCII that match an ASCII letter where case does not count.
FOLDED = re.compile("[\u017f\u212a\u0130\u0131]")
FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL
USUAL = {"that", "answer", "result", "value", "number", "solution", "we", "the", "with", "then"}
MOST_WORDS = 20_000

_letters: dict[str, dict[str, int]] = {}  # by their first two: what a match holds, and whose
_signs: dict[str, int] = {}
_whole: dict[str, int] = {}
_of_word: dict[str, int] = {}  # a word that was met, and whose letters stand in it
_always = _beyond_ascii = 0
_bits = 0


class Gated:
    """Alternatives as one pattern; what cannot match is not tried, what is not tried not
    compiled."""

    def __init__(self, alternatives: list[str], flags: int) -> None:
        self._whole: re.Pattern[str] | str = "|".join(alternatives)
        self._flags = flags
        self._parts: list[tuple[int, re.Pattern[str] | str]] = [
            (_registered(part, flags), part) for part in alternatives
        ]
        self.bits = sum(bit for bit, _ in self._parts)

    def may_match(self, text: str) -> bool:
        """Return whether a text has the words of any alternative."""
        return bool(possible(text) & self.bits)

    def found(self, text: str) -> bool:
        """Return whether any alternative stands in a text."""
        words = possible(text) & self.bits
        return bool(words) and any(part.search(text) for part in self._tried_on(words))

    def begins(self, text: str) -> bool:
        """Return whether a text begins with any alternative."""
        words = possible(text) & self.bits
        return bool(words) and any(part.match(text) for part in self._tried_on(words))

    def _tried_on(self, words: int) -> Iterator[re.Pattern[str]]:
        for at, (bit, part) in enumerate(self._parts):
            if bit & words:
                if isinstance(part, str):
                    part = re.compile(part, self._flags)
                    self._parts[at] = bit, part
                yield part

    @property
    def whole(self) -> re.Pattern[str]:
        if isinstance(self._whole, str):
            self._whole = re.compile(self._whole, self._flags)
        return self._whole

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        near = text[start:end] if start or end < len(text) else text
        return self.whole.search(text, start, end) if possible(near) & self.bits else None

    def match(self, text: str) -> re.Match[str] | None:
        return self.whole.match(text) if possible(text) & self.bits else None

    def sub(self, by: str, text: str, count: int = 0) -> str:
        return self.whole.sub(by, text, count) if possible(text) & self.bits else text


@lru_cache(maxsize=64)
def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, without case."""
    return frozenset(WORD.findall(text.casefold()))


@lru_cache(maxsize=64)
def possible(text: str) -> int:
    """Return the alternatives that a text may match, as bits."""
    if len(_of_word) > MOST_WORDS:
        _of_word.clear()
    found = _always
    if not text.isascii():
        if FOLDED.search(text):
            return -1
        found |= _beyond_ascii
    for sign, owners in _signs.items():
        if sign in text:
            found |= owners
    for word in words_of(text):
        bits = _of_word.get(word)
        if bits is None and not word.isdigit():
            bits = _of_word[word] = _met_in(word)
        found |= bits or 0
    return found


def _met_in(word: str) -> int:
    bits = _whole.get(word, 0)
    for at in range(len(word) - 1):
        for letters, owners in _letters.get(word[at : at + 2], {}).items():
            bits |= owners if word.startswith(letters, at) else 0
    return bits


def registered_words(words: Iterable[str], *, beyond_ascii: bool) -> int:
    """Give words that stand whole a bit of their own."""
    global _beyond_ascii
    bit = _next_bit()
    for word in words:
        _whole[word] = _whole.get(word, 0) | bit
    _beyond_ascii |= bit if beyond_ascii else 0
    return bit


def _next_bit() -> int:
    global _bits
    _bits += 1
    _of_word.clear()
    possible.cache_clear()
    return 1 << _bits


def _registered(part: str, flags: int) -> int:
    """Give an alternative its bit, and note of which letters or signs its matches hold some."""
    global _always, _beyond_ascii
    bit = _next_bit()
    held = needed(part, flags)
    if not held:
        _always |= bit
    if not all(map(str.isascii, held)):
        _beyond_ascii |= bit
    for one in held:
        if len(one) == 1:
            _signs[one] = _signs.get(one, 0) | bit
        else:
            beside = _letters.setdefault(one[:2], {})
            beside[one] = beside.get(one, 0) | bit
    return bit


def needed(pattern: str, flags: int = re.IGNORECASE) -> tuple[str, ...]:
    """Return letters and signs of which some stand in whatever a pattern matches, or none."""
    return _needed(_parser.parse(pattern, flags & FLAGS))


def _needed(items: Any) -> tuple[str, ...]:
    """Return the best of what the parts of a sequence need: none of the usual words, the longest,
    then the fewest."""
    found: list[tuple[str, ...]] = []
    run = ""
    for kind, given in [*items, (None, None)]:
        name = str(kind)
        if name == "LITERAL":
            run += chr(given).lower()
            continue
        if name == "AT":
            continue
        found.append(_of_run(run))
        run = ""
        if name == "IN":
            signs = [chr(one) if str(way) == "LITERAL" else "a" for way, one in given]
            found.append(() if any(map(str.isalnum, signs)) else tuple(signs))
        elif name == "BRANCH":
            parts = [_needed(part) for part in given[1]]
            found.append(tuple(dict.fromkeys(sum(parts, ()))) if all(parts) else ())
        elif name == "SUBPATTERN":
            found.append(_needed(given[-1]))
        elif name == "ATOMIC_GROUP":
            found.append(_needed(given))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and given[0] > 0:
            found.append(_needed(given[2]))
    return max(filter(None, found), key=_rarity, default=())


def _rarity(some: tuple[str, ...]) -> tuple[int, int]:
    return min(1 if one in USUAL else len(one) for one in some), -len(some)


def _of_run(run: str) -> tuple[str, ...]:
    """Return the longest word of letters that stand beside each other, or else a sign."""
    word = max(WORD.findall(run), key=len, default="")
    if len(word) > 1 and not word.isdigit():
        return (word,)
    sign = next((one for one in run if not one.isalnum() and not one.isspace()), "")
    return (sign,) if sign else ()
