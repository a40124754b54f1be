"""Find the coefficients of polynomials of degree 1 and 2 from their values, and their roots."""

from fractions import Fraction

from verifiers.grammar.tree import Node, call, num
from verifiers.values.exact import NO_VALUE, exact
from verifiers.values.numeric import Evaluator, Number

# Values at 0, 1 and -1 give the coefficients; the others tell |x - 2| and the like from them.
PLACES = tuple(Fraction(at, 2) for at in (0, 2, -2, 6, 8, 10, 22, 58, -29))


def coefficients(node: Node, name: str) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return (a, b, c) of an expression a·x² + b·x + c, or None for any other expression."""
    try:
        values = [exact(node, {name: at}) for at in PLACES]
    except NO_VALUE:
        return None
    c = values[0]
    a = (values[1] + values[2]) / 2 - c
    b = values[1] - a - c
    fits = all(value == (a * at + b) * at + c for value, at in zip(values, PLACES, strict=True))
    return (a, b, c) if fits else None


def real_roots(a: Fraction, b: Fraction, c: Fraction, digits: int) -> tuple[Number, ...]:
    """Return the zeros of a·x² + b·x + c in ascending order, each once."""
    evaluate = Evaluator(digits, {}, real=True)
    if not a:
        return (evaluate(num(-c / b)),) if b else ()
    discriminant = (b * b - 4 * a * c) / (4 * a * a)
    if discriminant < 0:
        return ()
    middle = evaluate(num(-b / (2 * a)))
    if not discriminant:
        return (middle,)
    half = evaluate(call("root", num(discriminant), num(2)))
    return (middle - half, middle + half)
