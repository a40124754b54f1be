"""Nodes: equality by kind and content, walks, and new nodes from old ones."""

from fractions import Fraction

import pytest

from verifiers.grammar import tree
from verifiers.grammar.tree import (
    Add,
    Applied,
    Call,
    Const,
    Mul,
    Name,
    Node,
    Num,
    Operation,
    Rel,
    Sym,
    Tagged,
    num,
    product_of,
    replace_symbol,
)

KINDS = [
    kind
    for kind in vars(tree).values()
    if isinstance(kind, type) and issubclass(kind, Node) and hasattr(kind, "kind")
]
X, TWO = Sym("x"), num(2)


def test_every_kind_has_a_name_of_its_own() -> None:
    names = [kind.kind for kind in KINDS if kind is not Applied]
    assert len(names) == len(set(names)) == 34
    assert Applied.kind == Mul.kind
    assert not {Node, Name, Operation, Tagged} & set(KINDS)


def test_nodes_are_equal_by_kind_and_content() -> None:
    assert Add((X, TWO)) == Add((Sym("x"), num(2)))
    assert Add((X, TWO)) != Mul((X, TWO))
    assert Applied((X, TWO)) != Mul((X, TWO))
    assert Sym("e") != Const("e")
    assert Num(Fraction(1, 2), 3) != Num(Fraction(1, 2))
    assert len({Add((X,)), Add((X,)), Mul((X,))}) == 2


def test_a_node_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        X.value = "y"  # type: ignore[misc]


def test_what_a_kind_has_no_use_for_is_empty() -> None:
    assert (X.args, X.digits) == ((), 0)
    assert (Add((X,)).value, TWO.args) == (None, ())


def test_walks() -> None:
    node = Rel(("=",), (Call("sin", (X,)), Add((TWO, Sym("y")))))
    assert node.symbols() == {"x", "y"}
    assert node.size() == 6
    assert node.has("num", "pow")
    assert not node.has("pow")


def test_new_arguments_keep_kind_and_value() -> None:
    for node in (Add((X, TWO)), Applied((X, TWO)), Call("sin", (X,)), Rel(("<",), (X, TWO))):
        again = node.with_args((TWO, X))
        assert (type(again), again.value, again.args) == (type(node), node.value, (TWO, X))
    assert X.with_args(()) is X


def test_symbols_are_renamed_everywhere() -> None:
    node = Add((X, Call("sin", (Add((X, Const("x"))),))))
    y = Sym("y")
    assert replace_symbol(node, "x", "y") == Add((y, Call("sin", (Add((y, Const("x"))),))))


def test_a_product_of_one_is_its_factor() -> None:
    assert product_of([X]) is X
    assert product_of([X, TWO]) == Mul((X, TWO))
