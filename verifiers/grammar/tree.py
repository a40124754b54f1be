"""The parsed form of an answer: one small immutable node for everything."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self


class ParseError(ValueError):
    """The text is not in the grammar."""


class TooLargeError(ParseError):
    """The text, or what it denotes, is too large to work with."""


class Node:
    """One node of the tree. Its class is its kind; `kind` is the short name of it for keys and
    tables. What a kind has no use for is empty."""

    kind: ClassVar[str]
    value: object = None
    args: tuple["Node", ...] = ()
    digits: int = 0

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all below it, without recursion."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.args)

    def has(self, *kinds: str) -> bool:
        nodes: list[Node] = [self]
        for node in nodes:
            if node.kind in kinds:
                return True
            nodes += node.args
        return False

    def symbols(self) -> set[str]:
        nodes: list[Node] = [self]
        for node in nodes:
            nodes += node.args
        return {node.value for node in nodes if isinstance(node, Sym)}

    def size(self) -> int:
        return sum(1 for _ in self.walk())

    def with_args(self, args: tuple["Node", ...]) -> "Node":
        return self


@dataclass(frozen=True)
class Num(Node):
    """A number; `digits`: how many significant ones a decimal literal has."""

    kind = "num"
    value: Fraction
    digits: int = 0


@dataclass(frozen=True)
class Name(Node):
    """What is known by its name alone."""

    value: str


class Sym(Name):
    kind = "sym"


class Const(Name):
    """e, i, pi or inf."""

    kind = "const"


class Text(Name):
    kind = "text"


class SetName(Name):
    """R, Z, R+."""

    kind = "setname"


@dataclass(frozen=True)
class Operation(Node):
    """What is known by its kind and its parts."""

    args: tuple[Node, ...] = ()

    def with_args(self, args: tuple[Node, ...]) -> Self:
        return type(self)(args)


class Add(Operation):
    kind = "add"


class Mul(Operation):
    kind = "mul"


class Applied(Mul):
    """A name right before a bracket, f(x), which may be a product."""

    value = "applied"


class Div(Operation):
    """A fraction that was written as one."""

    kind = "div"


class Neg(Operation):
    kind = "neg"


class Pow(Operation):
    kind = "pow"


class Fact(Operation):
    kind = "fact"


class Percent(Operation):
    kind = "pct"


class Degrees(Operation):
    kind = "deg"


class Ratio(Operation):
    kind = "ratio"


class Mod(Operation):
    kind = "mod"


class Compound(Operation):
    """5 ft 6 in."""

    kind = "compound"


class Set(Operation):
    kind = "set"


class Builder(Operation):
    """{x | x > 1}: what, and its condition."""

    kind = "builder"


class Union(Operation):
    kind = "union"


class Intersection(Operation):
    kind = "inter"


class Difference(Operation):
    kind = "diff"


class Empty(Operation):
    kind = "empty"


class Dots(Operation):
    kind = "dots"


@dataclass(frozen=True)
class Tagged(Node):
    """An operation with a tag: which function, connective, sign or bracket."""

    value: str
    args: tuple[Node, ...]

    def with_args(self, args: tuple[Node, ...]) -> Self:
        return type(self)(self.value, args)


class Call(Tagged):
    """A function that can be evaluated."""

    kind = "call"


class Opaque(Tagged):
    """A named quantity that is never evaluated: P(A), det A."""

    kind = "opaque"


class Big(Tagged):
    """A sum, product, integral or limit, kept as it stands."""

    kind = "big"


class PlusMinus(Tagged):
    """The upper sign, and one or two terms."""

    kind = "pm"


class List(Tagged):
    """Items and what joins them: a comma, `and`, `or`."""

    kind = "list"


class Tuple(Tagged):
    """Items between brackets, which are the tag: (], <>."""

    kind = "tuple"


class Clock(Tagged):
    """Hours and minutes, am or pm."""

    kind = "clock"


class Marked(Node):
    """A value of its own kind beside the parts."""

    def with_args(self, args: tuple[Node, ...]) -> Self:
        return type(self)(self.value, args)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Unit(Marked):
    """A quantity; the powers of its units by name."""

    kind = "unit"
    value: tuple[tuple[str, int], ...]
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Base(Marked):
    """Digits and the base they are written to; no value for the base 10."""

    kind = "base"
    value: tuple[str, int] | None
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Matrix(Marked):
    """Rows and columns, and the cells row by row."""

    kind = "matrix"
    value: tuple[int, int]
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Rel(Marked):
    """A chain of relations: n operators between n + 1 operands."""

    kind = "rel"
    value: tuple[str, ...]
    args: tuple[Node, ...]


def num(value: int | Fraction) -> Node:
    return Num(Fraction(value))


def product_of(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def replace_symbol(node: Node, old: str, new: str) -> Node:
    """Rename a variable."""
    if node.kind == "sym" and node.value == old:
        return Sym(new)
    return node.with_args(tuple(replace_symbol(arg, old, new) for arg in node.args))
