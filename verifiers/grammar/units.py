"""Know the units: their spellings, and their sizes within one dimension."""

from fractions import Fraction

from verifiers.grammar import vocabulary
from verifiers.grammar.lexer import Token
from verifiers.grammar.vocabulary import (
    NOT_NOUN_SIGNS,
    NOT_NOUN_STEMS,
    NOT_NOUN_WORDS,
    SCALES,
    words,
)

UNITS: dict[str, tuple[str, Fraction]] = {}  # dimension, and size in the dimension's base unit
SPELLINGS: dict[str, str] = {}
for _name, _entry in vocabulary.TABLE["units"].items():
    _dimension, _size, *_spellings = _entry.split()
    UNITS[_name] = (_dimension, Fraction(_size))
    SPELLINGS.update(dict.fromkeys(_spellings, _name))
COMPOUNDS = {"mph": {"mile": 1, "hour": -1}, "kph": {"km": 1, "hour": -1}}
# These letters after a number are units where the other side has no variables.
LETTER_UNITS = words("m s g h L l N J W V A K")
CURRENCIES = {
    "sign": {"$": "dollar", "€": "euro", "£": "gbp", "¥": "yen", "₹": "rupee", "¢": "cent",
             "₽": "₽", "₩": "₩", "฿": "฿", "₫": "₫", "₺": "₺", "৳": "৳", "₪": "₪", "₴": "₴",
             "₱": "₱", "₦": "₦"},
    "command": {"$": "dollar", "pounds": "gbp", "euro": "euro", "yen": "yen"},
}  # fmt: skip
HALVES_OF_DAY = words("am pm AM PM")
SHORT_UNIT_WORDS = vocabulary.SAFE_UNITS | HALVES_OF_DAY | words("per way old sq cu")
NEVER_UNITS = vocabulary.FUNCTIONS.keys() | words("pi sqrt to")
LAST_OF_ALPHABETS = "\u1fff"  # the scripts above it have signs for syllables or words
RUSSIAN_PER = words("в за на")
GENERIC = words("unit units")


def unit_name(word: str) -> str:
    """Return the canonical name of a unit. Any other noun names itself, in the singular."""
    lower = word.lower()
    if word in SPELLINGS:
        return SPELLINGS[word]
    if lower in SPELLINGS and len(word) > 1:
        return SPELLINGS[lower]
    if len(lower) > 3 and lower.endswith("ies"):
        return lower[:-3] + "y"
    return lower[:-1] if len(lower) > 2 and lower.endswith("s") else lower


def is_unit(token: Token, following: Token) -> bool:
    """Return whether a word after a quantity is read as its unit."""
    lower = token.text.lower()
    if token.text == "min":
        return following.text not in ("(", "{")
    if token.text in RUSSIAN_PER:
        return following.kind == "word"
    if not token.text.isascii():
        return token.text in SPELLINGS or token.text in SCALES or _is_noun(lower)
    if token.text in NEVER_UNITS or lower in vocabulary.NUMBER_WORDS:
        return False
    if lower in vocabulary.NOT_UNITS and lower not in SCALES and lower not in SPELLINGS:
        return False
    short = token.text in SHORT_UNIT_WORDS or token.text in SCALES
    return token.text_mode or short or len(token.text) > 3


def _is_noun(word: str) -> bool:
    """Return whether a word with letters beyond ASCII may be left aside after a number: two letters
    or a sign that is a word, without one that counts, halves, bounds or denies."""
    if word in NOT_NOUN_WORDS or word.startswith(NOT_NOUN_STEMS) or "ième" in word:
        return False
    is_sign = len(word) == 1 and word > LAST_OF_ALPHABETS
    return (len(word) > 1 or is_sign) and NOT_NOUN_SIGNS.isdisjoint(word)


def currency_of(token: Token) -> str | None:
    """Return the currency of a sign or a command."""
    return CURRENCIES.get(token.kind, {}).get(token.text)


def conversion(left: dict[str, int], right: dict[str, int]) -> Fraction | None:
    """Return how many of the right unit make one of the left, or None if the dimensions differ."""
    left_size, left_dimensions = measure(left)
    right_size, right_dimensions = measure(right)
    return left_size / right_size if left_dimensions == right_dimensions else None


def measure(unit: dict[str, int]) -> tuple[Fraction, dict[str, int]]:
    """Return the size of a unit in base units, and the powers of its dimensions."""
    size = Fraction(1)
    dimensions: dict[str, int] = {}
    for name, power in unit.items():
        dimension, factor = UNITS.get(name, (name, Fraction(1)))
        size *= factor**power
        dimensions[dimension] = dimensions.get(dimension, 0) + power
    return size, {name: power for name, power in dimensions.items() if power}
