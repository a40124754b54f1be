"""Exact numbers from text: integers, decimals, fractions."""

import re
from fractions import Fraction

NUMBER = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+|\d*)(?:\.(\d*))?")
FRACTION = re.compile(r"([-+]?)\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}")
SLASH = re.compile(r"([^/]+)/([^/]+)")
MAX_DIGITS = 4000


def read_number(text: str) -> Fraction | None:
    """Read one exact number, or None if the text is not one."""
    if len(text) > MAX_DIGITS:
        return None
    if match := FRACTION.fullmatch(text):
        top, bottom = read_number(match[2]), read_number(match[3])
        sign = -1 if match[1] == "-" else 1
        return sign * top / bottom if top is not None and bottom else None
    if match := SLASH.fullmatch(text):
        top, bottom = read_number(match[1]), read_number(match[2])
        return top / bottom if top is not None and bottom else None
    match = NUMBER.fullmatch(text)
    if not match or not (match[2] or match[3]):
        return None
    digits = match[2].replace(",", "") or "0"
    return Fraction(f"{match[1]}{digits}.{match[3] or '0'}")
