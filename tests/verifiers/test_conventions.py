"""The table of conventions in verifiers/README.md, row by row."""

import pytest

from verifiers.equality.compare import compare

EQUAL = [
    ("1/3", "0.3333333333333"),
    ("20", "20\\%"),
    ("20", "20 cm"),
    ("50\\%", "1/2"),
    ("5 m", "500 cm"),
    ("18", "\\$18"),
    ("90^\\circ", "\\pi/2"),
    ("90^\\circ", "90"),
    ("x=5", "5"),
    ("f(x)=x^2", "x^2"),
    ("f(x)=x^2", "y=x^2"),
    ("f(n)=2n", "f(m)=2m"),
    ("2x-y=1", "y=2x-1"),
    ("2, 3", "3, 2"),
    ("2,3", "\\{2,3\\}"),
    ("x=2, y=3", "(2,3)"),
    ("3<x\\le4", "(3,4]"),
    ("54", "54_{10}"),
    ("\\log 8", "3\\ln 2"),
    ("\\log 100", "2"),
    ("5", "2+3"),
    ("1/2", "\\sin 30^\\circ"),
    ("ellipse", "Ellipse"),
    ("21:30", "9:30 PM"),
    ("13", "c=\\sqrt{a^2+b^2}=\\sqrt{25+144}=13"),
    ("(0,3)", "]0; 3["),
    ("8", "m + n = 8"),
    ("x^2-1", "x^2-1=(x-1)(x+1)"),
]
UNEQUAL = [
    ("1/3", "0.33"),
    ("0.33", "1/3"),
    ("45", "0.45"),
    ("5 cm", "5 m"),
    ("\\$5", "€5"),
    ("1/2", "\\sin 30"),
    ("x=5", "y=5"),
    ("f(x)=2n", "f(x)=2m"),
    ("2x-y=1", "y=2x+1"),
    ("2,2,3", "2,3"),
    ("(2,3)", "(3,2)"),
    ("(2,3)", "2,3"),
    ("(2,3)", "x=3, y=2"),
    ("(3,4]", "(3,4)"),
    ("204_5", "54"),
    ("204_5", "204"),
    ("\\sqrt{x^2}", "x"),
    ("4", "\\int_0^2 2x dx"),
    ("x", "X"),
    ("42", "4\u200b2"),
    ("42", "４２"),
    ("21:30", "9:30 AM"),
    ("4", "2x=4"),
    ("6", "2x+3y=6"),
    ("13", "12=13"),
    ("7", "-4+4=7 ropes"),
    ("[0,3]", "]0; 3["),
    ("5 m", "5 km long"),
    ("$5", "5 cents"),
    ("12", "12 dozen"),
    ("\\frac{dy}{dx}", "\\frac{y}{x}"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert compare(gold, answer).equal


@pytest.mark.parametrize(("gold", "answer"), UNEQUAL)
def test_unequal(gold: str, answer: str) -> None:
    assert not compare(gold, answer).equal
