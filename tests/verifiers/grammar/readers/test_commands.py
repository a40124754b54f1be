"""LaTeX commands by their names."""

import pytest
from verifiers.grammar.readers.commands import COMMANDS, CONSTANTS

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Const, Dots, Empty, Mul, Node, ParseError, Sym, num


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
    assert not CONSTANTS.keys() & COMMANDS.keys()
