"""Give one key to answers that differ only in the order and nesting of their parts."""

from collections.abc import Iterator
from fractions import Fraction

from verifiers.grammar.tree import Node, num

COMMUTATIVE = {"add", "mul", "set", "union", "inter"}


def canonical(node: Node) -> tuple[object, ...]:
    """Return a key that is the same for a + (b + c) and c + b + a: sums, products, unions,
    intersections and sets in any order and nesting."""
    kind, args = node.kind, node.args
    if kind == "neg":
        kind, args = "mul", (num(-1), *args)
    if kind in ("add", "mul"):
        args = tuple(_flattened(kind, args))
    keys = [canonical(arg) for arg in args]
    if kind in COMMUTATIVE:
        keys.sort(key=repr)
    value = node.value
    if isinstance(value, Fraction):  # in hexadecimal, as Python refuses decimals of 4,300 digits
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
