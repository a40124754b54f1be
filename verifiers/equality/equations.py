"""Compare equations and inequalities in several variables, up to rearrangement."""

from verifiers.grammar.tree import Node, minus
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.canonical import canonical
from verifiers.values.same_value import proportional, same_value


def same_relation(gold: Node, answer: Node) -> bool:
    """Return whether two relations are rearrangements of each other."""
    signs: tuple[str, ...] = gold.value
    answered: tuple[str, ...] = answer.value
    # 3 > x > 2 is 2 < x < 3
    if len(signs) > 1 and signs[0] != "=" and FLIPPED.get(signs[0]) == answered[-1]:
        answered = tuple(FLIPPED.get(sign, sign) for sign in answered[::-1])
        answer = Node("rel", answer.args[::-1], answered)
    if signs == answered and all(
        canonical(left) == canonical(right) or same_value(left, right)
        for left, right in zip(gold.args, answer.args, strict=True)
    ):
        return True
    if len(signs) != 1 or len(answered) != 1:
        return False
    sign = proportional(minus(*gold.args), minus(*answer.args))
    if sign is None:
        return False
    return signs[0] == (answered[0] if sign > 0 else FLIPPED.get(answered[0], answered[0]))
