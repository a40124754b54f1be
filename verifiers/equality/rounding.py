"""Whether a decimal is what another value comes to when it is rounded."""

from fractions import Fraction

from verifiers.equality.quantities import read_quantity
from verifiers.grammar.normalize import normalize
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Mul, Node, Num, ParseError, num
from verifiers.values.effort import OutOfEffortError, limited
from verifiers.values.numeric import Evaluator
from verifiers.values.same_value import NO_VALUE

DIGITS = 40
EFFORT_S = 0.01


def is_rounding(exact: str, decimal: str) -> bool:
    """Return whether it is a rounding, as 1.41 is one of \\sqrt{2}, and 1.42 is not."""
    try:
        whole = read_quantity(parse(normalize(exact)))
        rounded = read_quantity(parse(normalize(decimal)))
    except ParseError:
        return False
    per_cent = rounded.mark == "pct" and whole.mark != "pct"
    value = Mul((num(100), whole.value)) if per_cent else whole.value
    return rounds_to(value, rounded.value)


def rounds_to(exact: Node, decimal: Node) -> bool:
    """Return whether a value, rounded to the decimal's places, is the decimal."""
    negative = decimal.kind == "neg"
    literal = decimal.args[0] if negative else decimal
    if not isinstance(literal, Num) or not literal.digits or exact.symbols():
        return False
    places = literal.digits - (len(str(int(literal.value))) if literal.value >= 1 else 0)
    wanted = -literal.value if negative else literal.value
    try:
        with limited(EFFORT_S):
            evaluate = Evaluator(DIGITS, {}, real=True)
            distance = abs(evaluate(exact) - evaluate(Num(wanted)))
            return bool(2 * distance <= evaluate(Num(Fraction(1, 10**places))))
    except (*NO_VALUE, OutOfEffortError, RecursionError):
        return False
