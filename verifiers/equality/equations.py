"""Compare equations and inequalities in several variables, up to rearrangement."""

from verifiers.grammar.tree import Node, minus
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.canonical import canonical
from verifiers.values.same_value import proportional, same_value


def same_relation(gold: Node, answer: Node) -> bool:
    """Return whether two relations are rearrangements of each other."""
    signs, others = gold.value, answer.value
    if len(signs) > 1 and signs[0] != "=" and FLIPPED.get(signs[0]) == others[-1]:  # 3 > x > 2
        others = tuple(FLIPPED.get(sign, sign) for sign in others[::-1])
        answer = Node("rel", answer.args[::-1], others)
    if signs == others and all(
        canonical(left) == canonical(right) or same_value(left, right)
        for left, right in zip(gold.args, answer.args, strict=True)
    ):
        return True
    if len(signs) != 1 or len(others) != 1:
        return False
    sign = proportional(minus(*gold.args), minus(*answer.args))
    if sign is None:
        return False
    return signs[0] == (others[0] if sign > 0 else FLIPPED.get(others[0], others[0]))
