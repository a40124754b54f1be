"""Take the name off an equation such as `x = 5` or `f(x) = 2x`, and collect a list's members."""

import re
from dataclasses import dataclass
from itertools import pairwise

from verifiers.equality.quantities import same_quantity
from verifiers.grammar.tree import Node, neg, num, replace_symbol, sym
from verifiers.grammar.vocabulary import words
from verifiers.values.canonical import canonical
from verifiers.values.same_value import rational, same_value

MAX_ITEMS = 1_500  # of a list; the lexer reads 3,000 tokens
NAME_OPERATORS = ("\\nabla", "\\complement")
INDEXED = re.compile(r"[A-Za-z]_([a-z])")
ANGLE_FUNCTIONS = words("sin cos tan cot sec csc")
DENIALS = words("except not")  # a text with one of them says what a value is not


@dataclass(frozen=True)
class Named:
    """Holds a value, and its name if it has one."""

    label: Node | None
    value: Node


def is_name(node: Node) -> bool:
    """Return whether one side of an equation only names the other side."""
    kind, args = node.kind, node.args
    if kind == "text":
        return DENIALS.isdisjoint(node.value.lower().split())
    if kind in ("sym", "opaque", "big", "setname"):
        return True
    if kind == "call":
        if node.value in ANGLE_FUNCTIONS:
            return bool(args[0].symbols())
        return node.value in ("abs", "conj") and _is_segment(args[0])
    if kind in ("ratio", "inter", "union", "diff"):
        return all(map(is_name, args))
    if kind in ("tuple", "matrix"):
        return all(arg.kind == "sym" for arg in args)
    if kind == "div":  # of two segments, or of two functions
        if all(map(_is_applied, args)):
            return True
        return all(arg.kind == "mul" and len(arg.args) == 2 and _is_segment(arg) for arg in args)
    if kind != "mul":
        return False
    if node.value == "applied" or args[0].kind == "text" or _is_segment(node):
        return True
    is_operator = str(args[0].value).partition("_")[0] in NAME_OPERATORS
    is_inverse = args[0].kind == "pow" and args[0].args[1] == neg(num(1))  # f^{-1} x
    return len(args) == 2 and (is_operator or (is_inverse and is_name(args[0].args[0])))


def _is_applied(node: Node) -> bool:
    """Return whether a node is a name with its argument: f(x), Y(s)."""
    return node.kind == "opaque" or (node.kind == "mul" and node.value == "applied")


def is_asked_for(node: Node) -> bool:
    """Return whether the left side of an equation only repeats what is asked for, as ab, m^2 + n^2
    or |A ∩ B|. It has two letters or more, and no number, sign, root or function around them."""
    if node.kind in ("neg", "pow", "call") and node.value != "abs":
        return False
    pending = [node]
    names = set[str]()
    while pending:
        part = pending.pop()
        if part.kind not in ("sym", "add", "mul", "neg", "div", "pow", "inter", "union", "call"):
            return False
        letters = [arg.value for arg in part.args if part.kind == "mul" and arg.kind == "sym"]
        if any(a[0].isupper() and b[0].islower() for a, b in pairwise(letters)):
            return False  # Say x = 7
        if part.kind == "sym":
            names.add(part.value)
        pending += part.args[:1] if part.kind == "pow" else part.args
    return len(names) > 1


def _is_segment(node: Node) -> bool:
    """Return whether a node is AB, points by their capital letters, or the complex number z."""
    parts = node.args if node.kind == "mul" else (node,)
    return all(
        part.kind == "sym" and (part.value[0].isupper() or part.value == "z") for part in parts
    )


def unname(node: Node) -> Named:
    """Take `name =` off an answer. A chain `x = 6/2 = 3` is its last part if its parts agree."""
    if node.kind == "mul" and node.value == "applied" and node.args[1].kind == "tuple":
        return Named(node.args[0], node.args[1])
    if node.kind == "ratio" and len(node.args) == 2 and node.args[0].kind == "text":
        return Named(*node.args)  # Range: [0, 1]
    if node.kind == "rel" and "~" in node.value:
        node = without_approximations(node)
    if node.kind != "rel":
        return Named(None, node)
    if node.value == ("in",) and is_name(node.args[0]):
        return Named(*node.args)
    if any(operator not in ("=", "==") for operator in node.value):
        return Named(None, node)
    return _unchained(node)


def _unchained(node: Node) -> Named:
    """Return the name and the value of an equation or a chain of equal sides. An equation that is
    not solved is a value without a name."""
    sides = node.args
    unsolved = Named(None, node)
    if len(sides) > 2 and _is_another_name(sides[-1], sides[:-1]):
        sides = sides[:-1]  # f(x) = x^2 = y
    if len(sides) == 2 and is_name(sides[1]) and not sides[0].symbols():
        sides = sides[::-1]  # 9/4 = k
    first = sides[0]
    middle = sides[1:-1]
    last = sides[-1]
    if last.kind in ("matrix", "tuple", "set") and first.symbols() and not last.symbols():
        return Named(first, last)  # A^2 = AA = [[1, 2], [3, 4]]
    is_constant = first.kind == "const" and first.value != "inf" and not last.symbols()
    has_name = is_name(first) or is_constant  # e = 5/4 is an eccentricity
    if not has_name:
        solved_sides = sides if len(sides) == 2 else sides[1:]
        if any(side.symbols() for side in solved_sides):
            return unsolved
        if first.symbols():  # a + b = 2 + 5 = 7 is solved
            return Named(None, last) if all(_agree(part, last) for part in middle) else unsolved
        middle = sides[:-1]  # 2 + 5 = 7
    if last.kind == "sym" and any(map(is_name, middle)):
        return unsolved
    for part in middle:
        is_apart = first.value == "P" or part.symbols().isdisjoint(first.symbols())
        is_formula = bool(part.symbols()) and is_apart and not last.symbols()  # c = √(a^2+b^2) = 13
        if not (is_name(part) or is_formula or _agree(part, last)):
            return unsolved
    if first.kind == "sym" and first.value in last.symbols():
        return unsolved
    is_angle_equation = first.kind == "call" and first.value in ANGLE_FUNCTIONS
    if is_angle_equation and (last.symbols() or rational(last) == 0):  # sin x = 0 asks for x
        return unsolved
    return Named(first if has_name else None, last)


def _is_another_name(last: Node, sides: tuple[Node, ...]) -> bool:
    """Return whether a chain ends in a name for the value before it: y in f(x) = x^2 = y."""
    applied = sides[0].kind in ("opaque", "mul") and is_name(sides[0])
    if last.kind != "sym" or not applied or is_name(sides[-1]):
        return False
    return all(last.value not in side.symbols() for side in sides)


def _agree(part: Node, last: Node) -> bool:
    """Return whether two parts of a chain have one value: 2 + 1 = 3 bolts, 10 km = 10000 m."""
    if last.kind == "unit" and not part.has("unit", "pct"):
        return same_value(part, last.args[0])  # t = 900/20 = 45 s
    return same_quantity(part, last)[0] if last.has("unit", "pct") else same_value(part, last)


def without_approximations(node: Node) -> Node:
    """Read 1/3 ≈ 0.33 as 1/3. Only a name may come before ≈ alone."""
    before = node.value.index("~") + 1  # how many sides precede the sign
    if before > 1:
        return Node("rel", node.args[:before], node.value[: before - 1])
    return Node("rel", node.args[:2], ("=",)) if is_name(node.args[0]) else node.args[0]


def labels_agree(gold: Named, answer: Named) -> bool:
    """Return whether two names may mean the same thing. A missing name agrees with any."""
    left = gold.label
    right = answer.label
    if left is None or right is None or canonical(left) == canonical(right):
        return True
    if left.kind == right.kind == "text":  # cost and total cost, but not cost and wage
        names = [words(label.value.lower()) for label in (left, right)]
        return names[0] <= names[1] or names[1] <= names[0]
    if "text" in (left.kind, right.kind):
        return True
    if _index(gold) and _index(answer) and left.value[0] == right.value[0]:
        return True  # a_n = 2n and a_k = 2k
    functions = [_function_name(label) for label in (left, right)]
    if all(functions):
        return functions[0] == functions[1] and all(_argument(label) for label in (left, right))
    if not any(functions):
        return False
    unapplied, applied = (right, left) if functions[0] else (left, right)
    if unapplied.value in functions and _argument(applied):
        return True  # f = 0 and f(x) = 0
    return "conj" not in functions and unapplied.kind == "sym" and unapplied.value in ("y", "z")


def _index(member: Named) -> str | None:
    """Return the index of a name such as a_n, where the value depends on it."""
    label = member.label
    match = INDEXED.fullmatch(label.value) if label and label.kind == "sym" else None
    return match[1] if match and match[1] in member.value.symbols() else None


def _function_name(label: Node) -> str | None:
    if label.kind == "opaque":
        return str(label.value)
    return str(label.args[0].value) if label.value == "applied" else None


def _argument(label: Node | None) -> str | None:
    """Return the variable in f(x), which may have another name. A capital letter is a name."""
    if label is None or not _function_name(label):
        return None
    argument = label.args[-1]
    return argument.value if argument.kind == "sym" and not argument.value[0].isupper() else None


def renamed_argument(gold: Named, answer: Named) -> Node:
    """Return the answer's value with the argument of f(m) renamed to that of the gold's f(n)."""
    new = _argument(gold.label) or _index(gold)
    old = _argument(answer.label) or _index(answer)
    if new and old and new != old and new not in answer.value.symbols():
        return replace_symbol(answer.value, old, sym(new))
    return answer.value


def as_equation(member: Named) -> Node | None:
    """Return the equation that a member of a list was written as. Return None for a mere value."""
    label, value = member.label, member.value
    if label is None:
        return value if value.kind == "rel" and value.value == ("=",) else None
    is_plain = label.kind == "sym" and (value.symbols() or value.kind == "num")
    return Node("rel", (label, value), ("=",)) if is_plain else None


def with_sign(node: Node, plus: bool) -> Node:
    """Return an expression with its upper signs (± read as +) or its lower ones (± read as -)."""
    args = tuple(with_sign(arg, plus) for arg in node.args)
    if node.kind != "pm":
        return node.with_args(args)
    last = args[-1] if plus == (node.value == "+") else neg(args[-1])
    return last if len(args) == 1 else Node("add", (args[0], last))


def collect(node: Node) -> list[Named] | None:
    """Return the members of a list, a finite set, a union of sets or a ±. Return None for a
    single answer."""
    if node.kind == "rel":
        inner = unname(node)
        if inner.label is not None:
            members = collect(inner.value)
            return members and [Named(inner.label, member.value) for member in members]
    if node.kind in ("list", "set"):
        parts = node.args
    elif node.kind == "union" and all(arg.kind in ("set", "empty") for arg in node.args):
        parts = tuple(member for arg in node.args for member in arg.args)
    elif node.kind != "big" and node.has("pm"):
        return [Named(None, with_sign(node, plus)) for plus in (True, False)]
    else:
        return None
    if len(parts) > MAX_ITEMS:
        return None
    return [member for part in parts for member in (collect(part) or [unname(part)])]
