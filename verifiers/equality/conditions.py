"""Conditions such as `k ∈ Z` beside an answer: dropped, and their parameter's name aligned."""

import re

from verifiers.grammar.tree import Node, SetName, Sym, replace_symbol

CONSTANTS = ("C", "c", "K", "k")
INDEXED = re.compile(r"[cC]_\d")
DISCRETE = ("Z", "N", "N^*", "N^+", "N_+", "Z^*", "Z^+", "Z_+")


def align_parameters(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both answers without their conditions; a parameter keeps the name it has in the
    gold."""
    gold, wanted = _without_conditions(gold)
    answer, present = _without_conditions(answer)
    if len(wanted) == len(present) == 1 and wanted != present:
        answer = replace_symbol(answer, present.pop(), wanted.pop())
    return gold, answer


def with_constants_of(gold: Node, answer: Node) -> Node:
    """Return the answer with its constants of integration called as in the gold: c_1 and C_1, + c
    and + C."""
    wanted, present = gold.symbols() - answer.symbols(), answer.symbols() - gold.symbols()
    if len(wanted) == len(present) == 1 and _adds(gold, *wanted) and _adds(answer, *present):
        return replace_symbol(answer, *present, *wanted)
    for name in sorted(present):
        if INDEXED.fullmatch(name) and name.swapcase() in wanted:
            answer = replace_symbol(answer, name, name.swapcase())
    return answer


def _adds(node: Node, name: str) -> bool:
    """Return whether the name is a constant of integration: a term by itself, and nowhere else."""
    sides = node.args if node.kind == "rel" else (node,)
    terms = [term for side in sides if side.kind == "add" for term in side.args]
    symbol = Sym(name)
    once = sum(part == symbol for part in node.walk()) == 1
    return name in CONSTANTS and once and symbol in terms


def _is_condition(node: Node, beside: Node) -> bool:
    if node.kind != "rel" or node.value != ("in",) or node.args[0].kind != "sym":
        return False
    over = node.args[1]
    if over == SetName("R"):  # not x ∈ R, x ≠ 2, which is a set of reals
        others = [arg for arg in beside.args if arg is not node]
        values = all(other.kind != "rel" or other.value == ("=",) for other in others)
        return values and all(node.symbols() <= other.symbols() for other in others)
    return over.kind == "setname" and over.value in DISCRETE


def _without_conditions(node: Node) -> tuple[Node, set[str]]:
    names: set[str] = set()
    args = []
    for arg in node.args:
        if node.kind in ("list", "mul") and len(node.args) > 1 and _is_condition(arg, node):
            names.add(str(arg.args[0].value))
        elif arg.args:
            arg, inner = _without_conditions(arg)
            names |= inner
            args.append(arg)
        else:
            args.append(arg)
    if len(args) == 1 and len(node.args) > 1:
        return args[0], names
    return (node if not args else node.with_args(tuple(args))), names
