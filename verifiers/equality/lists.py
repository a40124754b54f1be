"""Read lists whose members have names: x = 1, y = 2 as the tuple (1, 2)."""

from verifiers.equality.labels import Named
from verifiers.grammar.tree import Node
from verifiers.values.canonical import canonical


def distinct_labels(members: list[Named]) -> bool:
    """Return whether each member has a name of its own (x_1 and x_2 are two values of one name)."""
    names = set()
    for member in members:
        label = member.label
        if label is None:
            return False
        names.add(label.value.partition("_")[0] if label.kind == "sym" else repr(label))
    return len(members) == len(names) > 1


def are_components(members: list[Named]) -> bool:
    """Return whether x_1 = 1, x_2 = 2 may name the components of one tuple."""
    names = [m.label.value for m in members if m.label is not None and m.label.kind == "sym"]
    return distinct_labels(members) or len(names) == len(members) == len(set(names)) > 1


def by_name(members: list[Named], order: Node | None = None) -> tuple[Node, ...]:
    """Return the values in the order of a label such as (n, k), else in that of their names."""
    value_of = {canonical(member.label): member.value for member in members if member.label}
    if order is not None and order.kind == "tuple":
        names = [canonical(name) for name in order.args]
        if sorted(names) == sorted(value_of):
            return tuple(value_of[name] for name in names)
    if all(member.label and member.label.kind == "sym" for member in members):
        members = sorted(members, key=lambda m: m.label.value if m.label else "")
    return tuple(member.value for member in members)


def as_tuples(members: list[Named], counterparts: list[Named]) -> list[Named]:
    """Return "x = 1, y = 2 or x = 2, y = 1" as two tuples, where the other side lists tuples."""
    if any(member.value.kind == "tuple" for member in members):
        return members
    if not counterparts or any(member.value.kind != "tuple" for member in counterparts):
        return members
    size = len(counterparts[0].value.args)
    labels = [member.label for member in members]
    if not size or None in labels or labels != labels[:size] * (len(labels) // size):
        return members
    groups = [members[start : start + size] for start in range(0, len(members), size)]
    if not distinct_labels(groups[0]):
        return members
    return [Named(None, Node("tuple", by_name(group), "()")) for group in groups]
