"""Mixed numbers, recurring decimals and digits to another base."""

from fractions import Fraction

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Base, Div, Mul, Node, ParseError, Sym, num


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (r"2\frac58", num(Fraction(21, 8))),
        (r"2\frac{5}{8}", num(Fraction(21, 8))),
        ("2 5/8", num(Fraction(21, 8))),
        ("2 0/8", num(2)),
        (r"2\frac{x}{8}", Mul((num(2), Div((Sym("x"), num(8)))))),
        (r"0.\overline{3}", num(Fraction(1, 3))),
        (r"0.333\ldots", num(Fraction(1, 3))),
        ("101_2", Base(("101", 2), (num(101),))),
        ("101_{two}", Base(("101", 2), (num(101),))),
        ("(101)_{2}", Base(("101", 2), (num(101),))),
        ("54_{10}", Base(None, (num(54),))),
    ],
)
def test_numbers(text: str, node: Node) -> None:
    assert parse(text) == node


def test_a_decimal_has_no_fraction_behind_it() -> None:
    assert parse(r"2.5\frac12").kind == "mul"


def test_a_base_must_be_a_number() -> None:
    with pytest.raises(ParseError, match="unreadable base"):
        parse("101_b")
