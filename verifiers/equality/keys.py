"""Give answers keys: two answers that share none are unequal, so that few must be compared."""

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
from verifiers.values.exact import NO_VALUE
from verifiers.values.numeric import Evaluator, Number, context
from verifiers.values.same_value import is_arithmetic

LOOK_DIGITS = 30
CELLS = 10**10  # in a unit of the logarithm: numbers that agree to ten digits share a cell
NOTHING = 10.0**-15  # numbers closer to 0 share one cell
PLACE = Fraction(20_011, 30_013)  # the value of every variable: no equation is likely to hold there
EFFORT_S = 0.01  # processor time for the keys of one answer
Key = tuple[object, ...]
WORDS: Key = ("words",)  # for an answer that is read as words alone
ODD: Key = ("odd",)  # for an answer without a key by its value: all of those are compared


def keys(text: str) -> set[Key]:
    """Return the keys of an answer."""
    text = normalize(text)
    own_keys: set[Key] = {("words", plain_words(text).casefold())}
    own_keys.update(("choice", letter) for letter in choices(text, with_text=True))
    label = label_and_text(text)
    if label:
        own_keys.update(keys(label[1]))
    try:
        node = parse(text)
        with limited(EFFORT_S):
            by_value = _node_keys(node) or {ODD}
            return own_keys if by_value == {WORDS} else own_keys | by_value
    except (ParseError, OutOfEffortError, RecursionError):
        return own_keys


@lru_cache(maxsize=4096)
def member_keys(node: Node) -> frozenset[Key]:
    """Return the keys of a member of a list, or `ODD` if its value gives none."""
    if node.kind == "num":
        number = context(LOOK_DIGITS).mpf(node.value.numerator) / node.value.denominator
        return frozenset(_cells(number))
    return frozenset(_node_keys(node) or {ODD})


def _node_keys(node: Node) -> set[Key]:
    """Return keys by the value, by the largest number in it, or by an equation at two points."""
    value = unname(node).value
    equation = _equation_keys(node) if node.kind == "rel" and len(node.args) == 2 else set()
    if looks_like_range(node) or value.kind in ("tuple", "matrix") or collect(node):
        return equation | _collection_keys(value)
    quantity = read_quantity(value)
    values = {value, quantity.value}
    bare = without_letter_unit(value)
    if bare is not None:
        values.add(bare)
    if any(name not in UNITS for name, _ in quantity.unit) and not value.has("num"):
        return {WORDS}
    factor = Fraction(1, 100) if quantity.mark == "pct" else measure(dict(quantity.unit))[0]
    if factor != 1:
        values.add(Node("mul", (num(factor), quantity.value)))
    if quantity.mark == "deg":
        values.add(Node("deg", (quantity.value,)))
    if value.kind == "rel":
        values.update(value.args)
    return equation | {
        key for part in values for number in _numbers(part) for key in _cells(number)
    }


def _equation_keys(node: Node) -> set[Key]:
    """Return keys that stay when both sides are multiplied or terms change sides: the quotient of
    left - right at two points."""
    difference = minus(*node.args)
    names = sorted(node.symbols())
    if not names or not is_arithmetic(difference):
        return set()
    differences = []
    for shift in (1, 7):
        point = {name: PLACE * (at + shift) for at, name in enumerate(names, 1)}
        try:
            differences.append(Evaluator(LOOK_DIGITS, point, real=False)(difference))
        except NO_VALUE:
            return set()
    return {("ratio", *key) for key in _cells(differences[0] / (differences[1] or 1))}


def _collection_keys(node: Node) -> set[Key]:
    """Return keys of a list, a tuple or a set of reals by its largest and its smallest number."""
    try:
        if node.has("deg"):
            raise NotASetError("a tuple of angles, whose marks may be missing")
        numbers = [value for value, _ in read_set(node).cuts]
    except (NotASetError, *NO_VALUE):
        members = collect(node)
        parts = [member.value for member in members] if members else list(node.args)
        if any(part.kind in ("tuple", "matrix", "list") for part in parts):
            parts = [inner for part in parts for inner in (part.args or (part,))]
        numbers = [next(_numbers(read_quantity(unname(part).value).value), None) for part in parts]
        if None in numbers:
            return {ODD}
    sizes = [abs(number) for number in numbers if abs(number) < float("inf")] or [0]
    largest, smallest = _cells(max(sizes)), _cells(min(sizes))
    return largest & smallest | {("many", *a, *b) for a in largest for b in smallest}


def _numbers(node: Node) -> Iterator[Number]:
    """Yield the value of an expression at one place, with either meaning of log. Yield
    nothing if it has no value."""
    if not is_arithmetic(node):
        return
    point = dict.fromkeys(node.symbols(), PLACE)
    has_log = any(part.value == "log" for part in node.walk())
    try:
        yield Evaluator(LOOK_DIGITS, point, real=False)(node)
        if has_log:
            yield Evaluator(LOOK_DIGITS, point, real=False, decimal_log=True)(node)
    except NO_VALUE:
        return


def _cells(number: Number) -> set[Key]:
    """Return two neighboring cells of a number. Close numbers share at least one."""
    size = abs(number)
    if size < NOTHING:
        return {("zero",)}
    at = log(size) * CELLS
    return {("number", int(at)), ("number", int(at + 0.5))}
