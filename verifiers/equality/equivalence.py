"""Compare parsed answers, each kind by its rule: lists, tuples, sets, relations, quantities."""

from collections import defaultdict
from collections.abc import Sequence

from verifiers.equality import labels
from verifiers.equality.equations import same_relation
from verifiers.equality.forms import spelled_out
from verifiers.equality.keys import Key, member_keys
from verifiers.equality.labels import Named
from verifiers.equality.lists import are_components, as_tuples, by_name, distinct_labels
from verifiers.equality.matrices import as_matrix
from verifiers.equality.quantities import same_quantity, without_letter_unit
from verifiers.equality.realsets import NotASetError, looks_like_range, read_set, same_set
from verifiers.grammar.tree import Node, sym
from verifiers.values.canonical import canonical
from verifiers.values.effort import check
from verifiers.values.same_value import has_value

UNDONE_CALLS = {"max", "min", "gcd", "lcm", "conj", "re", "im"}


def same_answer(gold: Node, answer: Node) -> tuple[bool, str]:
    """Return whether two parsed answers are equal, and the rule that decided it."""
    check()
    gold, answer = spelled_out(gold), spelled_out(answer)
    if canonical(gold) == canonical(answer):
        return has_value(gold), "same structure"
    if _is_unevaluated(answer) and not _is_unevaluated(gold):
        return False, "not evaluated"
    if gold.has("dots") or answer.has("dots"):
        return False, "continued list"
    if {gold.kind, answer.kind} == {"empty", "set"}:
        return False, "an empty set is not a member"
    if looks_like_range(gold) or looks_like_range(answer):
        return _same_range(gold, answer)
    return _same_collection(gold, answer)


def _is_unevaluated(node: Node) -> bool:
    """Return whether an answer holds an integral, a maximum or the like that is not evaluated."""
    return any(
        part.kind == "big" or (part.kind == "call" and part.value in UNDONE_CALLS)
        for part in labels.unname(node).value.walk()
    )


def _same_range(gold: Node, answer: Node) -> tuple[bool, str]:
    try:
        return same_set(read_set(gold), read_set(answer)), "sets of reals"
    except NotASetError:
        pass
    if gold.kind == answer.kind == "rel":
        return same_relation(gold, answer), "relation"
    left, right = labels.unname(gold).value, labels.unname(answer).value
    if left.kind == right.kind == "tuple":
        return _same_tuple(left, right), "interval"
    if left.kind == right.kind == "diff":
        return _same_ordered(left.args, right.args), "sets, part by part"
    if left.kind == right.kind and left.kind in ("union", "list", "inter"):
        are_same = len(left.args) == len(right.args) and _same_members(
            [Named(None, arg) for arg in left.args], [Named(None, arg) for arg in right.args]
        )
        return are_same, "sets, part by part"
    if labels.collect(gold) is not None and labels.collect(answer) is not None:
        return _same_collection(gold, answer)
    if (left, right) != (gold, answer) and left.kind != "rel" and right.kind != "rel":
        return same_answer(left, right)
    return False, "not the same kind"


def _same_collection(gold: Node, answer: Node) -> tuple[bool, str]:
    has_minus_plus = any(
        part.kind == "pm" and part.value == "-" for part in (*gold.walk(), *answer.walk())
    )
    if has_minus_plus and gold.has("pm") and answer.has("pm"):
        return _same_signs(gold, answer), "signs that go together"
    members = labels.collect(gold)
    answered = labels.collect(answer)
    if members is not None and answered is not None:
        return _same_lists(members, answered)
    if members is not None:
        single = labels.unname(answer)
        if single.value.kind == "tuple" and are_components(members):
            values = by_name(members, single.label)
            return _same_ordered(values, single.value.args), "named components"
        if len(_without_repeats(members)) > 1:
            return False, "answers missing"
        return _same_lists(members, [single])
    if answered is not None:
        single = labels.unname(gold)
        if single.value.kind == "tuple" and are_components(answered):
            values = by_name(answered, single.label)
            return _same_ordered(single.value.args, values), "named components"
        if len(_without_repeats(answered)) > 1:
            return False, "several answers"
        return _same_named(single, answered[0])
    return _same_single(gold, answer)


def _same_signs(gold: Node, answer: Node) -> bool:
    """Compare x = ±1, y = ∓2 by the upper signs and by the lower ones."""
    left, right = (
        [labels.with_sign(side, plus) for plus in (True, False)] for side in (gold, answer)
    )
    return _same_ordered(left, right) or _same_ordered(left, right[::-1])


def _same_lists(gold: list[Named], answer: list[Named]) -> tuple[bool, str]:
    """Compare values by their names, else a tuple's components in order, else in any order."""
    gold, answer = as_tuples(gold, answer), as_tuples(answer, gold)
    if distinct_labels(gold) and distinct_labels(answer):
        left = {canonical(member.label): member.value for member in gold if member.label}
        right = {canonical(member.label): member.value for member in answer if member.label}
        are_same = left.keys() == right.keys() and all(
            same_answer(left[key], right[key])[0] for key in left
        )
        return are_same, "named values"
    if distinct_labels(gold) and all(member.label is None for member in answer):
        values = [member.value for member in gold]
        return _same_ordered(values, [member.value for member in answer]), "named values in order"
    are_same = _same_members(_without_indices(gold), _without_indices(answer))
    return are_same, "same members" if are_same else "other members"


def _without_indices(members: list[Named]) -> list[Named]:
    """Read x_1 and x_2 as two values of x."""
    unindexed = []
    for member in members:
        label = member.label
        if label is not None and label.kind == "sym":
            label = sym(label.value.partition("_")[0])
        unindexed.append(Named(label, member.value))
    return unindexed


def _same_ordered(gold: Sequence[Node], answer: Sequence[Node]) -> bool:
    return len(gold) == len(answer) and all(
        same_answer(left, right)[0] for left, right in zip(gold, answer, strict=True)
    )


def _without_repeats(members: list[Named]) -> list[Named]:
    """Drop members that are written alike, and all but the first if all have one value."""
    first_of: dict[tuple[object, ...], Named] = {}
    for member in members:
        first_of.setdefault(canonical(member.value), member)
    distinct = list(first_of.values())
    if len(distinct) > 1 and all(
        _same_named(distinct[0], candidate)[0] for candidate in distinct[1:]
    ):
        return distinct[:1]
    return distinct


def _same_members(gold: list[Named], answer: list[Named]) -> bool:
    """Return whether both sides hold the same members. A value that the gold repeats must be
    repeated as often."""
    left, right = _without_repeats(gold), _without_repeats(answer)
    if len(gold) > len(left):
        if len(gold) != len(answer):
            return False
        for member in left:
            count = sum(_same_named(member, candidate)[0] for candidate in gold)
            if count != sum(_same_named(member, candidate)[0] for candidate in answer):
                return False
    return _covers(right, left, others_are_gold=False) and _covers(
        left, right, others_are_gold=True
    )


def _covers(candidates: list[Named], members: list[Named], *, others_are_gold: bool) -> bool:
    """Return whether each member has an equal among the candidates. Only those that share a key are
    compared, so that long lists cost little."""
    by_key: dict[Key, list[Named]] = defaultdict(list)
    for candidate in candidates:
        for key in _keys(candidate):
            by_key[key].append(candidate)
    unnamed = {canonical(candidate.value) for candidate in candidates if candidate.label is None}
    for member in members:
        if member.label is None and canonical(member.value) in unnamed:
            continue
        sharing = {id(candidate): candidate for key in _keys(member) for candidate in by_key[key]}
        for candidate in sharing.values():
            pair = (candidate, member) if others_are_gold else (member, candidate)
            if _same_named(*pair)[0]:
                break
        else:
            return False
    return True


def _keys(member: Named) -> frozenset[Key]:
    equation = labels.as_equation(member)
    return member_keys(member.value) | (member_keys(equation) if equation else frozenset())


def _same_named(gold: Named, answer: Named) -> tuple[bool, str]:
    """Compare two values if their names agree, else as equations: y = 2x, x = y/2."""
    comparison = False, "another variable"
    if labels.labels_agree(gold, answer):
        comparison = same_answer(gold.value, labels.renamed_argument(gold, answer))
    left, right = labels.as_equation(gold), labels.as_equation(answer)
    if not comparison[0] and left and right:
        return same_relation(left, right), "equation"
    return comparison


def _same_single(gold: Node, answer: Node) -> tuple[bool, str]:
    """Compare two answers of which neither is a list."""
    left, right = labels.unname(gold), labels.unname(answer)
    are_relations = gold.kind == answer.kind == "rel"
    if left.label is not None or right.label is not None:
        comparison = _same_named(left, right)
        if comparison[0] or not are_relations:
            return comparison
    if are_relations:
        return same_relation(gold, answer), "equation"
    if "rel" in (gold.kind, answer.kind):
        if (left.value, right.value) != (gold, answer):
            return same_answer(left.value, right.value)
        return answer.kind == "rel" and _all_sides_equal(answer, gold), "identity"
    return _same_value(gold, answer)


def _all_sides_equal(answer: Node, gold: Node) -> bool:
    """Return whether each side of an equation equals the gold: x^2 - 1 = (x - 1)(x + 1). The left
    one, as in m + n = 8, may only repeat what is asked for."""
    sides = answer.args
    is_value = not sides[-1].symbols() or without_letter_unit(sides[-1]) is not None
    if is_value and labels.is_asked_for(sides[0]):
        sides = sides[1:]
    return {*answer.value} == {"="} and all(same_quantity(gold, side)[0] for side in sides)


def _same_value(gold: Node, answer: Node) -> tuple[bool, str]:
    """Compare two matrices, tuples, texts or quantities."""
    left, right = as_matrix(gold), as_matrix(answer)
    if left and right:
        return left.value == right.value and _same_ordered(left.args, right.args), "matrix"
    if left or right:
        return _same_vector(left or gold, right or answer), "matrix"
    if gold.kind == answer.kind == "tuple":
        return _same_tuple(gold, answer), "tuple"
    if gold.kind == answer.kind == "text":
        return gold.value.lower() == answer.value.lower(), "text"
    return same_quantity(gold, answer)


def _same_tuple(gold: Node, answer: Node) -> bool:
    brackets = {node.value.replace("<", "(").replace(">", ")") for node in (gold, answer)}
    return len(brackets) == 1 and _same_ordered(gold.args, answer.args)


def _same_vector(gold: Node, answer: Node) -> bool:
    """Compare a matrix of one row or column with a tuple."""
    for node in (gold, answer):
        if node.kind == "matrix" and 1 not in node.value:
            return False
        if node.kind != "matrix" and (node.kind != "tuple" or node.value not in ("()", "<>", "[]")):
            return False
    return _same_ordered(gold.args, answer.args)
