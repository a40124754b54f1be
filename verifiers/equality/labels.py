"""What an equation such as `x = 5` or `f(x) = 2x` names, and lists of such equations."""

import re
from dataclasses import dataclass

from verifiers.equality.quantities import same_quantity
from verifiers.grammar.tree import Add, Neg, Node, Rel, Sym, num, replace_symbol
from verifiers.grammar.vocabulary import words
from verifiers.values.canonical import canonical
from verifiers.values.same_value import rational, same_value

MAX_ITEMS = 1_500
DIFFERENTIALS = (Sym("d"), Sym("\\partial"))
OPERATORS = ("\\nabla", "\\complement")
INDEXED = re.compile(r"[A-Za-z]_([a-z])")
ANGLE_FUNCTIONS = words("sin cos tan cot sec csc")

# A text with one of these before "=" says what a value is not.
EXCEPTS = words("except not")


@dataclass(frozen=True)
class Named:
    """A value and the name it was given, if any."""

    label: Node | None
    value: Node


def is_name(node: Node) -> bool:
    """Return whether the left side of an equation only gives a name to the right side."""
    if node.kind == "text":
        return EXCEPTS.isdisjoint(str(node.value).lower().split())
    if node.kind in ("sym", "opaque", "big", "setname"):
        return True
    if node.kind == "call" and node.value in ("abs", "conj"):
        return _is_segment(node.args[0])
    if node.kind == "call" and node.value in ANGLE_FUNCTIONS:
        return bool(node.args[0].symbols())
    if node.kind in ("ratio", "inter", "union", "diff"):
        return all(is_name(arg) for arg in node.args)
    if node.kind in ("tuple", "matrix"):
        return all(arg.kind == "sym" for arg in node.args)
    if node.kind == "div":
        return all(map(_is_differential, node.args)) or all(map(_is_line, node.args))
    if node.kind == "mul":
        operator = str(node.args[0].value).partition("_")[0] in OPERATORS and len(node.args) == 2
        applied = (
            node.value == "applied" or node.args[0].kind == "text" or _is_inverse_applied(node)
        )
        return applied or operator or _is_segment(node)
    return False


def _is_differential(node: Node) -> bool:
    """Return whether it is dy, dx^2 or d^2 y, as in a derivative."""
    if node.kind != "mul" or len(node.args) != 2:
        return False
    mark = node.args[0]
    return (mark.args[0] if mark.kind == "pow" else mark) in DIFFERENTIALS


def _is_segment(node: Node) -> bool:
    parts = node.args if node.kind == "mul" else (node,)
    return all(
        part.kind == "sym" and (str(part.value)[0].isupper() or part.value == "z") for part in parts
    )


def _is_line(node: Node) -> bool:
    """Return whether it is AB, two capital letters."""
    return node.kind == "mul" and len(node.args) == 2 and _is_segment(node)


def _is_inverse_applied(node: Node) -> bool:
    """Return whether it is f^{-1}(x)."""
    function = node.args[0]
    inverse = function.kind == "pow" and function.args[1] == Neg((num(1),))
    return len(node.args) == 2 and inverse and is_name(function.args[0])


def unname(node: Node) -> Named:
    """Take `name =` off; a chain such as `x = 6/2 = 3` is its last part if its parts agree."""
    if node.kind == "mul" and node.value == "applied" and node.args[1].kind == "tuple":
        return Named(node.args[0], node.args[1])
    if node.kind == "ratio" and len(node.args) == 2 and node.args[0].kind == "text":
        return Named(*node.args)  # Range: [0, 1]
    if isinstance(node, Rel):
        node = _without_approximations(node)
    if not isinstance(node, Rel):
        return Named(None, node)
    operators = node.value
    if operators == ("in",) and is_name(node.args[0]):
        return Named(node.args[0], node.args[1])
    if any(operator not in ("=", "==") for operator in operators):
        return Named(None, node)
    sides = node.args
    if len(sides) > 2 and _is_another_name(sides[-1], sides[:-1]):
        sides = sides[:-1]  # f(x) = x^2 = y
    if len(sides) == 2 and is_name(sides[1]) and not sides[0].symbols():
        sides = sides[::-1]  # 9/4 = k
    first, last = sides[0], sides[-1]
    if last.kind in ("matrix", "tuple", "set") and first.symbols() and not last.symbols():
        return Named(first, last)  # A^2 = AA = [[1, 2], [3, 4]]
    middle, named = sides[1:-1], is_name(first)
    if not named:
        if len(sides) == 2 and (first.symbols() or last.symbols()):
            return Named(None, node)
        if any(part.symbols() for part in sides[1:]):
            return Named(None, node)
        if first.symbols():  # a + b = 2 + 5 = 7 has been worked out
            worked_out = all(_agree(part, last) for part in middle)
            return Named(None, last if worked_out else node)
        middle = sides[:-1]
    chained = last.kind == "sym" and any(is_name(part) for part in middle)
    formulas = not last.symbols()  # c = sqrt(a^2 + b^2) = 13
    if chained or not all(
        is_name(part) or (formulas and _is_formula(part, first)) or _agree(part, last)
        for part in middle
    ):
        return Named(None, node)
    if first.kind == "sym" and str(first.value) in last.symbols():
        return Named(None, node)
    if first.kind == "call" and first.value in ANGLE_FUNCTIONS and not _is_other_number(last):
        return Named(None, node)
    return Named(first if named else None, last)


def _is_formula(part: Node, name: Node) -> bool:
    """Return whether a part of a chain has other names than its first: a^2 + b^2 after c."""
    return bool(part.symbols()) and part.symbols().isdisjoint(name.symbols())


def _is_another_name(last: Node, sides: tuple[Node, ...]) -> bool:
    """Return whether a chain ends in a name for the value before it: y in f(x) = x^2 = y."""
    applied = sides[0].kind in ("opaque", "mul") and is_name(sides[0])
    if last.kind != "sym" or not applied or is_name(sides[-1]):
        return False
    return all(str(last.value) not in side.symbols() for side in sides)


def _is_other_number(value: Node) -> bool:
    """Return whether it is a number but 0: sin x = 0 may restate the problem whose answer is x =
    0."""
    return not value.symbols() and rational(value) != 0


def _agree(part: Node, last: Node) -> bool:
    """Return whether two parts of a chain have one value: 2 + 1 = 3 bolts, 10 km = 10000 m."""
    if last.kind == "unit" and not part.has("unit", "pct"):
        return same_value(part, last.args[0])  # t = 900/20 = 45 s
    return same_quantity(part, last)[0] if last.has("unit", "pct") else same_value(part, last)


def _without_approximations(node: Rel) -> Node:
    """Read 1/3 ≈ 0.33 as 1/3; only a name may stand before ≈ alone."""
    operators = node.value
    if "~" not in operators:
        return node
    kept = operators.index("~") + 1
    if kept == 1 and is_name(node.args[0]):
        return Rel(("=",), node.args[:2])
    return node.args[0] if kept == 1 else Rel(operators[: kept - 1], node.args[:kept])


def labels_agree(gold: Named, answer: Named) -> bool:
    """Return whether two names may stand for one thing; a missing name agrees with any."""
    left, right = gold.label, answer.label
    if left is None or right is None or canonical(left) == canonical(right):
        return True
    if "text" in (left.kind, right.kind) or _same_sequence(gold, answer):
        return True
    applied = [_function_name(label) for label in (left, right)]
    if all(applied):
        return applied[0] == applied[1] and all(_argument(label) for label in (left, right))
    if not any(applied):
        return False
    plain, function = (right, left) if applied[0] else (left, right)
    if plain.value in applied and _argument(function):
        return True  # f = 0 and f(x) = 0
    return "conj" not in applied and plain.kind == "sym" and plain.value in ("y", "z")


def _same_sequence(gold: Named, answer: Named) -> bool:
    """Compare a_n = 2n and a_k = 2k."""
    indices = [_index(member) for member in (gold, answer)]
    names = [str(member.label and member.label.value)[:1] for member in (gold, answer)]
    return all(indices) and names[0] == names[1]


def _index(member: Named) -> str | None:
    """Return the index of a name such as a_n, where the value depends on it."""
    label = member.label
    match = INDEXED.fullmatch(label.value) if isinstance(label, Sym) else None
    return match[1] if match and match[1] in member.value.symbols() else None


def _function_name(label: Node) -> str | None:
    if label.kind == "opaque":
        return str(label.value)
    if label.kind == "mul" and label.value == "applied":
        return str(label.args[0].value)
    return None


def _argument(label: Node | None) -> str | None:
    if label is None or not _function_name(label):
        return None
    inside = label.args[-1]
    renamable = inside.kind == "sym" and not str(inside.value)[0].isupper()
    return str(inside.value) if renamable else None


def renamed_argument(gold: Named, answer: Named) -> Node:
    """Return the answer's value with its function's own argument called as in the gold: f(m),
    f(n)."""
    wanted = _argument(gold.label) or _index(gold)
    present = _argument(answer.label) or _index(answer)
    if wanted and present and wanted != present and wanted not in answer.value.symbols():
        return replace_symbol(answer.value, present, wanted)
    return answer.value


def as_equation(member: Named) -> Rel | None:
    """Return the member of a list as the equation it was written as, if it says more than a
    value."""
    label, value = member.label, member.value
    if label is None:
        return value if isinstance(value, Rel) and value.value == ("=",) else None
    plain = label.kind == "sym" and (value.symbols() or value.kind == "num")
    return Rel(("=",), (label, value)) if plain else None


def with_sign(node: Node, plus: bool) -> Node:
    """Return the expression with every ± read as + or every one as -."""
    args = tuple(with_sign(arg, plus) for arg in node.args)
    if node.kind != "pm":
        return node.with_args(args)
    positive = plus == (node.value == "+")
    last = args[-1] if positive else Neg((args[-1],))
    return last if len(args) == 1 else Add((args[0], last))


def collect(node: Node) -> list[Named] | None:
    """Return the members of a list, a finite set, a union of sets or a ±; None for a single
    answer."""
    if node.kind in ("list", "set"):
        parts: list[Node] = list(node.args)
    elif node.kind == "union" and all(arg.kind in ("set", "empty") for arg in node.args):
        parts = [member for arg in node.args for member in arg.args]
    elif node.kind == "rel" and (inner := unname(node)).label is not None:
        members = collect(inner.value)
        return members and [Named(inner.label, member.value) for member in members]
    elif node.kind != "big" and node.has("pm"):
        return [Named(None, with_sign(node, plus)) for plus in (True, False)]
    else:
        return None
    members = []
    for part in parts[:MAX_ITEMS]:
        members.extend(collect(part) or [unname(part)])
    return members if len(parts) <= MAX_ITEMS else None
