"""Other ways to write a list or a tuple: named components, progressions, vectors of i, j, k."""

import math
from collections.abc import Sequence

from verifiers.equality.labels import Named
from verifiers.equality.realsets import NotASetError, read_set
from verifiers.grammar.literals import whole_number
from verifiers.grammar.tree import Add, Const, Empty, Mul, Node, Rel, Set, SetName, Sym, Tuple, num
from verifiers.values.canonical import canonical
from verifiers.values.same_value import is_arithmetic, same_value

MAX_PROGRESSION = 400
AXES = ("i", "j", "k")


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


def named_alike(node: Node) -> list[Named]:
    """Return the components that x = y = z = 1 names, all with one value."""
    names, value = node.args[:-1], node.args[-1:]
    equations = isinstance(node, Rel) and {*node.value} == {"="}
    if not equations or len(names) < 2 or any(name.kind != "sym" for name in names):
        return []
    return [] if value[0].symbols() else [Named(name, value[0]) for name in names]


def written_out(node: Node) -> Node:
    """Return 1, 2, …, 6 with all its members, where they are whole numbers at one distance."""
    parts = node.args
    if node.kind not in ("list", "set") or [part.kind for part in parts].count("dots") != 1:
        return node
    gap = next(index for index, part in enumerate(parts) if part.kind == "dots")
    numbers = [_whole(part) for part in (*parts[:gap], *parts[gap + 1 :])]
    if gap < 2 or gap == len(parts) - 1 or None in numbers:
        return node
    values = [value for value in numbers if value is not None]
    step = values[1] - values[0]
    if not step or not 0 < (values[-1] - values[0]) / step <= MAX_PROGRESSION:
        return node
    members = list(range(values[0], values[-1] + (1 if step > 0 else -1), step))
    fits = members[:gap] == values[:gap] and members[gap - len(values) :] == values[gap:]
    return node.with_args(tuple(num(value) for value in members)) if fits else node


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


def _whole(node: Node) -> int | None:
    sign, inner = (-1, node.args[0]) if node.kind == "neg" else (1, node)
    value = whole_number(inner)
    return None if value is None else sign * value


def along_axes(node: Node, size: int) -> Node | None:
    """Return 2i + 3j as the tuple (2, 3), for comparison with a tuple of that size."""
    names = {*node.symbols()} & {*AXES}
    imaginary = any(part == Const("i") for part in node.walk())
    if not names & {"j", "k"} or size not in (2, 3) or (size == 2 and "k" in names):
        return None
    if (names == {"k"} and not imaginary) or not is_arithmetic(node):
        return None
    axes = AXES[:size]
    parts = [_at(node, [num(int(axis == other)) for other in axes]) for axis in axes]
    if any({*part.symbols()} & {*AXES} for part in parts):
        return None
    combined = Add(
        tuple(Mul((Sym(f"{axis} axis"), part)) for axis, part in zip(axes, parts, strict=True))
    )
    renamed = _at(node, [Sym(f"{axis} axis") for axis in axes])
    return Tuple("()", tuple(parts)) if same_value(combined, renamed) else None


def _at(node: Node, values: Sequence[Node]) -> Node:
    for axis, value in zip(AXES, values, strict=False):
        if node in (Sym(axis), Const(axis)):
            return value
    return node.with_args(tuple(_at(arg, values) for arg in node.args))


def on_axes(node: Node, other: Node) -> Node:
    """Return 2i + 3j as a tuple where the other side is a vector."""
    if other.kind not in ("tuple", "matrix") or node.kind not in ("add", "mul", "neg", "sym"):
        return node
    return along_axes(node, len(other.args)) or node
