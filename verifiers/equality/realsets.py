"""Read sets of real numbers, written as intervals, inequalities or unions, and compare them."""

from collections.abc import Callable
from dataclasses import dataclass

from verifiers.equality.labels import is_name
from verifiers.grammar.tree import Node, minus, neg, num, sym
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.exact import NO_VALUE
from verifiers.values.numeric import Evaluator, Number, context
from verifiers.values.polynomials import coefficients, real_roots
from verifiers.values.same_value import is_arithmetic

WORKING_DIGITS = 60
KEPT_DIGITS = 40  # of an endpoint: what 60 digits give in two ways agrees to more than 40
INFINITY = float("inf")
ORDERS = ("<", "<=", ">", ">=")
MOST_INTERVALS = 400
HALF_LINES = {
    "R^+": ">",
    "R^-": "<",
    "R_>0": ">",
    "R_<0": "<",
    "R_\\ge0": ">=",
    "R_\\geq0": ">=",
    "R_\\geqslant0": ">=",
    "R_\\le0": "<=",
    "R_\\leq0": "<=",
    "R_\\leqslant0": "<=",
}

Cuts = tuple[tuple[Number, int], ...]
"""The places where a set begins and ends, in turn and in ascending order. (5, 0) is the place right
before 5 and (5, 1) the place right after, so that (2, 5] is ((2, 1), (5, 1))."""
EVERYTHING: Cuts = ((-INFINITY, 1), (INFINITY, 0))


class NotASetError(ValueError):
    """Says that a node denotes no set of real numbers that this module can represent."""


@dataclass(frozen=True)
class RealSet:
    """Holds the cuts of a set, and the variable that it is about, if there is one."""

    cuts: Cuts
    variable: str | None = None


def looks_like_range(node: Node) -> bool:
    """Return whether a node can only be read as a set of reals: an inequality, a union, [a, b)."""
    if node.kind == "rel":
        operators = node.value
        if operators == ("in",):
            return looks_like_range(node.args[1]) or node.args[1].kind == "tuple"
        return any(operator in ORDERS or operator == "!=" for operator in operators)
    if node.kind == "tuple":
        infinite = any(_is_infinite(arg) for arg in node.args)
        return len(node.args) == 2 and (node.value in ("(]", "[)", "][") or infinite)
    if node.kind == "list":
        return any(looks_like_range(arg) for arg in node.args) and node.value in ("or", "and", ",")
    return node.kind in ("union", "inter", "diff", "builder", "setname")


def _is_infinite(node: Node) -> bool:
    return (node.kind == "const" and node.value == "inf") or (
        node.kind == "neg" and _is_infinite(node.args[0])
    )


def read_set(node: Node) -> RealSet:
    """Return the set that a node denotes. Raises NotASetError."""
    reader = READERS.get(node.kind)
    if reader is None:
        raise NotASetError(node.kind)
    return reader(node)


def same_set(left: RealSet, right: RealSet) -> bool:
    """Return whether two sets are equal. Their variables must agree if both have one."""
    if left.variable and right.variable and left.variable != right.variable:
        return False
    return left.cuts == right.cuts


def _rounded(number: Number) -> Number:
    return context(KEPT_DIGITS).mpf(number)


def _endpoint(node: Node) -> Number:
    if _is_infinite(node):
        return -INFINITY if node.kind == "neg" else INFINITY
    if node.symbols() or not is_arithmetic(node):
        raise NotASetError("endpoint is not a number")
    try:
        return _rounded(Evaluator(WORKING_DIGITS, {}, real=True)(node))
    except NO_VALUE as error:
        raise NotASetError("endpoint has no value") from error


def _interval(low: Number, low_closed: bool, high: Number, high_closed: bool) -> Cuts:
    """Return an interval, or no cuts if it is empty. Infinity is never a member."""
    start = (low, 0 if low_closed and low != -INFINITY else 1)
    end = (high, 1 if high_closed and high != INFINITY else 0)
    return (start, end) if start < end else ()


def _solutions(operator: str, bound: Number) -> Cuts:
    """Return the numbers that are, say, "<" a bound."""
    if operator in ("=", "!="):
        point = _interval(bound, True, bound, True)
        return point if operator == "=" else _complement(point)
    if operator in ("<", "<="):
        return _interval(-INFINITY, False, bound, operator == "<=")
    return _interval(bound, operator == ">=", INFINITY, False)


def _complement(cuts: Cuts) -> Cuts:
    low, high = EVERYTHING
    cuts = cuts[1:] if cuts[:1] == (low,) else (low, *cuts)
    return cuts[:-1] if cuts[-1:] == (high,) else (*cuts, high)


def _union(*sets: RealSet) -> RealSet:
    """Join sets. Of all cuts in order, those stay before which no set is open, or after."""
    cuts = sorted((place, at % 2) for part in sets for at, place in enumerate(part.cuts))
    if len(cuts) > 2 * MOST_INTERVALS:
        raise NotASetError("too many pieces")
    outer = []
    open_sets = 0
    for place, is_end in cuts:
        if open_sets == is_end:
            outer.append(place)
        open_sets += -1 if is_end else 1
    variables = {part.variable for part in sets if part.variable}
    if len(variables) > 1:
        raise NotASetError("several variables")
    return RealSet(tuple(outer), *variables)


def _intersection(*sets: RealSet) -> RealSet:
    complement = _union(*(RealSet(_complement(part.cuts), part.variable) for part in sets))
    return RealSet(_complement(complement.cuts), complement.variable)


def _difference(universe: RealSet, without: RealSet) -> RealSet:
    return _intersection(universe, RealSet(_complement(without.cuts)))


def _read_interval(node: Node) -> RealSet:
    if len(node.args) != 2 or node.value == "<>":
        raise NotASetError("not an interval")
    low, high = (_endpoint(arg) for arg in node.args)
    cuts = _interval(low, node.value[0] == "[", high, node.value[1] == "]")
    if not cuts:
        raise NotASetError("(60, 3) is a point, as no interval goes downwards")
    return RealSet(cuts)


def _read_name(node: Node) -> RealSet:
    if node.value == "R":
        return RealSet(EVERYTHING)
    operator = HALF_LINES.get(node.value.replace(" ", ""))
    if operator is None:
        raise NotASetError("not the reals")
    return RealSet(_solutions(operator, _endpoint(num(0))))


def read_builder(node: Node, universe: str = "R") -> RealSet:
    """Return the set of a builder over the reals, or another `universe`. Raises NotASetError."""
    over = node.args[0]
    condition = read_set(node.args[1])
    name, domain = over.args if over.value == ("in",) else (over, Node("setname", (), "R"))
    if name != sym(condition.variable or "") or domain != Node("setname", (), universe):
        raise NotASetError("not a condition on one of the numbers")
    return RealSet(condition.cuts)


def _read_list(node: Node) -> RealSet:
    """Read conditions with "and" or "or". With commas all hold, unless they contradict."""
    sets = [read_set(arg) for arg in node.args]
    if node.value != "or" and all(arg.kind == "rel" for arg in node.args):
        common = _intersection(*sets)
        if common.cuts or node.value == "and":
            return common
    return _union(*sets)


def _read_relation(node: Node) -> RealSet:
    if node.value == ("in",):
        name = node.args[0]
        if not is_name(name):
            raise NotASetError("not about a name")
        variable = name.value if name.kind == "sym" else None
        return RealSet(read_set(node.args[1]).cuts, variable)
    sides = zip(node.args, node.value, node.args[1:], strict=False)
    return _intersection(*(_comparison(*side) for side in sides))


def _comparison(left: Node, operator: str, right: Node) -> RealSet:
    """Return where two polynomials in one variable, or |linear| and a number, compare as said."""
    if operator not in FLIPPED:
        raise NotASetError("not an order")
    if right.kind == "call" and right.value == "abs":
        left, operator, right = right, FLIPPED[operator], left
    if left.kind == "call" and left.value == "abs":
        return _absolute(left.args[0], operator, right)
    names = left.symbols() | right.symbols()
    if len(names) != 1:
        raise NotASetError("not about one variable")
    name = names.pop()
    if left.kind == "sym" and not right.symbols():
        return RealSet(_solutions(operator, _endpoint(right)), name)
    if right.kind == "sym" and not left.symbols():
        return RealSet(_solutions(FLIPPED[operator], _endpoint(left)), name)
    return RealSet(_polynomial(minus(left, right), operator, name), name)


def _polynomial(node: Node, operator: str, name: str) -> Cuts:
    """Return where a polynomial of the first or second degree is, say, "<" 0."""
    polynomial = coefficients(node, name)
    if polynomial is None or not any(polynomial[:2]):
        raise NotASetError("not a polynomial of low degree")
    a, b, _ = polynomial
    roots = [_rounded(root) for root in real_roots(*polynomial, WORKING_DIGITS)]
    if (a or b) < 0:
        operator = FLIPPED[operator]
    if not a:
        return _solutions(operator, roots[0])
    if operator in ("=", "!="):
        points = tuple(place for root in roots for place in _solutions("=", root))
        return points if operator == "=" else _complement(points)
    closed = operator in ("<=", ">")
    between = _interval(roots[0], closed, roots[-1], closed) if roots else ()
    return between if operator in ("<", "<=") else _complement(between)


def _absolute(expression: Node, operator: str, bound: Node) -> RealSet:
    """Return where |inside| is, say, "<" a bound that is not negative."""
    if _endpoint(bound) < 0:
        raise NotASetError("bound of an absolute value")
    upper = _comparison(expression, operator, bound)
    lower = _comparison(expression, FLIPPED[operator], neg(bound))
    if operator in ("<", "<=", "!="):
        return _intersection(lower, upper)
    return _union(lower, upper)


READERS: dict[str, Callable[[Node], RealSet]] = {
    "rel": _read_relation, "tuple": _read_interval, "list": _read_list, "setname": _read_name,
    "builder": read_builder,
    "set": lambda node: _union(*(RealSet(_solutions("=", _endpoint(arg))) for arg in node.args)),
    "diff": lambda node: _difference(*map(read_set, node.args)),
    "union": lambda node: _union(*map(read_set, node.args)),
    "inter": lambda node: _intersection(*map(read_set, node.args)),
    "empty": lambda node: RealSet(()),
}  # fmt: skip
