"""Other ways to write a set or a tuple, in the one form in which they are compared."""

import math

from verifiers.equality.labels import with_sign
from verifiers.equality.quantities import joined_units
from verifiers.equality.realsets import NotASetError, read_set
from verifiers.grammar.tree import Node, num, sym
from verifiers.grammar.vocabulary import EMPTY_WORDS, REAL_WORDS

SETS = {"setname", "set", "union", "inter", "diff", "tuple"}
MOST_MEMBERS = 400
HIGHEST_MEMBER = 160_000


def spelled_out(node: Node) -> Node:
    """Return an answer in the form in which it is compared: words as sets, R - {0} as R \\ {0}."""
    kind, args = node.kind, node.args
    if kind == "text":
        words = node.value.lower()
        if words in EMPTY_WORDS:
            return Node("empty")
        return Node("setname", (), "R") if words in REAL_WORDS else node
    if kind == "pow" and args[0].kind == "tuple" and args[1] == sym("T"):
        return Node("tuple", args[0].args, "()")
    if kind == "add" and len(args) == 2 and args[1].kind == "neg":
        left_out = args[1].args[0]
        if left_out.kind == "set" and args[0].kind in SETS:
            return Node("diff", (args[0], left_out))
    if kind == "builder":
        return _whole_numbers(node)
    if kind == "rel" and node.value == ("!=",) and args[1].kind == "pm":
        return Node("list", (with_sign(node, True), with_sign(node, False)), "and")
    if kind == "list":
        return _list_spelled_out(node)
    return node


def _list_spelled_out(node: Node) -> Node:
    parts = tuple(part for part in node.args if not _is_domain(part))
    if parts and len(parts) < len(node.args):
        return node.with_args(parts) if len(parts) > 1 else parts[0]
    if node.value == "and" and len(parts) == 2:
        return joined_units(node)
    if parts[:1] and parts[0].kind == "rel" and parts[0].value == ("!=",):  # x ≠ 1, 2
        name = parts[0].args[0]
        excluded = (p if p.kind == "rel" else Node("rel", (name, p), ("!=",)) for p in parts)
        return Node("list", tuple(excluded), "and")
    return node


def _is_domain(node: Node) -> bool:
    """Return whether it only says what a parameter may be: k ∈ Z."""
    if node.kind != "rel" or node.value != ("in",) or node.args[0].kind != "sym":
        return False
    return node.args[1].kind == "setname" and node.args[1].value[0] in "ZN"


def _whole_numbers(node: Node) -> Node:
    """Return {x ∈ Z | -1 ≤ x < 3} with all its members."""
    over, condition = node.args
    if over.kind != "rel" or over.value != ("in",) or over.args[1] != Node("setname", (), "Z"):
        return node
    try:
        pieces = read_set(condition).pieces
    except NotASetError:
        return node
    members: list[Node] = []
    for piece in pieces:
        if not max(abs(piece.low), abs(piece.high)) < HIGHEST_MEMBER:
            return node
        low, high = math.ceil(piece.low), math.floor(piece.high)
        low += low == piece.low and not piece.low_closed
        high -= high == piece.high and not piece.high_closed
        if high - low > MOST_MEMBERS:
            return node
        members.extend(num(value) for value in range(low, high + 1))
    return Node("set", tuple(members)) if members else Node("empty")
