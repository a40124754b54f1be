"""One key for answers that differ only in the order and nesting of their parts."""

from collections.abc import Iterator
from fractions import Fraction

from verifiers.grammar.tree import Node, num

COMMUTATIVE = {"add", "mul", "set", "union", "inter"}


def canonical(node: Node) -> tuple:
    """Return a key under which answers that differ only in order and nesting of sums, products and
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
