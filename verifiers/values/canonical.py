"""One key for answers that differ only in the order and nesting of their parts."""

from collections.abc import Iterator
from fractions import Fraction

from verifiers.grammar.tree import Node, num

COMMUTATIVE = {"add", "mul", "set", "union", "inter"}


def canonical(node: Node) -> tuple:
    """Return a key under which answers that differ only in order and nesting of sums, products and
    sets are the same."""
    kind, args = node.kind, node.args
    if kind == "neg":
        kind, args = "mul", (num(-1), *args)
    if kind in ("add", "mul"):
        args = tuple(_flattened(kind, args))
    keys = [canonical(arg) for arg in args]
    if kind in COMMUTATIVE:
        keys.sort(key=repr)
    value = node.value
    if isinstance(value, Fraction):  # Python limits the digits of decimal numbers
        value = f"{value.numerator:x}/{value.denominator:x}"
    return (kind, str(value), *keys)


def _flattened(kind: str, args: tuple[Node, ...]) -> Iterator[Node]:
    for arg in args:
        if kind == "mul" and arg.kind == "neg":
            yield num(-1)
            yield from _flattened(kind, arg.args)
        elif arg.kind == kind:
            yield from _flattened(kind, arg.args)
        else:
            yield arg
