"""Equations and inequalities in several variables, up to rearrangement."""

from verifiers.expr import Node, canonical
from verifiers.values import proportional, same_solution, same_value
from verifiers.vocabulary import FLIPPED


def same_relation(gold: Node, answer: Node) -> bool:
    """Whether two relations are rearrangements of each other."""
    if len(gold.args) > 2 and FLIPPED.get(str(gold.value[0])) == answer.value[-1]:  # type: ignore[index]
        operators = tuple(FLIPPED.get(sign, sign) for sign in answer.value[::-1])  # type: ignore[index]
        answer = Node("rel", operators, answer.args[::-1])
    if gold.value != answer.value and not _single(gold, answer):
        return False
    if _same_operands(gold.args, answer.args) and gold.value == answer.value:
        return True
    if not _single(gold, answer):
        return False
    left, right = _difference(gold), _difference(answer)
    sign = proportional(left, right)
    if sign is None:
        return gold.value == answer.value == ("=",) and same_solution(left, right)
    operator, other = str(gold.value[0]), str(answer.value[0])  # type: ignore[index]
    return operator == (other if sign > 0 else FLIPPED.get(other, other))


def _single(*relations: Node) -> bool:
    return all(len(relation.args) == 2 for relation in relations)


def _same_operands(left: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
    return len(left) == len(right) and all(
        canonical(a) == canonical(b) or same_value(a, b) for a, b in zip(left, right, strict=True)
    )


def _difference(relation: Node) -> Node:
    return Node("add", None, (relation.args[0], Node("neg", None, (relation.args[1],))))
