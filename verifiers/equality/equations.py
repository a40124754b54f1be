"""Equations and inequalities in several variables, up to rearrangement."""

from verifiers.grammar.tree import Add, Const, Neg, Node, Rel, Tuple
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.canonical import canonical
from verifiers.values.same_value import proportional, rational, same_solution, same_value

MAX_GRAPH = 60


def same_relation(gold: Rel, answer: Rel) -> bool:
    """Return whether two relations are rearrangements of each other."""
    signs, others = gold.value, answer.value
    if len(gold.args) > 2 and signs[0] != "=" and FLIPPED.get(signs[0]) == others[-1]:
        flipped = tuple(FLIPPED.get(sign, sign) for sign in others[::-1])
        answer = Rel(flipped, answer.args[::-1])
    if gold.value != answer.value and not _single(gold, answer):
        return False
    if _same_operands(gold.args, answer.args) and gold.value == answer.value:
        return True
    if gold.value == answer.value == ("==",):
        return _same_residues(gold, answer)
    if not _single(gold, answer):
        return False
    left, right = _difference(gold), _difference(answer)
    sign = proportional(left, right)
    if sign is None:
        if gold.value != ("=",) or answer.value != ("=",):
            return False
        return same_solution(left, right) or _same_graph(gold, answer)
    operator, other = gold.value[0], answer.value[0]
    return operator == (other if sign > 0 else FLIPPED.get(other, other))


def _same_residues(gold: Node, answer: Node) -> bool:
    """Compare residues: n ≡ 1 and n ≡ -2 (mod 3)."""
    residues = gold.args[1], answer.args[1]
    if any(residue.kind != "mod" for residue in residues):
        return False
    modulus, other = (rational(residue.args[1]) for residue in residues)
    left, right = (rational(residue.args[0]) for residue in residues)
    if left is None or right is None or not modulus or modulus != other:
        return False
    return (left - right) % modulus == 0 and same_value(gold.args[0], answer.args[0])


def _single(*relations: Node) -> bool:
    return all(len(relation.args) == 2 for relation in relations)


def _same_operands(left: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
    return len(left) == len(right) and all(
        canonical(a) == canonical(b) or same_value(a, b) for a, b in zip(left, right, strict=True)
    )


def _difference(relation: Node) -> Node:
    return Add((relation.args[0], Neg((relation.args[1],))))


def _same_graph(gold: Node, answer: Node) -> bool:
    """Compare y = e^x and x = ln y: each is solved for one variable, and fulfils the other."""
    first, second = _solved(gold), _solved(answer)
    if gold.symbols() != answer.symbols() or first is None or second is None:
        return False
    if first[0] == second[0] or gold.size() + answer.size() > MAX_GRAPH:
        return False
    return all(
        same_value(*(_substituted(side, *solved) for side in relation.args))
        for solved, relation in ((first, answer), (second, gold))
    )


def _solved(relation: Node) -> tuple[str, Node] | None:
    """Return the variable that stands alone on one side, and what it equals."""
    for alone, other in (relation.args, relation.args[::-1]):
        if alone.kind == "sym" and other.symbols() and alone.value not in other.symbols():
            return str(alone.value), other
    return None


def _substituted(node: Node, name: str, value: Node) -> Node:
    if node.kind == "sym":
        return value if node.value == name else node
    return node.with_args(tuple(_substituted(arg, name, value) for arg in node.args))


def as_interval(node: Node) -> Node:
    """Return a < x ≤ b, or x ≥ a with letters for bounds, as the interval they name."""
    if not isinstance(node, Rel):
        return node
    operators, args = node.value, node.args
    if all(operator in (">", ">=") for operator in operators):
        operators, args = tuple(FLIPPED[sign] for sign in operators[::-1]), args[::-1]
    if any(operator not in ("<", "<=") for operator in operators):
        return node
    marks = [operator == "<=" for operator in operators]
    if len(args) == 2:
        infinite = Const("inf")
        name = next((arg for arg in node.args if arg.kind == "sym"), None)
        if args[0] == name:
            args, marks = (Neg((infinite,)), *args), [False, *marks]
        else:
            args, marks = (*args, infinite), [*marks, False]
    if len(args) != 3 or args[1].kind != "sym":
        return node
    if args[1].symbols() & (args[0].symbols() | args[2].symbols()):
        return node
    return Tuple("(["[marks[0]] + ")]"[marks[1]], (args[0], args[2]))
