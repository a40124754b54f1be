"""Sets of real numbers: intervals, inequalities, unions, and what they have in common."""

from dataclasses import dataclass

from verifiers.grammar.tree import Node, minus, neg, num
from verifiers.grammar.vocabulary import FLIPPED
from verifiers.values.exact import NO_VALUE
from verifiers.values.numeric import Evaluator, Number
from verifiers.values.polynomials import coefficients, real_roots
from verifiers.values.same_value import is_arithmetic

DIGITS = 60
TOLERANCE = 10.0**-40
INFINITY = float("inf")
ORDERS = ("<", "<=", ">", ">=")
MAX_PIECES = 400
HALF_LINES = {"R^+": ">", "R^-": "<", "R_>0": ">", "R_<0": "<"}
HALF_LINES |= {f"R_\\{sign}0": ">=" for sign in ("ge", "geq", "geqslant")}
HALF_LINES |= {f"R_\\{sign}0": "<=" for sign in ("le", "leq", "leqslant")}


class NotASetError(ValueError):
    """The node does not denote a set of real numbers that this module can represent."""


@dataclass(frozen=True)
class Piece:
    """An interval; a single point is closed at both ends."""

    low: Number
    low_closed: bool
    high: Number
    high_closed: bool


EVERYTHING = Piece(-INFINITY, False, INFINITY, False)


@dataclass(frozen=True)
class RealSet:
    """Disjoint pieces in order, and the variable they are about, if one is named."""

    pieces: tuple[Piece, ...]
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
    readers = {"rel": _relation, "tuple": _interval, "list": _list, "diff": _difference,
               "union": lambda node: _joined(*map(read_set, node.args)),
               "inter": lambda node: _common(*map(read_set, node.args)), "builder": _builder,
               "setname": _named, "set": _points, "empty": lambda node: RealSet(())}  # fmt: skip
    reader = readers.get(node.kind)
    if reader is None:
        raise NotASetError(node.kind)
    return reader(node)


def same_set(left: RealSet, right: RealSet) -> bool:
    if left.variable and right.variable and left.variable != right.variable:
        return False
    return len(left.pieces) == len(right.pieces) and all(
        a.low_closed == b.low_closed
        and a.high_closed == b.high_closed
        and _equal(a.low, b.low)
        and _equal(a.high, b.high)
        for a, b in zip(left.pieces, right.pieces, strict=True)
    )


def _equal(left: Number, right: Number) -> bool:
    if left == right:
        return True
    size = max(abs(left), abs(right))
    return bool(abs(left - right) <= TOLERANCE * size) and size != INFINITY


def _endpoint(node: Node) -> Number:
    if _is_infinite(node):
        return -INFINITY if node.kind == "neg" else INFINITY
    if node.symbols() or not is_arithmetic(node):
        raise NotASetError("endpoint is not a number")
    try:
        return Evaluator(DIGITS, {}, real=True)(node)
    except NO_VALUE as error:
        raise NotASetError("endpoint has no value") from error


def _piece(low: Number, low_closed: bool, high: Number, high_closed: bool) -> tuple[Piece, ...]:
    if low > high or (_equal(low, high) and not (low_closed and high_closed)):
        return ()
    return (Piece(low, low_closed, high, high_closed),)


def _interval(node: Node) -> RealSet:
    if len(node.args) != 2:
        raise NotASetError("not an interval")
    brackets = node.value
    if brackets == "<>":
        raise NotASetError("a vector")
    low, high = (_endpoint(arg) for arg in node.args)
    low_closed = brackets[0] == "[" and abs(low) != INFINITY
    high_closed = brackets[1] == "]" and abs(high) != INFINITY
    return RealSet(_piece(low, low_closed, high, high_closed))


def _named(node: Node) -> RealSet:
    if node.value == "R":
        return RealSet((EVERYTHING,))
    operator = HALF_LINES.get(node.value.replace(" ", ""))
    if operator is None:
        raise NotASetError("not the reals")
    return RealSet(_ray(_endpoint(num(0)), operator))


def _points(node: Node) -> RealSet:
    values = [_endpoint(arg) for arg in node.args]
    return _joined(RealSet(()), *(RealSet(_piece(value, True, value, True)) for value in values))


def _builder(node: Node) -> RealSet:
    over, condition = node.args
    if over.kind == "rel" and over.args[-1] != Node("setname", (), "R"):
        raise NotASetError("not over the reals")
    return RealSet(read_set(condition).pieces)


def _list(node: Node) -> RealSet:
    sets = [read_set(arg) for arg in node.args]
    if node.value != "or" and all(arg.kind == "rel" for arg in node.args):
        common = _common(*sets)
        if common.pieces or node.value == "and":
            return common
    return _joined(*sets)


def _difference(node: Node) -> RealSet:
    keep, drop = (read_set(arg) for arg in node.args)
    return _common(keep, RealSet(_complement(drop.pieces)))


def _variable(sets: tuple[RealSet, ...]) -> str | None:
    names = {part.variable for part in sets if part.variable}
    if len(names) > 1:
        raise NotASetError("several variables")
    return names.pop() if names else None


def _joined(*sets: RealSet) -> RealSet:
    pieces = sorted(
        (piece for part in sets for piece in part.pieces),
        key=lambda piece: (piece.low, not piece.low_closed),
    )
    if len(pieces) > MAX_PIECES:
        raise NotASetError("too many pieces")
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last and (
            piece.low < last.high
            or (_equal(piece.low, last.high) and (piece.low_closed or last.high_closed))
        ):
            if piece.high > last.high or (_equal(piece.high, last.high) and piece.high_closed):
                merged[-1] = Piece(last.low, last.low_closed, piece.high, piece.high_closed)
        else:
            merged.append(piece)
    return RealSet(tuple(merged), _variable(sets))


def _complement(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    low, low_closed = -INFINITY, False
    result: list[Piece] = []
    for piece in pieces:
        if piece.low > -INFINITY:
            result.extend(_piece(low, low_closed, piece.low, not piece.low_closed))
        low, low_closed = piece.high, not piece.high_closed
    if low < INFINITY:
        result.extend(_piece(low, low_closed, INFINITY, False))
    return tuple(result)


def _common(*sets: RealSet) -> RealSet:
    outside = [RealSet(_complement(part.pieces)) for part in sets]
    return RealSet(_complement(_joined(*outside).pieces), _variable(sets))


def _relation(node: Node) -> RealSet:
    operators = node.value
    if operators == ("in",):
        name = node.args[0]
        variable = name.value if name.kind == "sym" else None
        return RealSet(read_set(node.args[1]).pieces, variable)
    parts = [
        _comparison(left, operator, right)
        for left, operator, right in zip(node.args, operators, node.args[1:], strict=False)
    ]
    return _common(*parts)


def _comparison(left: Node, operator: str, right: Node) -> RealSet:
    """Return one comparison of polynomials in one variable, or of |linear| with a number."""
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
        bound = _endpoint(right)
    elif right.kind == "sym" and not left.symbols():
        bound, operator = _endpoint(left), FLIPPED[operator]
    else:
        return RealSet(_polynomial(left, operator, right, name), name)
    return RealSet(_ray(bound, operator), name)


def _polynomial(left: Node, operator: str, right: Node, name: str) -> tuple[Piece, ...]:
    """Return where left - right, of at most the second degree, has the sign that is asked for."""
    polynomial = coefficients(minus(left, right), name)
    if polynomial is None or polynomial[:2] == (0, 0):
        raise NotASetError("not a polynomial of low degree")
    a, b, _ = polynomial
    roots = real_roots(*polynomial, DIGITS)
    operator = FLIPPED[operator] if (a or b) < 0 else operator
    if not a:
        return _ray(roots[0], operator)
    points = tuple(Piece(root, True, root, True) for root in roots)
    if operator in ("=", "!="):
        return points if operator == "=" else _complement(points)
    between: tuple[Piece, ...] = ()
    if roots:
        closed = operator in ("<=", ">")
        between = _piece(roots[0], closed, roots[-1], closed)
    return between if operator in ("<", "<=") else _complement(between)


def _ray(bound: Number, operator: str) -> tuple[Piece, ...]:
    point = (Piece(bound, True, bound, True),)
    if operator in ("=", "!="):
        return point if operator == "=" else _complement(point)
    if operator in ("<", "<="):
        return _piece(-INFINITY, False, bound, operator == "<=")
    return _piece(bound, operator == ">=", INFINITY, False)


def _absolute(inside: Node, operator: str, bound: Node) -> RealSet:
    if _endpoint(bound) < 0:
        raise NotASetError("bound of an absolute value")
    upper = _comparison(inside, operator, bound)
    lower = _comparison(inside, FLIPPED[operator], neg(bound))
    inner = operator in ("<", "<=")
    return _common(lower, upper) if inner or operator == "!=" else _joined(lower, upper)
