"""Read exact numbers from their digits."""

import re
from fractions import Fraction
from functools import lru_cache

from verifiers.grammar.tree import Node, TooLargeError, num

MAX_DIGITS = 4000  # Python reads and writes decimals of up to 4,300 digits
LONGEST_PLAIN = 60  # characters, enough for 40 digits with their commas
MAX_DECIMAL_EXPONENT = 5000
RECURRING_PARTS = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?\s*(\d+)\s*\}?", re.ASCII)
PLAIN_NUMBER = re.compile(
    r"([-+]?)\$?([1-9]\d{0,2}(?:,\d{3})+|\d{1,40})(?:\.(\d{1,12}))?", re.ASCII
)


def is_plain_number(text: str) -> bool:
    """Return whether a text is a short plain number, as most answers are."""
    return len(text) <= LONGEST_PLAIN and plain_number(text) is not None


@lru_cache(maxsize=4096)
def plain_number(text: str) -> Fraction | None:
    """Return the value of a short plain number, or None for any other text."""
    match = PLAIN_NUMBER.fullmatch(text) if len(text) <= LONGEST_PLAIN else None
    if match is None:
        return None
    sign, integer, decimals = match.groups()
    value = int(integer.replace(",", "") + (decimals or ""))
    return Fraction(-value if sign == "-" else value, 10 ** len(decimals or ""))


def read_literal(text: str) -> Node:
    """Return an exact number, and for a decimal how many significant digits it has."""
    recurring = RECURRING_PARTS.fullmatch(text)
    if recurring:
        return num(_recurring(*recurring.groups()))
    digits = re.sub(r"[^\d.eE+-]", "", text)
    mantissa, _, exponent = digits.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or abs(int(exponent or 0)) > MAX_DECIMAL_EXPONENT:
        raise TooLargeError("too many digits")
    integer, point, decimals = mantissa.partition(".")
    value = Fraction(int((integer + decimals) or 0), 10 ** len(decimals))
    value *= Fraction(10) ** int(exponent or 0)
    significant = len((integer + decimals).lstrip("0")) if point else 0
    return num(value, significant)


def whole_number(node: Node) -> int | None:
    """Return the value of a literal that is a whole number, or None for any other node."""
    integer = node.kind == "num" and node.value.denominator == 1
    return int(node.value) if integer else None


def _recurring(integer: str, fixed: str, period: str) -> Fraction:
    base = Fraction(int((integer + fixed) or 0), 10 ** len(fixed))
    return base + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))


def continued_decimal(text: str, node: Node) -> Node:
    """Read 0.333… as 1/3: the last digits repeat three times. Other decimals, 3.14…, stay."""
    integer, _, decimals = text.partition(".")
    for length in range(1, len(decimals) // 3 + 1):
        period = decimals[-length:]
        if decimals.endswith(period * 3):
            return num(_recurring(re.sub(r"\D", "", integer), decimals[:-length], period))
    return node
