"""Equality of parsed answers: what is a list, a tuple, a set or a relation decides the rule."""

from collections import defaultdict

from verifiers.equality.equations import same_relation
from verifiers.equality.forms import spelled_out
from verifiers.equality.keys import Key, member_keys
from verifiers.equality.labels import (
    Named,
    as_equation,
    collect,
    labels_agree,
    renamed_argument,
    unname,
    with_sign,
)
from verifiers.equality.lists import (
    as_tuples,
    by_name,
    components,
    distinct_labels,
)
from verifiers.equality.matrices import as_matrix
from verifiers.equality.quantities import same_quantity
from verifiers.equality.realsets import NotASetError, looks_like_range, read_set, same_set
from verifiers.grammar.tree import Matrix, Node, Rel, Sym
from verifiers.values.canonical import canonical
from verifiers.values.effort import check
from verifiers.values.same_value import has_value

RESTATING_CALLS = {"max", "min", "gcd", "lcm", "conj", "re", "im"}


def same_answer(gold: Node, answer: Node) -> tuple[bool, str]:
    """Compare two parsed answers; the reason names the rule that decided."""
    check()
    gold, answer = spelled_out(gold), spelled_out(answer)
    if canonical(gold) == canonical(answer):
        return has_value(gold), "same structure"
    if _restates(answer) and not _restates(gold):
        return False, "not evaluated"
    if gold.has("dots") or answer.has("dots"):
        return False, "continued list"
    if {gold.kind, answer.kind} == {"empty", "set"}:
        return False, "an empty set is not a member"
    if looks_like_range(gold) or looks_like_range(answer):
        return _same_range(gold, answer)
    return _same_collection(gold, answer)


def _restates(node: Node) -> bool:
    """Return whether the answer leaves the work to the reader, as an integral or a maximum does."""
    node = unname(node).value
    return any(
        part.kind == "big" or (part.kind == "call" and part.value in RESTATING_CALLS)
        for part in node.walk()
    )


def _same_range(gold: Node, answer: Node) -> tuple[bool, str]:
    try:
        return same_set(read_set(gold), read_set(answer)), "sets of reals"
    except NotASetError:
        pass
    if isinstance(gold, Rel) and isinstance(answer, Rel):
        return same_relation(gold, answer), "relation"
    left, right = unname(gold).value, unname(answer).value
    if left.kind == right.kind == "tuple":
        return _same_tuple(left, right), "interval"
    if left.kind == right.kind and left.kind in ("union", "list", "inter", "diff"):
        return _same_parts(left, right), "sets, part by part"
    if collect(gold) is not None and collect(answer) is not None:
        return _same_collection(gold, answer)
    if (left, right) != (gold, answer) and left.kind != "rel" and right.kind != "rel":
        return same_answer(left, right)
    return False, "not the same kind"


def _same_parts(gold: Node, answer: Node) -> bool:
    if len(gold.args) != len(answer.args):
        return False
    if gold.kind == "diff":
        pairs = zip(gold.args, answer.args, strict=True)
        return all(same_answer(left, right)[0] for left, right in pairs)
    left = [Named(None, arg) for arg in gold.args]
    return _same_members(left, [Named(None, arg) for arg in answer.args])


def _same_collection(gold: Node, answer: Node) -> tuple[bool, str]:
    signs = [part.value for side in (gold, answer) for part in side.walk() if part.kind == "pm"]
    if "-" in signs and gold.has("pm") and answer.has("pm"):
        return _same_signs(gold, answer), "signs that go together"
    members, others = collect(gold), collect(answer)
    if members is None and others is None:
        return _same_single(gold, answer)
    if members is None and others is not None:
        named = unname(gold)
        if named.value.kind == "tuple" and components(others):
            return _same_ordered(
                list(named.value.args), by_name(others, named.label)
            ), "named components"
        others = _without_repeats(others)
        if len(others) > 1:
            return False, "several answers"
        return _same_named(named, others[0])
    assert members is not None
    if others is None:
        named = unname(answer)
        if named.value.kind == "tuple" and components(members):
            return _same_ordered(
                by_name(members, named.label), list(named.value.args)
            ), "named components"
        if len(_without_repeats(members)) > 1:
            return False, "answers missing"
        others = [unname(answer)]
    return _same_lists(members, others)


def _same_signs(gold: Node, answer: Node) -> bool:
    """Compare x = ±1, y = ∓2 by the upper signs and by the lower ones."""
    left, right = ([with_sign(side, plus) for plus in (True, False)] for side in (gold, answer))
    return any(
        same_answer(left[0], right[at])[0] and same_answer(left[1], right[1 - at])[0]
        for at in (0, 1)
    )


def _same_lists(gold: list[Named], answer: list[Named]) -> tuple[bool, str]:
    gold, answer = as_tuples(gold, answer), as_tuples(answer, gold)
    if distinct_labels(gold):
        if distinct_labels(answer):
            left, right = (
                {canonical(m.label): m.value for m in side if m.label} for side in (gold, answer)
            )
            same = left.keys() == right.keys() and all(
                same_answer(left[key], right[key])[0] for key in left
            )
            return same, "named values"
        if all(member.label is None for member in answer):
            values = [member.value for member in answer]
            return _same_ordered([member.value for member in gold], values), "named values in order"
    return _same_members(_one_name(gold), _one_name(answer)), "same members"


def _one_name(members: list[Named]) -> list[Named]:
    """Read x_1 and x_2 as two values of x."""
    return [
        Named(Sym(str(member.label.value).partition("_")[0]), member.value)
        if member.label is not None and member.label.kind == "sym"
        else member
        for member in members
    ]


def _same_ordered(gold: list[Node], answer: list[Node]) -> bool:
    return len(gold) == len(answer) and all(
        same_answer(left, right)[0] for left, right in zip(gold, answer, strict=True)
    )


def _without_repeats(members: list[Named]) -> list[Named]:
    kept: dict[tuple, Named] = {}
    for member in members:
        kept.setdefault(canonical(member.value), member)
    distinct = list(kept.values())
    if len(distinct) > 1 and all(_same_named(distinct[0], other)[0] for other in distinct[1:]):
        return distinct[:1]
    return distinct


def _same_members(gold: list[Named], answer: list[Named]) -> bool:
    """Return each has its equal on the other side; where the gold repeats a value, the answer
    must."""
    left, right = (_without_repeats(side) for side in (gold, answer))
    if len(gold) > len(left) and not _same_repeats(left, gold, answer):
        return False
    return _all_found(left, right, flip=False) and _all_found(right, left, flip=True)


def _all_found(members: list[Named], others: list[Named], *, flip: bool) -> bool:
    """Return whether each member has an equal among the others; only those with a common key
    are tried."""
    known: dict[Key, list[Named]] = defaultdict(list)
    for other in others:
        for key in _keys(other):
            known[key].append(other)
    alike = {canonical(other.value) for other in others if other.label is None}
    for member in members:
        if member.label is None and canonical(member.value) in alike:
            continue
        near = {id(other): other for key in _keys(member) for other in known[key]}
        pairs = ((other, member) if flip else (member, other) for other in near.values())
        if not any(_same_named(*pair)[0] for pair in pairs):
            return False
    return True


def _keys(member: Named) -> frozenset[Key]:
    found = member_keys(member.value)
    return found | member_keys(equation) if (equation := as_equation(member)) else found


def _same_repeats(members: list[Named], gold: list[Named], answer: list[Named]) -> bool:
    return len(gold) == len(answer) and all(
        sum(_same_named(member, other)[0] for other in gold)
        == sum(_same_named(member, other)[0] for other in answer)
        for member in members
    )


def _same_named(gold: Named, answer: Named) -> tuple[bool, str]:
    agreed = labels_agree(gold, answer)
    if agreed and (found := same_answer(gold.value, renamed_argument(gold, answer)))[0]:
        return found
    left, right = as_equation(gold), as_equation(answer)
    if left and right:
        return same_relation(left, right), "equation"
    return found if agreed else (False, "another variable")


def _same_single(gold: Node, answer: Node) -> tuple[bool, str]:
    left, right = unname(gold), unname(answer)
    if left.label is not None or right.label is not None:
        found = _same_named(left, right)
        if found[0] or not (gold.kind == answer.kind == "rel"):
            return found
    if isinstance(gold, Rel) and isinstance(answer, Rel):
        return same_relation(gold, answer), "equation"
    if isinstance(gold, Rel) or isinstance(answer, Rel):
        if (left.value, right.value) != (gold, answer):
            return same_answer(left.value, right.value)
        return isinstance(answer, Rel) and _comes_to(answer, gold), "identity"
    return _same_value(gold, answer)


def _comes_to(answer: Rel, gold: Node) -> bool:
    """Return whether each side of an equation is the gold, as in x^2 - 1 = (x - 1)(x + 1); the sum
    of names m + n is only what is asked for."""
    sides = answer.args
    if sides[0].kind == "add" and all(part.kind == "sym" for part in sides[0].args):
        sides = sides[1:]
    return {*answer.value} == {"="} and all(same_quantity(gold, side)[0] for side in sides)


def _same_value(gold: Node, answer: Node) -> tuple[bool, str]:
    matrices = as_matrix(gold), as_matrix(answer)
    if matrices[0] or matrices[1]:
        return _same_matrix(gold, answer, *matrices), "matrix"
    if gold.kind == answer.kind == "tuple":
        return _same_tuple(gold, answer), "tuple"
    if gold.kind == answer.kind == "text":
        return str(gold.value).lower() == str(answer.value).lower(), "text"
    return same_quantity(gold, answer)


def _same_tuple(gold: Node, answer: Node) -> bool:
    brackets = {str(node.value).replace("<", "(").replace(">", ")") for node in (gold, answer)}
    return len(brackets) == 1 and _same_ordered(list(gold.args), list(answer.args))


def _same_matrix(gold: Node, answer: Node, left: Matrix | None, right: Matrix | None) -> bool:
    if left and right:
        shapes_agree = left.value == right.value
        return shapes_agree and _same_ordered(list(left.args), list(right.args))
    matrix, other = (left, answer) if left else (right, gold)
    if matrix is None or 1 not in matrix.value or other.kind != "tuple":
        return False
    return other.value in ("()", "<>", "[]") and _same_ordered(list(matrix.args), list(other.args))
