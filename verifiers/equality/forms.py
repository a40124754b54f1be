"""Other ways to write a set or a tuple, in the one form in which they are compared."""

from verifiers.equality.labels import with_sign
from verifiers.equality.lists import whole_numbers
from verifiers.equality.quantities import joined_units
from verifiers.grammar.tree import Difference, Empty, List, Node, Rel, SetName, Sym, Tuple
from verifiers.grammar.vocabulary import EMPTY_WORDS, REAL_WORDS

SETS = {"setname", "set", "union", "inter", "diff", "tuple"}


def spelled_out(node: Node) -> Node:
    """Return an answer in the form in which it is compared: words as sets, R - {0} as R \\ {0}."""
    if node.kind == "text":
        words = str(node.value).lower()
        if words in EMPTY_WORDS:
            return Empty()
        if words in REAL_WORDS:
            return SetName("R")
    if node.kind == "pow" and node.args[0].kind == "tuple" and node.args[1] == Sym("T"):
        return Tuple("()", node.args[0].args)
    if node.kind == "add" and len(node.args) == 2 and node.args[1].kind == "neg":
        without = node.args[1].args[0]
        if without.kind == "set" and node.args[0].kind in SETS:
            return Difference((node.args[0], without))
    if node.kind == "list" and any(not _is_domain(part) for part in node.args):
        parts = tuple(part for part in node.args if not _is_domain(part))
        node = node.with_args(parts) if len(parts) > 1 else parts[0]
    if node.kind == "list" and node.value == "and" and len(node.args) == 2:
        return joined_units(node)
    if node.kind == "builder":
        return whole_numbers(node)
    if node.kind == "rel" and node.value == ("!=",) and node.args[1].kind == "pm":
        signs = (with_sign(node, plus) for plus in (True, False))
        return List("and", tuple(signs))
    if node.kind == "list" and node.args[0].kind == "rel" and node.args[0].value == ("!=",):
        return _all_excluded(node)
    return node


def _is_domain(node: Node) -> bool:
    """Return whether it only says what a parameter may be: k ∈ Z."""
    if node.kind != "rel" or node.value != ("in",) or node.args[0].kind != "sym":
        return False
    return node.args[1].kind == "setname" and str(node.args[1].value)[0] in "ZN"


def _all_excluded(node: Node) -> Node:
    """Read x ≠ 1, 2 as a statement that excludes both."""
    name = node.args[0].args[0]
    parts = tuple(part if part.kind == "rel" else Rel(("!=",), (name, part)) for part in node.args)
    return List("and", parts)
