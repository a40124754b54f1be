"""Functions with their arguments, and how far an argument reaches."""

import pytest
from verifier_nodes import (
    Add,
    Big,
    Call,
    Const,
    Div,
    Dots,
    Empty,
    Mul,
    Opaque,
    Pow,
    Ratio,
    Rel,
    Sym,
)

from verifiers.grammar.parse import parse
from verifiers.grammar.readers.functions import COMMANDS, SINGLE_COMMANDS
from verifiers.grammar.tree import Node, ParseError, num

X, Y = Sym("x"), Sym("y")
ONE, TWO = num(1), num(2)


def sin(node: Node) -> Node:
    return Call("sin", (node,))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (r"\sin 2x \cos y", Mul((sin(Mul((TWO, X))), Call("cos", (Y,))))),
        (r"\sin x + 1", Add((sin(X), ONE))),
        (r"\sin(x) y", Mul((sin(X), Y))),
        (r"\sin^2 x", Pow((sin(X), TWO))),
        (r"\sin(x)^2", Pow((sin(X), TWO))),
        (r"\sin^{-1} x", Call("asin", (X,))),
        (r"\ln x", Call("ln", (X,))),
        (r"\log_{10} x", Call("log", (X, num(10)))),
        (r"\log_10 x", Call("log", (X, num(10)))),
        (r"\log_25", Call("log", (num(5), TWO))),
        (r"\log x", Call("log", (X,))),
        (r"\sqrt 2", Call("root", (TWO, TWO))),
        (r"\sqrt[3]{x}", Call("root", (X, num(3)))),
        (r"\sqrt 12", Call("root", (num(12), TWO))),
        (r"\sqrt xy", Mul((Call("root", (X, TWO)), Y))),
        (r"\frac12", Div((ONE, TWO))),
        (r"\binom x2", Call("binom", (X, TWO))),
        (r"\lfloor x \rfloor", Call("floor", (X,))),
        (r"\lceil x \rceil", Call("ceil", (X,))),
        (r"\max(x, y)", Call("max", (X, Y))),
        (r"\max x", Opaque("max", (X,))),
        (r"\det x", Opaque("det", (X,))),
        (r"\overline{2}", Call("conj", (TWO,))),
        (r"\overline{x}", Opaque("conj", (X,))),
        (r"\overline{2x}", Sym("digits 2 x")),
        (r"\frac{dy}{dx}", Opaque("derivative", (parse("dy"), parse("dx")))),
        (r"\frac{d}{2}", Div((Sym("d"), TWO))),
        (r"\operatorname{Re}(x)", Opaque("re", (X,))),
        (r"\operatorname{Re}(2)", Call("re", (TWO,))),
        (r"\sum_{x=1}^2 x", Big("sum", (Rel(("=",), (X, ONE)), TWO, X))),
        (r"\lim_{x \to \infty} x", Big("lim", (Ratio((X, Const("inf"))), X))),
    ],
)
def test_functions(text: str, node: Node) -> None:
    assert parse(text) == node


@pytest.mark.parametrize("text", [r"\sin", r"\frac1", r"\sqrt[3 x", r"\max(1"])
def test_an_argument_must_follow(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (r"\pi", Const("pi")),
        (r"2\pi", Mul((num(2), Const("pi")))),
        (r"\infty", Const("inf")),
        (r"\imath", Const("i")),
        (r"\emptyset", Empty()),
        (r"\ldots", Dots()),
        (r"\alpha", Sym(r"\alpha")),
        (r"\varphi_1", Sym(r"\phi_1")),
        (r"\angle A", Sym("A")),
        (r"\vec{AB}", Sym("AB arrow")),
    ],
)
def test_commands(text: str, node: Node) -> None:
    assert parse(text) == node


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(ParseError, match="unknown command 'unknown'"):
        parse(r"\unknown 1")


def test_no_command_has_two_readers() -> None:
    assert not SINGLE_COMMANDS.keys() & COMMANDS.keys()
