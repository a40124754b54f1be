"""Recognize an answer that only repeats a formula of its problem.

Trees are compared and not texts, after all that changes no formula is taken off.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from verifiers.equality.labels import is_name, without_approximations
from verifiers.extraction import prose
from verifiers.grammar.conditions import split_condition
from verifiers.grammar.normalize import choices, label_and_text, normalize
from verifiers.grammar.parse import tree_of
from verifiers.grammar.tree import Node, num
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.canonical import canonical

LONGEST_PROBLEM = 20_000  # characters that are read, so that a strange problem costs some 50 ms
LONGEST_LINE = 400  # characters; no answer of MATH's 12,500 problems has more than 160
REMEMBERED_PROBLEMS = 2_000  # of a batch and its held-out set, some 2 kB each
OPTION = re.compile(r"(?:\([A-J]\)|\b[A-J][.):])\s{0,3}$")
LONGEST_OPTION = 6  # characters
ASKED_VALUE = re.compile(r"\s*=?[\s?.,;:]*$")  # of 513^2 - 487^2 = ?
PART = {"unit": 0, "pct": 0, "deg": 0, "mod": 0, "builder": 1}
"""Which part of a node is the formula: the number of a unit, the condition of a set."""
NEUTRAL = {"add": 0, "mul": 1}
COMPUTING = ("add", "mul", "pow", "call", "fact", "big", "ratio", "pm")
SLASH = re.compile(r"(?<![\w^})\].])(\d{1,9})/(\d{1,9})(?![\w(])")


def is_echo(answer: str, problem: str, gold: str = "") -> bool:
    """Return whether an answer is a formula of the problem, or a list of its formulas, while the
    gold answer is another. Without a gold any formula is one."""
    formulas = _formulas(problem)
    tree = _tree(answer) if formulas else None
    if tree is None or (not gold and label_and_text(answer)):
        return False  # the letter of a choice may be the answer
    key = canonical(tree)
    if choices(gold):  # (c) for C is one, unless c is a name in the problem
        return answer.islower() and tree.kind == "sym" and key in formulas
    gold_tree = _tree(gold)
    if gold_tree is not None and canonical(gold_tree) == key:
        return False
    parts = tree.args if tree.kind == "set" and key not in formulas else (tree,)
    are_computed = [formulas.get(canonical(part)) for part in parts]
    return None not in are_computed and any(are_computed)


@lru_cache(maxsize=REMEMBERED_PROBLEMS)
def _formulas(problem: str) -> dict[tuple[object, ...], bool]:
    """Return the keys of what stands between the signs of mathematics, or alone on a line, and
    whether each has anything to work out. A labelled choice is an answer, and no formula."""
    problem = problem[:LONGEST_PROBLEM]
    texts = [line for line in problem.splitlines() if len(line) <= LONGEST_LINE]
    for span in prose.formulas(problem.replace("\n", " ")):
        if not OPTION.search(problem, span.start - LONGEST_OPTION, span.start):
            texts.append(span.content)
    formulas = {}
    for text in texts:
        formula = ASKED_VALUE.sub("", text)
        tree = _tree(formula) if prose.is_value(formula) else None
        if tree is not None:
            formulas[canonical(tree)] = tree.has(*COMPUTING)
    return formulas


@lru_cache(maxsize=4096)
def _tree(text: str) -> Node | None:
    """Return an answer or a formula as a reduced tree, without the letter of a choice before it and
    a condition after it."""
    text = SLASH.sub(r"\\frac{\1}{\2}", normalize(text))
    labelled = label_and_text(text)
    bare, _ = split_condition(labelled[1] if labelled else text)
    tree = tree_of(normalize(bare)) or tree_of(text)
    return None if tree is None else _reduced(tree)


def _reduced(node: Node) -> Node:
    """Take off what makes no other formula: names, units, + 0, factors and powers of 1, sides and
    members that repeat another."""
    kind = node.kind
    if kind == "rel":
        return _reduced_relation(node)
    args = tuple(map(_reduced, node.args))
    if kind in PART:
        return args[PART[kind]]
    if kind in ("list", "set"):
        return _distinct([arg for arg in args if arg.kind != "setname"])
    if kind in ("pow", "div") and args[1] == num(1):
        return args[0]
    if kind == "neg" and args[0].kind == "num":
        return num(-args[0].value)
    if kind == "div" and node.has("sym", "const"):  # a fraction of more than numbers
        return Node("ratio", args)
    if kind in NEUTRAL and node.value is None:
        args = tuple(arg for arg in args if arg.value != NEUTRAL[kind] or arg.kind != "num")
        if len(args) < 2:
            return args[0] if args else num(NEUTRAL[kind])
    return node.with_args(args)


def _distinct(nodes: Sequence[Node]) -> Node:
    """Return the set of some nodes, or the only one of them."""
    parts = {canonical(node): node for node in nodes}
    distinct = tuple(parts.values())
    return distinct[0] if len(distinct) == 1 else Node("set", distinct)


def _reduced_relation(node: Node) -> Node:
    """Take off the name before a value, write each side once, and turn > into <."""
    if "~" in node.value:
        return _reduced(without_approximations(node))
    sides = node.args
    signs = node.value
    while len(sides) > 1 and signs[0] in ("=", "==", "in") and is_name(sides[0]):
        sides = sides[1:]
        signs = signs[1:]
    sides = tuple(map(_reduced, sides))
    if {*signs} <= {"=", "=="}:
        is_named = len(sides) > 1 and is_name(sides[-1])
        return _distinct(sides[:-1] if is_named else sides)
    if signs[0] in (">", ">="):
        return Node("rel", sides[::-1], tuple(FLIPPED.get(sign, sign) for sign in signs[::-1]))
    return Node("rel", sides, signs)
