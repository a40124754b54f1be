"""The levels of the grammar: which sign binds tighter, and what each level makes."""

import pytest
from verifier_nodes import (
    Add,
    Call,
    Clock,
    Degrees,
    Difference,
    Div,
    Fact,
    List,
    Mod,
    Mul,
    Neg,
    Percent,
    PlusMinus,
    Pow,
    Ratio,
    Rel,
    Set,
    SetName,
    Sym,
    Tuple,
    Union,
    Unit,
    applied,
)

from verifiers.grammar.lexer import tokenize
from verifiers.grammar.parse import ATOMS, parse
from verifiers.grammar.parser import END, MAX_DEPTH, MAX_POSTFIXES, Parser, quotient
from verifiers.grammar.readers.quantities import read_unit
from verifiers.grammar.tree import Node, ParseError, TooLargeError, num

A, B, C, X = (Sym(name) for name in "abcx")
ONE = num(1)
TWO = num(2)
THREE = num(3)
EQUAL = {
    "lists": [
        ("1, 2", List(",", (ONE, TWO))),
        ("1 or 2", List("or", (ONE, TWO))),
        ("1, 2, and 3", List("and", (ONE, TWO, THREE))),
        ("1,", ONE),
    ],
    "relations": [
        ("x = 1", Rel(("=",), (X, ONE))),
        ("1 < x \\le 2", Rel(("<", "<="), (ONE, X, TWO))),
        ("= 1", ONE),
        ("x = 1 \\pmod 3", Rel(("=",), (X, Mod((ONE, THREE))))),
    ],
    "ratios": [
        ("1:2:3", Ratio((ONE, TWO, THREE))),
        ("1 to 2", Ratio((ONE, TWO))),
        ("1:2 pm", Clock("pm", (ONE, TWO))),
    ],
    "sets": [
        ("(1,2) \\cup (2,3)", Union((Tuple("()", (ONE, TWO)), Tuple("()", (TWO, THREE))))),
        ("(1,2) U (2,3)", Union((Tuple("()", (ONE, TWO)), Tuple("()", (TWO, THREE))))),
        ("all real numbers except 1", Difference((SetName("R"), Set((ONE,))))),
        ("x < 1 \\cup x < 2", List("or", (Rel(("<",), (X, ONE)), Rel(("<",), (X, TWO))))),
    ],
    "sums": [
        ("a - b + c", Add((A, Neg((B,)), C))),
        ("--a", A),
        ("- a b", Neg((Mul((A, B)),))),
        ("1 \\pm 2", PlusMinus("+", (ONE, TWO))),
        ("\\mp 2", PlusMinus("-", (TWO,))),
        ("a+b \\pm c", PlusMinus("+", (Add((A, B)), C))),
        ("{a \\over b}", Div((A, B))),
        ("{a \\choose b}", Call("binom", (A, B))),
    ],
    "products": [
        ("2 x", Mul((TWO, X))),
        ("a \\cdot b / c", Mul((A, B, Pow((C, num(-1)))))),
        ("a * -b", Mul((A, Neg((B,))))),
        ("x(a)", applied((X, A))),
        ("x (a)", Mul((X, A))),
        ("x(a)b", Mul((X, A, B))),
    ],
    "powers": [
        ("-x^2", Neg((Pow((X, TWO)),))),
        ("a^b^c", Pow((A, Pow((B, C))))),
        ("x^{-2}", Pow((X, Neg((TWO,))))),
        ("x^-2", Pow((X, Neg((TWO,))))),
        ("x^23", Pow((X, num(23)))),
        ("3!", Fact((THREE,))),
        ("3!!", Call("fac2", (THREE,))),
        ("3! !", Fact((Fact((THREE,)),))),
        ("2x!", Mul((TWO, Fact((X,))))),
        ("3\\%", Percent((THREE,))),
        ("3^\\circ", Degrees((THREE,))),
        ("3^{\\circ}", Degrees((THREE,))),
        ("\\$3", Unit((("dollar", 1),), (THREE,))),
        ("3 €", Unit((("euro", 1),), (THREE,))),
    ],
}


@pytest.mark.parametrize(
    ("text", "node"), [case for cases in EQUAL.values() for case in cases], ids=lambda case: None
)
def test_levels(text: str, node: Node) -> None:
    assert parse(text) == node


@pytest.mark.parametrize("text", ["", "+", "1 +", "x =", "(1", "1)", "2 * \\pm 3", "no except 1"])
def test_what_is_in_no_level_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_depth_and_signs_have_limits() -> None:
    assert parse("(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1)) == X
    for text in ("(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH, "3" + " !" * (MAX_POSTFIXES + 1),
                 "1" + "\\pm 1" * 7):  # fmt: skip
        with pytest.raises(TooLargeError):
            parse(text)


def cursor(text: str) -> Parser:
    return Parser(tokenize(text), ATOMS, read_unit)


def test_looking_takes_nothing() -> None:
    at = cursor("1 + x")
    assert [at.peek(ahead).text for ahead in range(3)] == ["1", "+", "x"]
    assert at.peek(3) is END
    assert at.at("number")
    assert not at.at("number", "2")
    assert at.position == 0


def test_taking_moves_on_to_the_end() -> None:
    at = cursor("1 + x")
    assert at.take().text == "1"
    assert not at.accept("sign", "-")
    assert at.accept("sign", "-", "+")
    at.expect("word", "x")
    assert at.take() is END
    with pytest.raises(ParseError, match="'x' expected"):
        at.expect("word", "x")


def test_the_first_letter_of_a_word_can_be_taken_alone() -> None:
    at = cursor("abc")
    assert at.take_first() == "a"
    assert at.take().text == "bc"


def test_the_d_of_a_derivative_does_not_cancel() -> None:
    assert quotient(parse("dy"), parse("dx")).kind == "opaque"
    assert parse(r"\frac{d}{dx}").kind == parse("dy/dx").kind == "opaque"
    assert parse(r"\frac{dx}{2}").kind == "div"
