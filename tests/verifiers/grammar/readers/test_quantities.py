"""Mixed numbers, recurring decimals, digits to another base, units with their powers."""

from fractions import Fraction

import pytest
from verifier_nodes import Base, Clock, Compound, Degrees, Div, Mul, Percent, Sym, Unit

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError, num


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


def scaled(value: int, scale: int) -> Node:
    return Node("mul", (num(value), num(scale)), "scale")


def unit(value: int, **powers: int) -> Node:
    return Unit(tuple(sorted(powers.items())), (num(value),))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("5 cm", unit(5, cm=1)),
        ("5 cm^2", unit(5, cm=2)),
        ("5 square cm", unit(5, cm=2)),
        ("5 cubic feet", unit(5, foot=3)),
        ("5 cm squared", unit(5, cm=2)),
        ("5 mph", unit(5, mile=1, hour=-1)),
        ("5 miles per hour", unit(5, mile=1, hour=-1)),
        (r"5 \text{m/s}^2", unit(5, m=1, s=-2)),
        ("5 apples", unit(5, apple=1)),
        ("5 units", num(5)),
        (r"5 ft 6 \text{in}", Compound((unit(5, foot=1), unit(6, inch=1)))),
        ("5 percent", Percent((num(5),))),
        ("5 per cent", Percent((num(5),))),
        ("5 degrees", Degrees((num(5),))),
        ("5 degrees celsius", Unit((("c", 1),), (Degrees((num(5),)),))),
        ("5 million", scaled(5, 10**6)),
        ("5 thousand miles", Unit((("mile", 1),), (scaled(5, 1000),))),
        ("5 (cm)", unit(5, cm=1)),
        (r"5\ (\text{apples})", unit(5, apple=1)),
        ("5 (xy)", Mul((num(5), Mul((Sym("x"), Sym("y")))))),
        ("5 pm", Clock("pm", (num(5), num(0)))),
        ("101 base 2", Base(("101", 2), (num(101),))),
    ],
)
def test_units(text: str, node: Node) -> None:
    assert parse(text) == node


@pytest.mark.parametrize("text", ["5 cm^x", "5 cm^{10}", "x base 2", "5 base two thirds and"])
def test_what_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
