"""Lists whose members have names: x = 1, y = 2 as the tuple (1, 2)."""

import math

from verifiers.equality.labels import Named
from verifiers.equality.realsets import NotASetError, read_set
from verifiers.grammar.tree import Empty, Node, Set, SetName, Tuple, num
from verifiers.values.canonical import canonical

MAX_PROGRESSION = 400


def distinct_labels(members: list[Named]) -> bool:
    """Return whether each member has a name of its own (x_1 and x_2 are two values of one name)."""
    names = [base_name(member.label) for member in members if member.label is not None]
    return len(members) > 1 and len(names) == len(members) == len(set(names))


def components(members: list[Named]) -> bool:
    """Return whether x_1 = 1, x_2 = 2 may name the components of one tuple."""
    names = [m.label.value for m in members if m.label is not None and m.label.kind == "sym"]
    return distinct_labels(members) or len(names) == len(members) == len(set(names)) > 1


def base_name(label: Node) -> str:
    return str(label.value).partition("_")[0] if label.kind == "sym" else repr(label)


def by_name(members: list[Named], order: Node | None = None) -> list[Node]:
    """Return the values in the order of a label such as (n, k), else of their names."""
    named = {canonical(member.label): member.value for member in members if member.label}
    if order is not None and order.kind == "tuple":
        wanted = [canonical(name) for name in order.args]
        if sorted(wanted) == sorted(named):
            return [named[name] for name in wanted]
    letters = all(member.label and member.label.kind == "sym" for member in members)
    ordered = sorted(members, key=lambda m: str(m.label and m.label.value)) if letters else members
    return [member.value for member in ordered]


def as_tuples(members: list[Named], others: list[Named]) -> list[Named]:
    """Return x = 1, y = 2 or x = 2, y = 1 as two tuples, where the other side lists tuples."""
    tuples = [other.value for other in others if other.value.kind == "tuple"]
    if not tuples or len(tuples) != len(others):
        return members
    if any(member.value.kind == "tuple" for member in members):
        return members
    size = len(tuples[0].args)
    labels = [member.label for member in members]
    if (
        None in labels
        or not size
        or len(members) % size
        or labels != labels[:size] * (len(members) // size)
    ):
        return members
    groups = [members[start : start + size] for start in range(0, len(members), size)]
    if not distinct_labels(groups[0]):
        return members
    return [Named(None, Tuple("()", tuple(by_name(group)))) for group in groups]


def whole_numbers(node: Node) -> Node:
    """Return {x ∈ Z | -1 ≤ x < 3} with all its members."""
    over, condition = node.args
    if over.kind != "rel" or over.value != ("in",) or over.args[1] != SetName("Z"):
        return node
    try:
        pieces = read_set(condition).pieces
    except NotASetError:
        return node
    members: list[Node] = []
    for piece in pieces:
        if not abs(piece.low) + abs(piece.high) < MAX_PROGRESSION**2:
            return node
        low, high = math.ceil(piece.low), math.floor(piece.high)
        low += low == piece.low and not piece.low_closed
        high -= high == piece.high and not piece.high_closed
        if high - low > MAX_PROGRESSION:
            return node
        members.extend(num(value) for value in range(low, high + 1))
    return Set(tuple(members)) if members else Empty()
