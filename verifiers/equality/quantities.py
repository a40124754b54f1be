"""Numbers with what is written around them: units, per cent, degrees, bases, ratios, clocks."""

from dataclasses import dataclass
from fractions import Fraction

from verifiers.grammar.tree import Add, Base, Compound, Degrees, Mul, Neg, Node, Num, Unit, num
from verifiers.grammar.units import LETTER_UNITS, UNITS, conversion, unit_name
from verifiers.values.same_value import rational, same_value

MINUTES_IN_HALF_DAY = 720


@dataclass(frozen=True)
class Quantity:
    """A value and its mark: "pct", "deg", "rad", a unit, or nothing."""

    value: Node
    mark: str = ""
    unit: tuple[tuple[str, int], ...] = ()


def read_quantity(node: Node) -> Quantity:
    if node.kind == "neg":
        inner = read_quantity(node.args[0])
        return Quantity(Neg((inner.value,)), inner.mark, inner.unit)
    if node.kind in ("pct", "deg"):
        return Quantity(node.args[0], node.kind)
    if node.kind == "compound":
        return _compound(node)
    if node.kind == "mod":
        residue = read_quantity(node.args[0]).value
        return Quantity(residue if _is_residue(residue, node.args[1]) else node)
    if isinstance(node, Unit):
        unit = node.value
        inner = read_quantity(node.args[0])
        if unit == (("radian", 1),):
            return Quantity(inner.value, "rad")
        if inner.unit:
            return Quantity(inner.value, "unit", tuple(sorted((*inner.unit, *unit))))
        return Quantity(inner.value, inner.mark or "unit", unit)
    if node.kind == "add" and isinstance(node.args[-1], Unit):
        *terms, last = node.args
        if not any(term.has("unit") for term in terms):
            counted = read_quantity(last)
            return Quantity(node.with_args((*terms, counted.value)), counted.mark, counted.unit)
    if node.kind in ("mul", "div") and node.has("unit"):
        return _product_quantity(node)
    if node.kind in ("mul", "div") and node.has("deg"):
        return _multiple_of_degrees(node)
    return Quantity(node)


def _compound(node: Node) -> Quantity:
    """Read 5 ft 6 in, 1 hour 30 minutes: all in the first unit."""
    first, rest = (read_quantity(arg) for arg in node.args)
    factor = conversion(dict(rest.unit), dict(first.unit))
    if factor is None:
        return Quantity(node)
    value = Add((first.value, _scaled(rest.value, factor)))
    return Quantity(value, "unit", first.unit)


def _product_quantity(node: Node) -> Quantity:
    """Read $3 million, or 10 m over 2 s: the units multiply as the numbers do."""
    parts = [read_quantity(arg) for arg in node.args]
    if any(part.mark not in ("", "unit") for part in parts):
        return Quantity(node)
    powers: dict[str, int] = {}
    for index, part in enumerate(parts):
        sign = -1 if node.kind == "div" and index == 1 else 1
        for name, power in part.unit:
            powers[name] = powers.get(name, 0) + sign * power
    unit = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Quantity(
        node.with_args(tuple(part.value for part in parts)), "unit" if unit else "", unit
    )


def _multiple_of_degrees(node: Node) -> Quantity:
    """Read (n - 2)·180°, 360°/n: one factor carries the mark."""
    first = node.args[:1] if node.kind == "div" else node.args
    marked = [arg for arg in first if arg.kind == "deg"]
    if len(marked) != 1 or sum(part.kind == "deg" for part in node.walk()) != 1:
        return Quantity(node)
    bare = tuple(arg.args[0] if arg is marked[0] else arg for arg in node.args)
    return Quantity(node.with_args(bare), "deg")


def joined_units(node: Node) -> Node:
    """Read 2 hours and 15 minutes as one quantity; 2 boys and 3 girls stay two."""
    first, second = node.args
    if isinstance(first, Unit) and isinstance(second, Unit):
        units = dict(first.value), dict(second.value)
        known = all(name in UNITS for unit in units for name in unit)
        factor = conversion(*units) if known else None
        if factor is not None and factor > 1:
            return Compound(node.args)
    return node


def _is_residue(value: Node, modulus: Node) -> bool:
    """Return whether a number is a residue: 100 mod 7 is left to compute, -1 mod 7 is not."""
    if not isinstance(value, Num) or not isinstance(modulus, Num):
        return True
    return abs(value.value) < modulus.value


def same_quantity(gold: Node, answer: Node) -> tuple[bool, str]:
    """Compare two scalars with their units; the reason says which rule decided."""
    special = _special(gold, answer)
    if special is not None:
        return special
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
    return _plain(left.value, right.value), "value"


def _scaled(node: Node, factor: Fraction) -> Node:
    return node if factor == 1 else Mul((num(factor), node))


def _per_cent(left: Quantity, right: Quantity) -> tuple[bool, str]:
    """Ignore a mark on one side, or take it at its worth: 20 = 20% = 1/5; a plain gold between 0
    and 1 is a proportion: 0.35 is 35 %, and not 0.35 %."""
    proportion = not left.mark and isinstance(left.value, Num) and 0 < left.value.value < 1
    if not proportion and same_value(left.value, right.value):
        return True, "per cent"
    marked, plain = (left, right) if left.mark else (right, left)
    worth = not plain.mark and same_value(_scaled(marked.value, Fraction(1, 100)), plain.value)
    return worth, "a proportion" if proportion else "per cent"


def _angles(left: Quantity, right: Quantity) -> bool:
    if left.mark == right.mark:
        return same_value(left.value, right.value)
    degrees, other = (left, right) if left.mark == "deg" else (right, left)
    if other.mark != "rad" and same_value(degrees.value, other.value):
        return True
    return same_value(Degrees((degrees.value,)), other.value)


def _with_units(left: Quantity, right: Quantity) -> tuple[bool, str]:
    if dict(left.unit) == dict(right.unit):
        return same_value(left.value, right.value), "value in the same unit"
    known = all(name in UNITS for name, _ in left.unit + right.unit)
    if not known:
        if _of_another_size(dict(left.unit), dict(right.unit)):
            return False, "value in another unit"
        if not left.value.has("num"):
            return False, "words"
        return same_value(left.value, right.value), "value, nouns ignored"
    factor = conversion(dict(left.unit), dict(right.unit))
    if factor is None:
        return False, "contradicting units"
    return same_value(_scaled(left.value, factor), right.value), "value in another unit"


def _of_another_size(left: dict[str, int], right: dict[str, int]) -> bool:
    """Return whether the known units beside nouns differ: km of rope and m of rope."""
    one, other = (
        {name: at for name, at in unit.items() if name in UNITS} for unit in (left, right)
    )
    return bool(one and other) and one != other


def _plain(left: Node, right: Node) -> bool:
    if same_value(left, right):
        return True
    for one, other in ((left, right), (right, left)):
        bare = without_letter_unit(one)
        if bare is not None and not other.symbols() and same_value(bare, other):
            return True
    return False


def _with_letter_unit(quantity: Quantity) -> Quantity:
    """Read the m of 5m as a unit too beside an answer in known units, and those of 5 m/s."""
    bare = without_letter_unit(quantity.value)
    if bare is None:
        return quantity
    powers = [_letter_power(factor) for factor in quantity.value.args]
    unit = [(unit_name(power[0]), power[1]) for power in powers if power]
    return Quantity(bare, "unit", tuple(sorted(unit)))


def without_letter_unit(node: Node) -> Node | None:
    """Return the number of 5m, 2 m^2, 3 m/s: one times a letter that names a unit, or a quotient
    of such."""
    if node.kind != "mul" or node.args[0].symbols():
        return None
    numbers = [factor for factor in node.args if not factor.symbols()]
    powers = [_letter_power(factor) for factor in node.args[len(numbers) :]]
    if not all(powers) or not 0 < len(node.symbols()) == len(powers):
        return None
    quotient = any(power is not None and power[1] < 0 for power in powers)
    if len(powers) > 1 and not quotient:
        return None
    return numbers[0] if len(numbers) == 1 else Mul(tuple(numbers))


def _letter_power(node: Node) -> tuple[str, int] | None:
    """Return a letter that names a unit, with its exponent: m, s^2, s^{-1}."""
    exponent = 1
    while node.kind == "pow":
        power = rational(node.args[1])
        if power is None or power.denominator != 1 or abs(power) > 3:
            return None
        node, exponent = node.args[0], exponent * int(power)
    known = node.kind == "sym" and node.value in LETTER_UNITS
    return (str(node.value), exponent) if known else None


def _special(gold: Node, answer: Node) -> tuple[bool, str] | None:
    kinds = {gold.kind, answer.kind}
    if "base" in kinds:
        return _same_base(gold, answer), "base"
    if "clock" in kinds:
        return bool(_minutes(gold) & _minutes(answer)), "time of day"
    if "ratio" in kinds:
        return _same_ratio(gold, answer), "ratio"
    return None


def _same_base(gold: Node, answer: Node) -> bool:
    plain = Base(None, ())
    left = gold.value if gold.kind == "base" else plain
    right = answer.value if answer.kind == "base" else plain
    if left is not right and {left, right} - {None, plain}:
        return left == right
    if left is None or right is None:  # written in base ten
        return same_value(
            *(node.args[0] if node.kind == "base" else node for node in (gold, answer))
        )
    return left == right


def _minutes(node: Node) -> set[Fraction]:
    """Return the minutes since midnight that a time may mean; without a half of the day, either."""
    parts = node.args if node.kind in ("clock", "ratio") else (node, num(0))
    if len(parts) != 2:
        return set()
    hours, minutes = (rational(part) for part in parts)
    if hours is None or minutes is None or hours.denominator != 1:
        return set()
    if node.kind == "clock":
        late = node.value == "pm"
        return {hours % 12 * 60 + minutes + MINUTES_IN_HALF_DAY * late}
    first = hours * 60 + minutes
    return {first, hours % 12 * 60 + minutes + MINUTES_IN_HALF_DAY} if hours < 13 else {first}


def _same_ratio(gold: Node, answer: Node) -> bool:
    left, right = _terms(gold), _terms(answer)
    if len(left) != len(right):
        return False
    if (_is_time(gold) and _is_time(answer)) or any(rational(term) == 0 for term in left + right):
        return all(same_value(a, b) for a, b in zip(left, right, strict=True))
    pivots = left[0], right[0]
    return all(
        same_value(Mul((a, pivots[1])), Mul((b, pivots[0])))
        for a, b in zip(left, right, strict=True)
    )


def _is_time(node: Node) -> bool:
    """Return whether 4:30 is a time of day as much as a ratio: two of them are not cancelled."""
    if node.kind != "ratio" or len(node.args) != 2:
        return False
    hours, minutes = (rational(term) for term in node.args)
    if hours is None or minutes is None or hours.denominator != 1 or minutes.denominator != 1:
        return False
    return 0 <= hours <= 24 and 10 <= minutes < 60


def _terms(node: Node) -> tuple[Node, ...]:
    return node.args if node.kind in ("ratio", "div") else (node, num(1))
