"""Short ways to write the trees that the tests of the grammar expect."""

from collections.abc import Callable

from verifiers.grammar.tree import Node


def _named(kind: str) -> Callable[[str], Node]:
    return lambda name: Node(kind, (), name)


def _operation(kind: str) -> Callable[..., Node]:
    return lambda args=(): Node(kind, args)


def _tagged(kind: str) -> Callable[..., Node]:
    return lambda value, args: Node(kind, args, value)


Sym, Const, Text, SetName = (_named(kind) for kind in ("sym", "const", "text", "setname"))
Add, Mul, Div, Neg, Pow, Fact, Percent, Degrees = (
    _operation(kind) for kind in ("add", "mul", "div", "neg", "pow", "fact", "pct", "deg")
)
Ratio, Mod, Compound, Set, Builder, Union, Difference, Empty, Dots = (
    _operation(kind)
    for kind in ("ratio", "mod", "compound", "set", "builder", "union", "diff", "empty", "dots")
)
Call, Opaque, Big, PlusMinus, List, Tuple, Clock, Unit, Base, Matrix, Rel = (
    _tagged(kind)
    for kind in (
        *("call", "opaque", "big", "pm", "list", "tuple", "clock"),
        *("unit", "base", "matrix", "rel"),
    )
)


def applied(args: tuple[Node, ...]) -> Node:
    """Return f(x) where it may be a product."""
    return Node("mul", args, "applied")
