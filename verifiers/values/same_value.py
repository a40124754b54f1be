"""Decide whether two expressions have the same value: exactly, or at seeded random points."""

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

from verifiers.grammar.tree import Node, TooLargeError
from verifiers.grammar.vocabulary import words
from verifiers.values.canonical import canonical
from verifiers.values.exact import NO_VALUE, InexactError, UndefinedError, exact
from verifiers.values.numeric import Evaluator, Number

LOW, HIGH = 50, 250  # digits of the first look at a constant and of the confirmation
LOW_AT_POINT, HIGH_AT_POINT = 30, 100  # the same at a point, where a function has many of them
# Beyond 1,000 a difference of large values loses digits, so that the first look takes 30 more.
CANCELS, FAR_DIGITS = 1_000, 30
ENOUGH_POINTS = 3  # at which both sides are real, for two functions to be equal
REPEATED_DIGITS = 13  # a decimal this long is a calculator's, not a rounding for a reader
MAX_NODES = 1500  # of both sides; the lexer reads 3,000 tokens
GRAIN = 997  # points are multiples of 1/997: a prime, so that no usual fraction is one of them
RANGES = ((0, 1), (1, 4), (-6, 6), (-60, 60))
POINTS_IN_RANGE = 4
# Far off, |x + 1000| - 1000 is not x; at whole numbers alone (-1)^n is real.
FAR = (0, 1, -1, 2, 3, 7, 10**4, -(10**4), 10**10, -(10**10))
ARITHMETIC = words("num sym const add mul neg div pow fact pct deg call opaque base")


def is_arithmetic(node: Node) -> bool:
    """Return whether an expression has only parts that can be evaluated."""
    return all(part.kind in ARITHMETIC for part in node.walk())


def same_value(left: Node, right: Node) -> bool:
    """Return whether both sides are equal, as numbers or as functions wherever both are real. A
    bare log may be natural or decimal, on both sides alike."""
    if canonical(left) == canonical(right):
        return has_value(left)
    if not (is_arithmetic(left) and is_arithmetic(right)):
        return False
    if sum(1 for side in (left, right) for _ in side.walk()) > MAX_NODES:
        return False
    compare = _same_function if left.symbols() or right.symbols() else _same_constant
    if compare(left, right, False):
        return True
    has_bare_log = any(
        part.kind == "call" and part.value == "log" and len(part.args) == 1
        for side in (left, right)
        for part in side.walk()
    )
    return has_bare_log and compare(left, right, True)


def has_value(node: Node) -> bool:
    """Return whether an answer has a value, unlike 1/0."""
    if node.symbols() or not is_arithmetic(node):
        return True
    try:
        exact(node, {})
    except UndefinedError:
        return False
    except (InexactError, TooLargeError):
        pass
    return True


def rational(node: Node) -> Fraction | None:
    """Return the exact value of an expression, or None if it is not rational."""
    try:
        return exact(node, {})
    except NO_VALUE:
        return None


def _same_constant(left: Node, right: Node, decimal_log: bool) -> bool:
    a, b = rational(left), rational(right)
    if a is not None and b is not None:
        return a == b or _repeats_digits(left, right, (a, b))
    try:
        look = Evaluator(LOW, {}, real=False, decimal_log=decimal_log)
        low = look(left), look(right)
        if not _close(low[0], low[1], LOW // 2):
            return _repeats_digits(left, right, low)
        sharp = Evaluator(HIGH, {}, real=False, decimal_log=decimal_log, lossless=True)
        high = sharp(left), sharp(right)
    except NO_VALUE:
        return False
    return _shrinks(low, high, LOW, HIGH) or _repeats_digits(left, right, low)


def _close(left: Number, right: Number, digits: int) -> bool:
    return bool(abs(left - right) <= max(abs(left), abs(right), 1) * 10.0**-digits)


def _shrinks(
    low: tuple[Number, Number], high: tuple[Number, Number], low_digits: int, high_digits: int
) -> bool:
    """Return whether the difference shrinks as precision grows, that is, whether it is a true
    zero."""
    ten = high[0].context.mpf(10)
    before, after = abs(low[0] - low[1]), abs(high[0] - high[1])
    if before == 0:
        size = max(abs(high[0]), abs(high[1]))
        return bool(after <= size * ten ** -((low_digits + high_digits) // 2))
    return bool(after <= before * ten ** -((high_digits - low_digits) // 2))


def _is_long_decimal(node: Node) -> bool:
    if node.kind == "neg":
        return _is_long_decimal(node.args[0])
    if node.kind == "mul" and len(node.args) == 2 and node.args[1].kind == "pow":
        return rational(node.args[1].args[0]) == 10 and _is_long_decimal(node.args[0])
    return node.kind == "num" and node.digits >= REPEATED_DIGITS


def _repeats_digits(left: Node, right: Node, values: tuple[Number, Number]) -> bool:
    """Return whether one side is a decimal with the digits of the other, which no decimal equals:
    0.3333333333333 for 1/3."""
    if _is_long_decimal(left) == _is_long_decimal(right):
        return False
    a, b = values
    value = b if _is_long_decimal(left) else a
    if isinstance(value, Fraction):
        power_of_ten = 10 ** value.denominator.bit_length()
        if power_of_ten % value.denominator == 0:  # a decimal equals it
            return False
    return bool(abs(a - b) * 10 ** (REPEATED_DIGITS - 1) < abs(value) / 2)


def points(names: list[str]) -> Iterator[dict[str, Fraction]]:
    """Yield the seeded points at which functions are compared."""
    source = random.Random(20240607)
    for low, high in RANGES:
        for _ in range(POINTS_IN_RANGE):
            yield {
                name: low + Fraction(source.randint(1, GRAIN * (high - low) - 1), GRAIN)
                for name in names
            }


def far_points(names: list[str]) -> Iterator[dict[str, Fraction]]:
    """Yield points at which functions that agree near zero may differ."""
    for shift in range(len(FAR)):
        yield {name: Fraction(FAR[(shift + i) % len(FAR)]) for i, name in enumerate(names)}


def _same_function(left: Node, right: Node, decimal_log: bool) -> bool:
    """Compare at real points, and only if too few of them can be compared, at complex values."""
    names = sorted(left.symbols() | right.symbols())
    for real in (True, False):
        agreements = 0
        places = chain(points(names), far_points(names)) if real else points(names)
        for point in places:
            agrees = _same_at(left, right, point, real, decimal_log)
            if agrees is False:
                return False
            if agrees:
                agreements += 1
        if agreements >= ENOUGH_POINTS:
            return True
    return False


def _same_at(
    left: Node, right: Node, point: dict[str, Fraction], real: bool, decimal_log: bool
) -> bool | None:
    """Return whether both sides agree at a point, or None outside of their common domain."""
    try:
        return exact(left, point) == exact(right, point)
    except InexactError:
        pass
    except (UndefinedError, TooLargeError):
        return None
    digits = LOW_AT_POINT + (FAR_DIGITS if max(map(abs, point.values())) > CANCELS else 0)
    try:
        look = Evaluator(digits, point, real=real, decimal_log=decimal_log)
        low = look(left), look(right)
        if not _close(low[0], low[1], LOW_AT_POINT // 2):
            return False
        sharp = Evaluator(HIGH_AT_POINT, point, real=real, decimal_log=decimal_log, lossless=real)
        high = sharp(left), sharp(right)
    except NO_VALUE:
        return None
    return _shrinks(low, high, digits, HIGH_AT_POINT)


def proportional(left: Node, right: Node) -> int | None:
    """Return the sign of c (as ±1) if left = c·right for a constant c other than 0, else None."""
    names = sorted(left.symbols() | right.symbols())
    if not names or not (is_arithmetic(left) and is_arithmetic(right)):
        return None
    quotients = []
    for point in points(names):
        try:
            evaluate = Evaluator(LOW, point, real=True)
            top, bottom = evaluate(left), evaluate(right)
        except NO_VALUE:
            continue
        small = 10.0 ** -(LOW // 2)
        if abs(top) < small or abs(bottom) < small:
            return None
        quotients.append(top / bottom)
    if len(quotients) < ENOUGH_POINTS:
        return None
    if not all(_close(quotients[0], quotient, LOW // 2) for quotient in quotients):
        return None
    return 1 if quotients[0] > 0 else -1
