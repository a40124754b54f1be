"""Recognize a computation that is left undone where a number is asked for."""

import re

from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.tree import Node

# Kinds of nodes that compute nothing; a letter beside a number is its unit (5 m).
NOT_COMPUTED = {"num", "neg", "pct", "deg", "unit", "set", "sym"}
# A computation has one of these signs; without, a product is one number: 3 million.
OPERATION = re.compile(
    r"[^\s(\[{,;=$]\s*(?:[-+−*/×·÷]|\(\s*[-\d.\\(]|\\(?:times|cdot|div))|\\[dtc]?frac|\bof\b"
)


def is_left_undone(answer: str, gold: str, *, strict: bool = False) -> bool:
    """Return whether the answer is a sum or a product of plain numbers where the gold is a number;
    with `strict` also a quotient, 48/2, where the gold is whole.

    Any other fraction is a value (1/2), and so are powers (10^6) and roots.
    """
    if is_plain_number(answer) or not OPERATION.search(answer):
        return False
    number = _number(gold)
    if number is None:
        return False
    labelled = label_and_text(answer)  # (B) 48/2
    tree = tree_of(normalize(labelled[1] if labelled else answer))
    if tree is None or (tree.kind == "rel" and any(side.kind == "num" for side in tree.args)):
        return False  # 48/2 = 24 states the number
    operations = _operations(tree.args[-1] if tree.kind == "rel" else tree)  # x = 48/2
    undone = {"add", "mul", "div"} if strict and number.value.denominator == 1 else {"add", "mul"}
    return "other" not in operations and not operations.isdisjoint(undone)


def _number(gold: str) -> Node | None:
    """Return the number of a gold answer without its sign and unit; None if it is no number."""
    tree = tree_of(normalize(gold))
    while tree is not None and tree.kind in NOT_COMPUTED and len(tree.args) == 1:
        tree = tree.args[0]
    return tree if tree and tree.kind == "num" else None


def _operations(tree: Node) -> set[str]:
    """Return the operations of a tree: "add", "mul", "div", and "other" for all others."""
    operations: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if _is_inverse(node):  # the grammar writes 48/2 as 48 times 2 to the power -1
            operations.add("div")
            waiting.append(node.args[0])
            continue
        waiting += node.args
        if node.kind == "mul":
            factors = [arg for arg in node.args if arg.kind != "sym" and not _is_inverse(arg)]
            if len(factors) > 1:
                operations.add("mul")
        elif node.kind in ("add", "div"):
            operations.add(node.kind)
        elif node.kind not in NOT_COMPUTED:
            operations.add("other")
    return operations


def _is_inverse(node: Node) -> bool:
    return node.kind == "pow" and node.args[1].kind == "num" and node.args[1].value == -1
