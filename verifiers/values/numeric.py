"""Evaluate expressions in high precision, and refuse what would take too long."""

import random
import threading
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath import MPContext

from verifiers.grammar.tree import Node, TooLargeError
from verifiers.grammar.vocabulary import words
from verifiers.values.effort import check
from verifiers.values.exact import InexactError, UndefinedError, exact

MAX_POWER_BITS = 2**20  # of the logarithm of a power; mpmath's time grows with it
# Bits of an argument: the sine of 2^400 needs 400 more digits of pi, exp(2^20) has 2^20 bits.
MAX_BITS_OF = {"sin": 400, "cos": 400, "tan": 400, "cot": 400, "sec": 400, "csc": 400,
               "exp": 20, "sinh": 20, "cosh": 20, "tanh": 20, "coth": 20}  # fmt: skip
OF_CONTEXT = words("asin acos atan acot asec acsc asinh acosh atanh ln erf floor ceil conj re im")
MAX_GAMMA = 10_000  # its gamma function has 120,000 bits
TINY = 1e-20  # 2^x for x nearer to 0 is 1 to more digits than anybody writes
Number = Any  # mpmath's real and complex numbers have no types of their own

_local = threading.local()


def context(digits: int) -> MPContext:
    """Return this thread's own mpmath context: the precision of a shared one would be global."""
    contexts = _local.__dict__.setdefault("contexts", {})
    if digits not in contexts:
        contexts[digits] = MPContext()
        contexts[digits].dps = digits
    return contexts[digits]


@lru_cache(maxsize=4096)
def _divided(context: MPContext, top: int, bottom: int) -> Number:
    return context.mpf(top) / bottom


class Evaluator:
    """Evaluates trees at one point.

    `real`: refuse every value on the way that is not real. `decimal_log`: log has the base 10, not
    e. `lossless`: refuse sums and functions that lose a part below the precision.
    """

    def __init__(
        self,
        digits: int,
        values: Mapping[str, Fraction],
        *,
        real: bool,
        decimal_log: bool = False,
        lossless: bool = False,
    ) -> None:
        self.context = context(digits)
        self.rationals = values
        self.real = real
        self.decimal_log = decimal_log
        self.lossless = lossless

    def __call__(self, node: Node) -> Number:
        """Return the value. Raises InexactError, UndefinedError or TooLargeError."""
        try:
            value = self._evaluate(node)
        except TooLargeError:
            raise
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise UndefinedError(str(error)) from error
        if not self.context.isfinite(value):
            raise UndefinedError("not finite")
        return value

    def _evaluate(self, node: Node) -> Number:
        c = self.context
        kind = node.kind
        if kind == "num":
            return self._rational(node.value)
        if kind == "sym":
            return self._rational(self.rationals[str(node.value)])
        if kind == "const":
            return self._constant(str(node.value))
        args = [self._evaluate(arg) for arg in node.args]
        if kind == "add":
            value = c.fsum(args)
        elif kind == "mul":
            value = c.fprod(args)
        elif kind == "neg":
            value = -args[0]
        elif kind == "div":
            value = args[0] / args[1]
        elif kind == "pow":
            value = self._power(*args)
        elif kind == "call":
            value = self._call(str(node.value), args)
        elif kind == "deg":
            value = args[0] * c.pi / 180
        elif kind == "pct":
            value = args[0] / 100
        elif kind == "fact":
            value = self._factorial(node, args[0])
        elif kind == "opaque":
            value = self._arbitrary(str(node.value), args)
        else:
            raise InexactError(kind)
        if self.lossless and self._loses(node, value, args):
            raise InexactError("lost below the precision")
        if self.real and isinstance(value, c.mpc):
            if value.imag:
                raise InexactError("not real")
            value = value.real
        return value

    def _loses(self, node: Node, value: Number, args: list[Number]) -> bool:
        """Return whether this precision cannot tell a value from 1: 1 + 10^-600, tanh 1000."""
        if node.kind == "add":
            smallest = abs(value) * self.context.eps
            return any(arg and abs(arg) < smallest for arg in args)
        if abs(value) != 1:
            return False
        if node.kind == "pow":
            return bool(0 < abs(args[1]) < TINY)
        if node.value == "root":
            return bool(abs(args[0]) != 1)
        if node.value in ("exp", "cos", "cosh", "sec"):
            return bool(0 < abs(args[0]) < 1)
        return node.value in ("tanh", "coth", "erf")

    def _rational(self, value: Fraction) -> Number:
        return _divided(self.context, value.numerator, value.denominator)

    def _constant(self, name: str) -> Number:
        c = self.context
        if name == "i" and self.real:
            raise InexactError("not real")
        if name == "inf":
            raise InexactError("infinite")
        return {"pi": +c.pi, "e": +c.e, "i": c.j}[name]

    def _power(self, base: Number, exponent: Number) -> Number:
        c = self.context
        if base == 0:
            if isinstance(exponent, c.mpc) or exponent <= 0:
                raise UndefinedError("power of zero")
            return base
        check()
        # mag is a cheap logarithm to the base 2, at most 2 off
        may_be_large = (abs(c.mag(base)) + 2) * abs(exponent) > MAX_POWER_BITS
        if may_be_large and abs(c.log(abs(base), 2) * exponent) > MAX_POWER_BITS:
            raise TooLargeError("power too large")
        if self.real and base < 0 and exponent != c.floor(exponent):
            raise InexactError("not real")
        return c.power(base, exponent)

    def _factorial(self, node: Node, value: Number) -> Number:
        try:
            return self._rational(exact(node, self.rationals))
        except InexactError:
            return self._gamma(value + 1)

    def _gamma(self, value: Number) -> Number:
        if abs(value) > MAX_GAMMA:
            raise TooLargeError("factorial too large")
        return self.context.gamma(value)

    def _arbitrary(self, name: str, args: list[Number]) -> Number:
        """Return the value of an unknown function: a fixed number for each name and argument."""
        key = ",".join(self.context.nstr(arg, 15) for arg in args)
        return self.context.mpf(random.Random(f"{name}({key})").randint(100, 900)) / 211

    def _call(self, name: str, args: list[Number]) -> Number:
        check()
        c = self.context
        x = args[0]
        if name in MAX_BITS_OF:
            if c.mag(x) > MAX_BITS_OF[name] and c.log(abs(x), 2) > MAX_BITS_OF[name]:
                raise TooLargeError("argument too large")
            return getattr(c, name)(x)
        if name in OF_CONTEXT:
            return getattr(c, name)(x)
        if name == "log":
            default_base = 10 if self.decimal_log else c.e
            return c.log(x) / c.log(args[1] if len(args) > 1 else default_base)
        if name == "root":
            return self._root(x, args[1])
        evaluate = {
            "lg": lambda: c.log(x) / c.log(10), "abs": lambda: abs(x), "sgn": lambda: c.sign(x),
            "cis": lambda: c.cos(x) + c.j * c.sin(x), "gamma": lambda: self._gamma(x),
            "max": lambda: max(args), "min": lambda: min(args),
            "binom": lambda: self._binomial(x, args[1]),
        }.get(name)  # fmt: skip
        if evaluate is None:
            raise InexactError(name)
        return evaluate()

    def _binomial(self, n: Number, k: Number) -> Number:
        return self._gamma(n + 1) / self._gamma(k + 1) / self._gamma(n - k + 1)

    def _root(self, value: Number, index: Number) -> Number:
        """Return the root of a number. An odd root of a negative number is real, as the radical
        sign means it."""
        c = self.context
        real = not isinstance(value, c.mpc)
        if real and value < 0 and not isinstance(index, c.mpc) and index % 2 == 1:
            return -c.power(-value, 1 / index)
        return c.power(value, 1 / index) if index != 2 else c.sqrt(value)
