"""Rewrite the ways to write a set or a tuple in the one form in which they are compared."""

import math

from verifiers.equality.labels import with_sign
from verifiers.equality.quantities import joined_units
from verifiers.equality.realsets import NotASetError, read_builder
from verifiers.grammar.tree import Node, num, sym
from verifiers.grammar.vocabulary import EMPTY_WORDS, REAL_WORDS

SETS = {"setname", "set", "union", "inter", "diff", "tuple"}
MOST_MEMBERS = 401  # of a set that is written out, as the whole numbers from -200 to 200
HIGHEST_MEMBER = 160_000


def spelled_out(node: Node) -> Node:
    """Return an answer in the form in which it is compared: words as sets, (1, 2)^T as a tuple,
    R - {0} as R \\ {0}, x ≠ ±1 as a list."""
    kind, args = node.kind, node.args
    if kind == "text":
        words = node.value.lower()
        if words in EMPTY_WORDS:
            return Node("empty")
        return Node("setname", (), "R") if words in REAL_WORDS else node
    if kind == "pow" and args[0].kind == "tuple" and args[1] == sym("T"):
        return Node("tuple", args[0].args, "()")
    if kind == "add" and len(args) == 2 and args[1].kind == "neg":
        without = args[1].args[0]
        if without.kind == "set" and args[0].kind in SETS:
            return Node("diff", (args[0], without))
    if kind == "builder":
        return _whole_numbers(node)
    if kind == "rel" and node.value == ("!=",) and args[1].kind == "pm":
        return Node("list", (with_sign(node, True), with_sign(node, False)), "and")
    if kind == "list":
        return _list_spelled_out(node)
    return node


def _list_spelled_out(node: Node) -> Node:
    """Drop k ∈ Z from a list, join 2 hours and 15 minutes, read x ≠ 1, 2 as x ≠ 1 and x ≠ 2."""
    parts = tuple(part for part in node.args if not _is_domain(part))
    if parts and len(parts) < len(node.args):
        return node.with_args(parts) if len(parts) > 1 else parts[0]
    if node.value == "and" and len(parts) == 2:
        return joined_units(node)
    if parts and parts[0].kind == "rel" and parts[0].value == ("!=",):
        name = parts[0].args[0]
        unequal = []
        for part in parts:
            unequal.append(part if part.kind == "rel" else Node("rel", (name, part), ("!=",)))
        return Node("list", tuple(unequal), "and")
    return node


def _is_domain(node: Node) -> bool:
    """Return whether a node only says what a parameter may be: k ∈ Z."""
    if node.kind != "rel" or node.value != ("in",) or node.args[0].kind != "sym":
        return False
    return node.args[1].kind == "setname" and node.args[1].value[0] in "ZN"


def _whole_numbers(node: Node) -> Node:
    """Write out {x ∈ Z | -1 ≤ x < 3} with all its members."""
    try:
        cuts = read_builder(node, "Z").cuts
    except NotASetError:
        return node
    if not all(abs(value) < HIGHEST_MEMBER for value, _ in cuts):
        return node
    # the first whole number after each cut: 5 after (5, 0), 6 after (5, 1)
    firsts = [max(math.ceil(value), math.floor(value) + after) for value, after in cuts]
    members: list[Node] = []
    for start, stop in zip(firsts[::2], firsts[1::2], strict=True):
        if stop - start > MOST_MEMBERS:
            return node
        members.extend(num(value) for value in range(start, stop))
    return Node("set", tuple(members)) if members else Node("empty")
