"""Keys of answers: two answers that share none are unequal, so that few must be compared."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from mpmath import log

from verifiers.equality.labels import collect, unname
from verifiers.equality.quantities import read_quantity, without_letter_unit
from verifiers.equality.realsets import NotASetError, looks_like_range, read_set
from verifiers.grammar.normalize import choices, label_and_text, normalize, plain_words
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError, minus, num
from verifiers.grammar.units import UNITS, measure
from verifiers.values.effort import OutOfEffortError, limited
from verifiers.values.numeric import Evaluator, Number, context
from verifiers.values.same_value import NO_VALUE, is_arithmetic

DIGITS = 30
CELLS = 10**10  # in the logarithm: numbers that agree to ten digits share a cell
NOTHING = 10.0**-15
PLACE = Fraction(20_011, 30_013)  # where functions are looked at, whatever their variables' names
EFFORT_S = 0.01
Key = tuple[object, ...]
WORDS: Key = ("words",)  # of what is read, but only as words
ODD: Key = ("odd",)  # of what has no key of its own; all such are compared with each other


def keys(text: str) -> set[Key]:
    """Return the keys of an answer."""
    text = normalize(text)
    own: set[Key] = {("words", plain_words(text).casefold())}
    own |= {("choice", letter) for letter in choices(text, with_text=True)}
    if labelled := label_and_text(text):
        own |= keys(labelled[1])
    try:
        node = parse(text)
        with limited(EFFORT_S):
            by_value = _of(node) or {ODD}
            return own if by_value == {WORDS} else own | by_value
    except (ParseError, OutOfEffortError, RecursionError):
        return own


@lru_cache(maxsize=4096)
def member_keys(node: Node) -> frozenset[Key]:
    """Return the keys of a member of a list: by its value, or that of all that have no key."""
    if node.kind == "num":
        return frozenset(_cells(context(DIGITS).mpf(node.value.numerator) / node.value.denominator))
    return frozenset(_of(node) or {ODD})


def _of(node: Node) -> set[Key]:
    """Return keys by the value, by the largest number in it, or by the points of an equation."""
    value = unname(node).value
    equation = _of_relation(node) if node.kind == "rel" and len(node.args) == 2 else set()
    if looks_like_range(node) or value.kind in ("tuple", "matrix") or collect(node):
        return equation | _of_many(value)
    quantity = read_quantity(value)
    values = {value, quantity.value}
    if (bare := without_letter_unit(value)) is not None:
        values.add(bare)
    if any(name not in UNITS for name, _ in quantity.unit) and not value.has("num"):
        return {WORDS}
    factor = Fraction(1, 100) if quantity.mark == "pct" else measure(dict(quantity.unit))[0]
    if factor != 1:
        values.add(Node("mul", (num(factor), quantity.value)))
    if quantity.mark == "deg":
        values.add(Node("deg", (quantity.value,)))
    if value.kind == "rel":
        values |= set(value.args)
    return equation | {
        key for part in values for number in _numbers(part) for key in _cells(number)
    }


def _of_relation(node: Node) -> set[Key]:
    """Return what stays when both sides are multiplied or terms change sides."""
    difference = minus(*node.args)
    names = sorted(node.symbols())
    if not names or not is_arithmetic(difference):
        return set()
    point, other = (
        {name: PLACE * (at + shift) for at, name in enumerate(names, 1)} for shift in (1, 7)
    )
    try:
        first, second = (Evaluator(DIGITS, at, real=False)(difference) for at in (point, other))
    except NO_VALUE:
        return set()
    return {("ratio", *key) for key in _cells(first / (second or 1))}


def _of_many(node: Node) -> set[Key]:
    """Return keys of a list, a tuple or a set of reals by its largest and its smallest number."""
    try:
        if not (pieces := read_set(node).pieces) and node.kind == "tuple":
            raise NotASetError  # (60, 3) is a point, as no interval goes downwards
        numbers = [end for piece in pieces for end in (piece.low, piece.high)]
    except (NotASetError, *NO_VALUE):
        members = collect(node)
        parts = [member.value for member in members] if members else list(node.args)
        if any(part.kind in ("tuple", "matrix", "list") for part in parts):
            parts = [inner for part in parts for inner in (part.args or (part,))]
        found = [next(_numbers(read_quantity(unname(part).value).value), None) for part in parts]
        if None in found:
            return {ODD}
        numbers = [number for number in found if number is not None]
    sizes = [abs(number) for number in numbers if abs(number) < float("inf")] or [0]
    largest, smallest = _cells(max(sizes)), _cells(min(sizes))
    return largest & smallest | {("many", *a, *b) for a in largest for b in smallest}


def _numbers(node: Node) -> Iterator[Number]:
    """Yield what an expression comes to at one place, with either meaning of log; nothing where it
    has no value."""
    if not is_arithmetic(node):
        return
    point = dict.fromkeys(node.symbols(), PLACE)
    bare_log = any(part.value == "log" for part in node.walk())
    for decimal_log in (False, True)[: 1 + bare_log]:
        try:
            yield Evaluator(DIGITS, point, real=False, decimal_log=decimal_log)(node)
        except NO_VALUE:
            return


def _cells(number: Number) -> set[Key]:
    """Return two neighboring cells, of which close numbers share one."""
    size = abs(number)
    if size < NOTHING:
        return {("zero",)}
    at = log(size) * CELLS
    return {("number", int(at)), ("number", int(at + 0.5))}
