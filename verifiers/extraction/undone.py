"""Recognize a computation that is left undone when the answer should be a number."""

from collections import Counter
from dataclasses import replace

from verifiers.equality.labels import unname, without_approximations
from verifiers.equality.quantities import read_quantity, without_letter_unit
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.tree import Node, num
from verifiers.grammar.units import LETTER_UNITS
from verifiers.grammar.vocabulary import FUNCTIONS
from verifiers.values.same_value import rational

MARKS = {"neg", "pct", "deg", "unit", "set"}
# Kinds of nodes that compute nothing. A letter after a number is its unit (5 m).
NOT_COMPUTED = MARKS | {"num", "sym", "mod", "pm", "compound"}
TRANSCENDENTAL = {*FUNCTIONS.values()} - {"exp", "sgn", "re", "im"}
COMPUTED = {"add": "add", "div": "div", "ratio": "div"}


def is_left_undone(answer: str, gold: str, *, strict: bool = False) -> bool:
    """Return whether the answer, or a member of it, is still to be computed.

    If the gold is a number, this is a sum or a product of plain numbers. With `strict` it is also a
    quotient that is a whole number, 48/2. A logarithm or a sine of numbers is undone if the gold is
    rational, and in a sum or product if the gold has none.

    Any other fraction is a value (1/2), and so are powers (10^6) and roots.
    """
    if is_plain_number(answer):
        return False
    tree = _tree(answer)
    gold_tree = _tree(gold)
    if tree is None or gold_tree is None:
        return False
    values = _values(tree)
    functions = [side for side in map(_bare, values or tree.args[-1:]) if _has_function(side)]
    if functions and not any(map(_is_transcendental, gold_tree.walk())):
        is_rational = all(rational(_bare(value)) is not None for value in _values(gold_tree))
        return is_rational or any(side.kind != "call" for side in functions)
    number = _bare(unname(gold_tree).value)
    if number.kind != "num":
        return False
    is_stated = any(_bare(value).kind == "num" for value in values)  # by 28 + 35 = 63
    if tree.kind == "rel":  # and by 28 + 35 ≈ 63
        is_stated = is_stated or any(_bare(side).value == number.value for side in tree.args)
    return not is_stated and any(_is_computation(value, strict=strict) for value in values)


def is_computation(answer: str, *, strict: bool = False) -> bool:
    """Return whether the answer, or a member of it, is a sum or a product of plain numbers, or with
    `strict` a quotient that is whole, and nothing states its value."""
    tree = None if is_plain_number(answer) else _tree(answer)
    if tree is None:
        return False
    values = _values(tree)
    is_stated = any(_bare(value).kind == "num" for value in values)
    return not is_stated and any(_is_computation(value, strict=strict) for value in values)


def _is_transcendental(node: Node) -> bool:
    """Return whether a node is a logarithm, a sine or the like of anything."""
    return node.kind == "call" and node.value in TRANSCENDENTAL


def _has_function(node: Node) -> bool:
    """Return whether a value has a logarithm, a sine or the like of numbers, not in an exponent."""
    if _is_transcendental(node):
        return not node.symbols()
    parts = node.args[:1] if node.kind == "pow" else node.args
    return any(map(_has_function, parts))


def _tree(text: str) -> Node | None:
    """Return an answer as a tree, without the letter of a choice: (B) 48/2."""
    labelled = label_and_text(text)
    return tree_of(normalize(labelled[1] if labelled else text))


def _bare(node: Node) -> Node:
    """Take off signs, units and scale words."""
    while (node.kind in MARKS and len(node.args) == 1) or node.value == "scale":
        node = node.args[0]
    return node


def _values(node: Node) -> list[Node]:
    """Return the members of a list. Of an equation, return a number or the last side with one."""
    if node.kind == "rel" and "~" in node.value:
        node = without_approximations(node)
    parts = list(node.args)
    is_labelled = node.kind == "ratio" and parts[0].kind == "text"  # Total: 28 + 35
    if node.kind == "rel":
        numbers = [side for side in parts if side.has("num")]
        parts = sorted(numbers, key=lambda side: _bare(side).kind == "num")[-1:]
    elif node.kind not in ("list", "set") and not is_labelled:
        return [node]
    return [value for part in parts for value in _values(part)]


def _is_computation(node: Node, *, strict: bool) -> bool:
    """Return whether a value is a sum, a product or, with `strict`, a quotient that is whole."""
    operations = _operations(node)
    if operations != {"div"} or not strict:
        return "other" not in operations and not operations.isdisjoint({"add", "mul"})
    value = read_quantity(replace(node, kind="div") if node.kind == "ratio" else node).value
    quotient = rational(without_letter_unit(value) or value)
    return quotient is not None and quotient.denominator == 1


def _operations(tree: Node) -> set[str]:
    """Return the operations of a tree: "add", "mul", "div", and "other" for all others."""
    operations: set[str] = set()
    symbols = (node.value for node in tree.walk() if node.kind == "sym")
    letters = Counter(symbol for symbol in symbols if symbol not in LETTER_UNITS)
    for node in tree.walk():
        if node.kind == "mul":  # 12 o 13 computes nothing: no other o cancels the letter
            factors = [arg for arg in node.args if arg.has("num") and arg.kind != "pow"]
            is_free = any(letters[arg.value] == 1 for arg in node.args)
            kind = "mul" if len(factors) > 1 and node.value != "scale" and not is_free else ""
        elif node.kind == "pow" and node.args[1] == num(-1):  # 48/2 is read as 48 times 2^-1
            kind = "" if node.args[0].kind == "sym" else "div"
        else:
            computes = node.kind not in NOT_COMPUTED and node.value != "abs"
            kind = COMPUTED.get(node.kind, "other" if computes else "")
        operations.add(kind)
    return operations - {""}
