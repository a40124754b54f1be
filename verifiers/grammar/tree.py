"""Represent a parsed answer: one small immutable node for everything."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any


class ParseError(ValueError):
    """Says that a text is not in the grammar."""


class TooLargeError(ParseError):
    """Says that a text, or the value that it denotes, is too large to work with."""


@dataclass(frozen=True)
class Node:
    """Holds a node of the tree: its kind, its parts, and a value of its own for some kinds.

    kind      value                        parts
    num       Fraction; `digits`: how many significant ones a decimal literal has
    sym, const, text, setname              the name (constants: e, i, pi, inf; sets: R, Z, R^+)
    add, mul, neg, div, pow, fact, pct, deg    the operands; `div` was written as a fraction
    mul       "applied": a name right before a bracket, which may be a product; "scale": 3 million
    call      the function                 its arguments: it can be evaluated
    opaque    the name                     never evaluated: P(A), det A, dy/dx
    big       sum, int, lim, ...           limits and what follows, kept as it stands
    pm        the upper sign               one or two terms
    unit      ((name, power), ...)         the number of a quantity
    compound                               two quantities: 5 ft 6 in
    clock     am, pm                       hours and minutes
    base      (digits, base), None for 10  the number as it was written
    ratio, mod                             terms; residue and modulus
    rel       n operators                  n + 1 operands of a chain
    list      "," "and" "or"               items
    tuple     its two brackets             items, also of an interval
    matrix    (rows, columns)              cells, row by row
    set, union, inter, diff, empty, dots       members, or the sets that are joined
    builder                                    the variable or its range, and a condition
    """

    kind: str
    args: tuple["Node", ...] = ()
    value: Any = None
    digits: int = 0

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all below it, without recursion."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.args)

    def has(self, *kinds: str) -> bool:
        """Return whether this node, or one below it, is of one of these kinds."""
        return any(node.kind in kinds for node in self.walk())

    def symbols(self) -> set[str]:
        """Return the names of the variables."""
        return {node.value for node in self.walk() if node.kind == "sym"}

    def with_args(self, args: tuple["Node", ...]) -> "Node":
        """Return this node with other parts."""
        return replace(self, args=args) if args != self.args else self


def num(value: int | Fraction, digits: int = 0) -> Node:
    return Node("num", (), Fraction(value), digits)


def sym(name: str) -> Node:
    return Node("sym", (), name)


def neg(node: Node) -> Node:
    return Node("neg", (node,))


def call(function: str, *args: Node) -> Node:
    return Node("call", args, function)


def product_of(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node("mul", tuple(factors))


def minus(left: Node, right: Node) -> Node:
    return Node("add", (left, neg(right)))


def replace_symbol(node: Node, old: str, new: Node) -> Node:
    """Put another node in the place of a variable."""
    if node.kind == "sym":
        return new if node.value == old else node
    return node.with_args(tuple(replace_symbol(arg, old, new) for arg in node.args))
