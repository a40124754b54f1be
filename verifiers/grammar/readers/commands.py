"""LaTeX commands: which reader reads what follows each of them."""

from collections.abc import Callable, Mapping

from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.functions import (
    read_big,
    read_binomial,
    read_conjugate,
    read_dotted,
    read_fraction,
    read_function,
    read_listed,
    read_norm,
    read_operator,
    read_rounded,
)
from verifiers.grammar.readers.groups import read_absolute, read_angled, read_set
from verifiers.grammar.readers.names import applied, subscripted
from verifiers.grammar.tree import Const, Dots, Empty, Node, ParseError, Sym
from verifiers.grammar.vocabulary import BIG, FUNCTIONS, GREEK, LISTED_FUNCTIONS, OPERATORS

CONSTANTS = {
    "pi": Const("pi"), "infty": Const("inf"), "imath": Const("i"),
    "emptyset": Empty(), "varnothing": Empty(),
    "ldots": Dots(), "dots": Dots(), "cdots": Dots(),
}  # fmt: skip


def read_command(parser: Parser, token: Token) -> Node:
    name = token.text
    if name in CONSTANTS:
        return CONSTANTS[name]
    if (reader := COMMANDS.get(name)) is not None:
        return reader(parser, token)
    if name.endswith(" arrow"):
        return Sym(name)
    raise ParseError(f"unknown command {name!r}")


def _greek(parser: Parser, token: Token) -> Node:
    return applied(parser, subscripted(parser, "\\" + token.text.removeprefix("var")))


def _named(parser: Parser, token: Token) -> Node:
    r"""Read \angle ABC and \triangle ABC, known by their names alone."""
    return parser.atom()


COMMANDS: Mapping[str, Callable[[Parser, Token], Node]] = {
    "frac": read_fraction, "binom": read_binomial, "dbinom": read_binomial,
    "tbinom": read_binomial, "{": read_set, "lbrace": read_set, "langle": read_angled,
    "lvert": read_absolute, "Vert": read_norm, "lVert": read_norm,
    "lfloor": read_rounded, "lceil": read_rounded, "overline": read_conjugate,
    "dot": read_dotted, "ddot": read_dotted, "dddot": read_dotted,
    "angle": _named, "triangle": _named,
    **dict.fromkeys(BIG, read_big), **dict.fromkeys(OPERATORS, read_operator),
    **dict.fromkeys(GREEK, _greek), **dict.fromkeys(LISTED_FUNCTIONS, read_listed),
    **dict.fromkeys((*FUNCTIONS, "sqrt"), read_function),
}  # fmt: skip
