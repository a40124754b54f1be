"""Evaluate expressions exactly, as fractions, and estimate the cost of each step beforehand."""

import math
from collections.abc import Mapping
from fractions import Fraction

from verifiers.grammar.tree import Node, TooLargeError
from verifiers.values.effort import check

MAX_BITS = 60_000  # of a numerator or denominator: a product of two takes some milliseconds
MAX_FACTORIAL = 3_000  # its factorial has 30,000 bits
MAX_BINOMIAL = 10_000  # its largest binomial has 10,000 bits
MAX_ROOT = 12
MAX_ROOT_BITS = 1_000  # a float, which guesses the root, holds up to 1,024


class InexactError(ArithmeticError):
    """Says that a value is not rational, or not seen to be."""


class UndefinedError(ArithmeticError):
    """Says that an expression has no value, as 1/0."""


NO_VALUE = (InexactError, UndefinedError, TooLargeError)


def exact(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    """Return the rational value of an expression.

    Raises InexactError, UndefinedError, or TooLargeError before an operation that would not end.
    """
    kind = node.kind
    if kind == "num":
        number: Fraction = node.value
        return number
    if kind == "sym":
        if node.value not in values:
            raise InexactError(node.value)
        return values[node.value]
    check()
    if kind not in ("add", "mul", "neg", "div", "pow", "fact", "pct", "call"):
        raise InexactError(kind)
    args = [exact(arg, values) for arg in node.args]
    if kind == "call":
        return _call(str(node.value), args)
    return _arithmetic(kind, args)


def _arithmetic(kind: str, args: list[Fraction]) -> Fraction:
    if kind == "add":
        return _bounded(sum(args, Fraction(0)))
    if kind == "mul":
        product = Fraction(1)
        for factor in args:
            product = _bounded(product * factor)
        return product
    if kind == "neg":
        return -args[0]
    if kind == "pct":
        return args[0] / 100
    if kind == "div":
        if not args[1]:
            raise UndefinedError("division by zero")
        return args[0] / args[1]
    return power(*args) if kind == "pow" else _factorial(args[0])


def bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Fraction) -> Fraction:
    if bits(value) > MAX_BITS:
        raise TooLargeError("number too large")
    return value


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Return base ** exponent, exactly."""
    if base == 0:
        if exponent <= 0:
            raise UndefinedError("zero to a power that is not positive")
        return base
    if base == 1:
        return base
    if abs(exponent.numerator) * bits(base) > MAX_BITS * exponent.denominator:
        raise TooLargeError("power too large")
    if exponent.denominator == 1:
        return base**exponent.numerator
    return root(base, exponent.denominator) ** exponent.numerator


def root(value: Fraction, index: int) -> Fraction:
    """Return the root of a perfect power. Raises InexactError for all others, and for negative
    numbers, whose roots are complex."""
    if value < 0 or index > MAX_ROOT:
        raise InexactError("root")
    return Fraction(_integer_root(value.numerator, index), _integer_root(value.denominator, index))


def _integer_root(value: int, index: int) -> int:
    if index == 2:
        guess = math.isqrt(value)
    else:
        if value.bit_length() > MAX_ROOT_BITS:
            raise InexactError("root of a large number")
        guess = round(value ** (1 / index))
    if guess**index != value:
        raise InexactError("irrational root")
    return guess


def _factorial(value: Fraction, step: int = 1) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise InexactError("factorial")
    if value > MAX_FACTORIAL:
        raise TooLargeError("factorial too large")
    return Fraction(math.prod(range(value.numerator, 0, -step)))


def _call(name: str, args: list[Fraction]) -> Fraction:
    first = args[0]
    if name == "abs":
        return abs(first)
    if name in ("floor", "ceil"):
        return Fraction(getattr(math, name)(first))
    if name in ("max", "min"):
        return max(args) if name == "max" else min(args)
    if name == "root" and len(args) == 2 and args[1].denominator == 1 and args[1] > 0:
        odd_of_negative = first < 0 and args[1].numerator % 2
        value = root(abs(first) if odd_of_negative else first, args[1].numerator)
        return -value if odd_of_negative else value
    if name == "fac2":
        return _factorial(first, step=2)
    are_whole = all(arg.denominator == 1 for arg in args)
    if name == "binom" and are_whole and 0 <= args[1] <= first <= MAX_BINOMIAL:
        return _bounded(Fraction(math.comb(first.numerator, args[1].numerator)))
    if name in ("gcd", "lcm") and are_whole:
        function = math.gcd if name == "gcd" else math.lcm
        return _bounded(Fraction(function(*(arg.numerator for arg in args))))
    raise InexactError(name)
