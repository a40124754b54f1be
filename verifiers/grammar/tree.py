"""The parsed form of an answer: one small immutable node for everything."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


class ParseError(ValueError):
    """The text is not in the grammar."""


class TooLargeError(ParseError):
    """The text, or what it denotes, is too large to work with."""


@dataclass(frozen=True)
class Node:
    """`kind` says what `value` and `args` mean.

    Numbers and names: num (value Fraction), sym, const, text, setname, dots.
    Arithmetic: add, mul, div (two args), neg, pow, fact, call (value: function), pm (value: sign).
    Quantities: unit, compound (5 ft 6 in), pct, deg, base, ratio, clock, mod.
    Structure: list (value: connective), tuple (value: brackets), set, builder, matrix (value:
    shape), rel (value: operators), union, inter, diff, empty.
    Unevaluated: big (sums, integrals, limits), opaque (value: name).
    """

    kind: str
    value: object = None
    args: tuple["Node", ...] = ()
    digits: int = 0  # of a decimal literal: how many significant digits were written

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, without recursion."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.args)

    def has(self, *kinds: str) -> bool:
        return any(node.kind in kinds for node in self.walk())

    def symbols(self) -> set[str]:
        return {str(node.value) for node in self.walk() if node.kind == "sym"}

    def size(self) -> int:
        return sum(1 for _ in self.walk())

    def with_args(self, args: tuple["Node", ...]) -> "Node":
        return Node(self.kind, self.value, args, self.digits)


def num(value: int | Fraction) -> Node:
    return Node("num", Fraction(value))


def product_of(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node("mul", None, tuple(factors))


def replace_symbol(node: Node, old: str, new: str) -> Node:
    """Rename a variable."""
    if node.kind == "sym" and node.value == old:
        return Node("sym", new)
    return node.with_args(tuple(replace_symbol(arg, old, new) for arg in node.args))


COMMUTATIVE = {"add", "mul", "set", "union", "inter"}


def canonical(node: Node) -> tuple:
    """A key under which answers that differ only in order and nesting of sums, products and
    sets are the same."""
    kind, args = node.kind, list(node.args)
    if kind == "neg":
        kind, args = "mul", [num(-1), node.args[0]]
    if kind in ("add", "mul"):
        args = list(_flattened(kind, args))
    keys = [canonical(arg) for arg in args]
    if kind in COMMUTATIVE:
        keys.sort(key=repr)
    return (kind, _key(node.value), *keys)


def _key(value: object) -> str:
    if isinstance(value, Fraction):
        return f"{value.numerator:x}/{value.denominator:x}"  # decimal digits are limited by Python
    return str(value)


def _flattened(kind: str, args: list[Node]) -> Iterator[Node]:
    for arg in args:
        if kind == "mul" and arg.kind == "neg":
            yield num(-1)
            yield from _flattened(kind, [arg.args[0]])
        elif arg.kind == kind:
            yield from _flattened(kind, list(arg.args))
        else:
            yield arg
