"""What repeats the question where a number is asked for: a computation that is left undone."""

import re

from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.tree import Node

# Kinds of nodes that leave a number what it is; a letter beside one is its unit (5 m).
PLAIN = {"num", "neg", "pct", "deg", "unit", "set", "sym"}
# Without a sign a product is one number: 3 million, two and a half.
SIGN = re.compile(
    r"[^\s(\[{,;=$]\s*(?:[-+−*/×·÷]|\(\s*[-\d.\\(]|\\(?:times|cdot|div))|\\[dtc]?frac|\bof\b"
)


def is_left_undone(answer: str, gold: str, *, strict: bool = False) -> bool:
    """Return whether sums or products of plain numbers stand where one number was asked for; with
    `strict` also quotients, 48/2, where a whole one was.

    Fractions are values elsewhere (1/2), and so are powers (10^6) and roots.
    """
    if is_plain_number(answer) or not SIGN.search(answer) or not (wanted := _number(gold)):
        return False
    labelled = label_and_text(answer)  # (B) 48/2
    tree = tree_of(normalize(labelled[1] if labelled else answer))
    if tree is None or (tree.kind == "rel" and any(side.kind == "num" for side in tree.args)):
        return False  # 48/2 = 24 says the number
    operations = _operations(tree.args[-1] if tree.kind == "rel" else tree)  # x = 48/2
    undone = {"add", "mul", "div"} if strict and wanted.value.denominator == 1 else {"add", "mul"}
    return "other" not in operations and not operations.isdisjoint(undone)


def _number(gold: str) -> Node | None:
    """Return the number of a gold that is one, without its sign and unit."""
    tree = tree_of(normalize(gold))
    while tree is not None and tree.kind in PLAIN and len(tree.args) == 1:
        tree = tree.args[0]
    return tree if tree and tree.kind == "num" else None


def _operations(tree: Node) -> set[str]:
    """Return what is done to plain numbers: add, mul, div; and "other" for all else."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if _is_inverse(node):  # the grammar writes 48/2 as 48 times 2 to the power -1
            found.add("div")
            waiting.append(node.args[0])
            continue
        waiting += node.args
        if node.kind == "mul":
            factors = [arg for arg in node.args if arg.kind != "sym" and not _is_inverse(arg)]
            found |= {"mul"} if len(factors) > 1 else set()
        elif node.kind in ("add", "div"):
            found.add(node.kind)
        elif node.kind not in PLAIN:
            found.add("other")
    return found


def _is_inverse(node: Node) -> bool:
    return node.kind == "pow" and node.args[1].kind == "num" and node.args[1].value == -1
