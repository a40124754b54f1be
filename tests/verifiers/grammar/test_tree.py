"""Nodes: equality by kind and content, walks, and new nodes from old ones."""

from fractions import Fraction

import pytest

from verifiers.grammar.tree import Node, call, minus, neg, num, product_of, replace_symbol, sym

X = sym("x")
TWO = num(2)


def test_nodes_are_equal_by_kind_and_content() -> None:
    assert Node("add", (X, TWO)) == Node("add", (sym("x"), num(2)))
    assert Node("add", (X, TWO)) != Node("mul", (X, TWO))
    assert Node("mul", (X, TWO), "applied") != Node("mul", (X, TWO))
    assert num(Fraction(1, 2), 3) != num(Fraction(1, 2))
    assert len({Node("add", (X,)), Node("add", (X,)), Node("mul", (X,))}) == 2


def test_a_node_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        X.value = "y"  # type: ignore[misc]


def test_walks() -> None:
    node = Node("rel", (call("sin", X), Node("add", (TWO, sym("y")))), ("=",))
    assert node.symbols() == {"x", "y"}
    assert sum(1 for _ in node.walk()) == 6
    assert node.has("num", "pow")
    assert not node.has("pow")


def test_new_arguments_keep_kind_and_value() -> None:
    for node in (minus(X, TWO), call("max", X, TWO), Node("rel", (X, TWO), ("<",))):
        repeated = node.with_args((TWO, X))
        assert (repeated.kind, repeated.value, repeated.args) == (node.kind, node.value, (TWO, X))
    assert X.with_args(()) is X


def test_symbols_are_replaced_everywhere() -> None:
    node = minus(X, call("sin", Node("add", (X, Node("const", (), "x")))))
    y = neg(sym("y"))
    replaced = minus(y, call("sin", Node("add", (y, Node("const", (), "x")))))
    assert replace_symbol(node, "x", y) == replaced


def test_a_product_of_one_is_its_factor() -> None:
    assert product_of([X]) is X
    assert product_of([X, TWO]) == Node("mul", (X, TWO))
