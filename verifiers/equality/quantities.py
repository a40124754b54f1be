"""Compare numbers with units, per cent, degrees and bases, and ratios and times of day."""

from dataclasses import dataclass, replace
from fractions import Fraction

from verifiers.grammar.tree import Node, neg, num, product_of
from verifiers.grammar.units import LETTER_UNITS, UNITS, conversion, unit_name
from verifiers.values.same_value import rational, same_value

MINUTES_IN_HALF_DAY = 720
HIGHEST_POWER = 3  # of a letter that is a unit


@dataclass(frozen=True)
class Quantity:
    """Holds a value and its mark: "pct", "deg", "rad", "unit", or nothing."""

    value: Node
    mark: str = ""
    unit: tuple[tuple[str, int], ...] = ()


def read_quantity(node: Node) -> Quantity:
    """Return the number of a quantity apart from its unit or its mark."""
    kind, args = node.kind, node.args
    if kind == "neg":
        inner = read_quantity(args[0])
        return replace(inner, value=neg(inner.value))
    if kind in ("pct", "deg"):
        return Quantity(args[0], kind)
    if kind == "compound":
        return _compound(node)
    if kind == "mod":
        residue = read_quantity(args[0]).value
        modulus = args[1]
        is_undone = residue.kind == modulus.kind == "num" and abs(residue.value) >= modulus.value
        return Quantity(node if is_undone else residue)  # 100 mod 7 is still to compute
    if kind == "unit":
        inner = read_quantity(args[0])
        if node.value == (("radian", 1),):
            return Quantity(inner.value, "rad")
        if inner.unit:
            return replace(inner, unit=tuple(sorted((*inner.unit, *node.value))))
        return Quantity(inner.value, inner.mark or "unit", node.value)
    if kind == "add" and args[-1].kind == "unit" and not any(arg.has("unit") for arg in args[:-1]):
        counted = read_quantity(args[-1])
        return replace(counted, value=node.with_args((*args[:-1], counted.value)))
    if kind in ("mul", "div"):
        factors = args[:1] if kind == "div" else args
        marked = [at for at, arg in enumerate(factors) if arg.kind in ("deg", "unit")]
        if len(marked) == 1 and sum(part.kind in ("deg", "unit") for part in node.walk()) == 1:
            inner = read_quantity(args[marked[0]])  # $3 million, (n - 2)·180°, 360°/n
            rest = (*args[: marked[0]], inner.value, *args[marked[0] + 1 :])
            return replace(inner, value=node.with_args(rest))
    return Quantity(node)


def _compound(node: Node) -> Quantity:
    """Read 5 ft 6 in and 1 hour 30 minutes as a number of the first unit."""
    first, rest = (read_quantity(arg) for arg in node.args)
    factor = conversion(dict(rest.unit), dict(first.unit))
    if factor is None:
        return Quantity(node)
    return replace(first, value=Node("add", (first.value, _scaled(rest.value, factor))))


def joined_units(node: Node) -> Node:
    """Read 2 hours and 15 minutes as one quantity. 2 boys and 3 girls stay two."""
    first, second = node.args
    if not first.kind == second.kind == "unit":
        return node
    if any(name not in UNITS for name, _ in first.value + second.value):
        return node
    factor = conversion(dict(first.value), dict(second.value))
    return Node("compound", node.args) if factor is not None and factor > 1 else node


def same_quantity(gold: Node, answer: Node) -> tuple[bool, str]:
    """Return whether two scalars with their units are equal, and the rule that decided it."""
    kinds = {gold.kind, answer.kind}
    if "base" in kinds:
        return _same_base(gold, answer), "base"
    if "clock" in kinds:
        return bool(_minutes(gold) & _minutes(answer)), "time of day"
    if "ratio" in kinds:
        return _same_ratio(gold, answer), "ratio"
    if gold.kind == answer.kind == "mod" and not same_value(gold.args[1], answer.args[1]):
        return False, "another modulus"
    left, right = read_quantity(gold), read_quantity(answer)
    if left.unit and not right.mark:
        right = _with_letter_unit(right)
    elif right.unit and not left.mark:
        left = _with_letter_unit(left)
    marks = {left.mark, right.mark} - {""}
    if marks == {"pct"}:
        return _per_cent(left, right)
    if "deg" in marks and marks <= {"deg", "rad"}:
        scales = {name[0] for name, _ in (*left.unit, *right.unit)}
        if {"c", "f"} <= scales:
            return False, "contradicting units"
        return _angles(left, right), "degrees"
    if len(marks) > 1 and marks != {"unit"}:
        return False, "contradicting units"
    if left.unit and right.unit:
        return _with_units(left, right)
    return _same_number(left.value, right.value), "value"


def _scaled(node: Node, factor: Fraction) -> Node:
    return node if factor == 1 else Node("mul", (num(factor), node))


def _per_cent(left: Quantity, right: Quantity) -> tuple[bool, str]:
    """Ignore a per cent sign on one side, or divide by 100: 20 = 20% = 1/5. A plain gold between 0
    and 1 is a proportion: 0.35 is 35 %, and not 0.35 %."""
    is_proportion = not left.mark and left.value.kind == "num" and 0 < left.value.value < 1
    if not is_proportion and same_value(left.value, right.value):
        return True, "per cent"
    marked, unmarked = (left, right) if left.mark else (right, left)
    proportion = _scaled(marked.value, Fraction(1, 100))
    equal = not unmarked.mark and same_value(proportion, unmarked.value)
    return equal, "a proportion" if is_proportion else "per cent"


def _angles(left: Quantity, right: Quantity) -> bool:
    if left.mark == right.mark:
        return same_value(left.value, right.value)
    degrees, reference = (left, right) if left.mark == "deg" else (right, left)
    if reference.mark != "rad" and same_value(degrees.value, reference.value):
        return True
    return same_value(Node("deg", (degrees.value,)), reference.value)


def _with_units(left: Quantity, right: Quantity) -> tuple[bool, str]:
    if dict(left.unit) == dict(right.unit):
        return same_value(left.value, right.value), "value in the same unit"
    units = {unit for unit in left.unit if unit[0] in UNITS}
    answer_units = {unit for unit in right.unit if unit[0] in UNITS}
    if len(units) < len(left.unit) or len(answer_units) < len(right.unit):  # a noun is among them
        if units and answer_units and units != answer_units:  # km of rope and m of rope
            return False, "value in another unit"
        has_number = left.value.has("num")
        return has_number and same_value(left.value, right.value), "value, nouns ignored"
    factor = conversion(dict(left.unit), dict(right.unit))
    if factor is None:
        return False, "contradicting units"
    return same_value(_scaled(left.value, factor), right.value), "value in another unit"


def _same_number(left: Node, right: Node) -> bool:
    if same_value(left, right):
        return True
    for quantity, number in ((left, right), (right, left)):
        bare = without_letter_unit(quantity)
        if bare is not None and not number.symbols() and same_value(bare, number):
            return True
    return False


def _with_letter_unit(quantity: Quantity) -> Quantity:
    """Read the letters of 5m and 5 m/s as units, because the other side has units."""
    bare = without_letter_unit(quantity.value)
    if bare is None:
        return quantity
    powers = [_letter_power(factor) for factor in quantity.value.args]
    unit = [(unit_name(power[0]), power[1]) for power in powers if power]
    return Quantity(bare, "unit", tuple(sorted(unit)))


def without_letter_unit(node: Node) -> Node | None:
    """Return the number of 5m, 2 m^2 or 3 m/s, in which letters name units. Return None for all
    else."""
    if node.kind != "mul" or node.args[0].symbols():
        return None
    numbers = [factor for factor in node.args if not factor.symbols()]
    powers = [_letter_power(factor) for factor in node.args[len(numbers) :]]
    if not all(powers) or not 0 < len(node.symbols()) == len(powers):
        return None
    has_quotient = any(power is not None and power[1] < 0 for power in powers)
    return product_of(numbers) if len(powers) == 1 or has_quotient else None


def _letter_power(node: Node) -> tuple[str, int] | None:
    """Return a letter that names a unit, and its exponent, for m, s^2 or s^{-1}, else None."""
    exponent = 1
    while node.kind == "pow":
        power = rational(node.args[1])
        if power is None or power.denominator != 1 or abs(power) > HIGHEST_POWER:
            return None
        node, exponent = node.args[0], exponent * int(power)
    if node.kind != "sym" or node.value not in LETTER_UNITS:
        return None
    return node.value, exponent


def _same_base(gold: Node, answer: Node) -> bool:
    """Compare the digits and the base. Numbers to base ten are compared by their value."""
    left = gold.value if gold.kind == "base" else None
    right = answer.value if answer.kind == "base" else None
    if left or right:
        return left == right
    number = gold.args[0] if gold.kind == "base" else gold
    answer_number = answer.args[0] if answer.kind == "base" else answer
    return same_value(number, answer_number)


def _minutes(node: Node) -> set[Fraction]:
    """Return the minutes since midnight that a time may mean: two without a half of the day."""
    parts = node.args if node.kind in ("clock", "ratio") else (node, num(0))
    if len(parts) != 2:
        return set()
    hours, minutes = (rational(part) for part in parts)
    if hours is None or minutes is None or hours.denominator != 1:
        return set()
    if node.kind == "clock":
        return {hours % 12 * 60 + minutes + (MINUTES_IN_HALF_DAY if node.value == "pm" else 0)}
    first = hours * 60 + minutes
    return {first, hours % 12 * 60 + minutes + MINUTES_IN_HALF_DAY} if hours < 13 else {first}


def _same_ratio(gold: Node, answer: Node) -> bool:
    left, right = _terms(gold), _terms(answer)
    if len(left) != len(right):
        return False
    pairs = list(zip(left, right, strict=True))
    if (_is_time(gold) and _is_time(answer)) or any(rational(term) == 0 for term in left + right):
        return all(same_value(a, b) for a, b in pairs)
    first, second = pairs[0]  # a : first = b : second, multiplied out
    return all(same_value(Node("mul", (a, second)), Node("mul", (b, first))) for a, b in pairs)


def _is_time(node: Node) -> bool:
    """Return whether a ratio may be a time of day. Times do not cancel as ratios do."""
    if node.kind != "ratio" or len(node.args) != 2:
        return False
    hours, minutes = (rational(term) for term in node.args)
    if hours is None or minutes is None or hours.denominator != 1 or minutes.denominator != 1:
        return False
    return 0 <= hours <= 24 and 10 <= minutes < 60


def _terms(node: Node) -> tuple[Node, ...]:
    return node.args if node.kind in ("ratio", "div") else (node, num(1))
