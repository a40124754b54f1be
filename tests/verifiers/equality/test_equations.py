"""Equations and inequalities up to rearrangement."""

import pytest

from verifiers.equality.equations import same_relation
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node


def relation(text: str) -> Node:
    node = parse(text)
    assert node.kind == "rel"
    return node


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("2x - y = 1", "y = 2x - 1", True),
        ("2x - y = 1", "4x - 2y = 2", True),
        ("2x - y = 1", "y = 2x + 1", False),
        ("x + y < 2", "2x + 2y < 4", True),
        ("x + y < 2", "-x - y > -2", True),
        ("x + y < 2", "-x - y < -2", False),
        ("x + y < 2", "x + y \\le 2", False),
        ("a < b < c", "c > b > a", True),
        ("a < b < c", "c > a > b", False),
        ("n \\equiv 1 \\pmod 3", "n \\equiv 1 \\pmod 3", True),
        ("n \\equiv 1 \\pmod 3", "n \\equiv 1 \\pmod 4", False),
        ("n \\equiv 1 \\pmod 3", "m \\equiv 1 \\pmod 3", False),
    ],
)
def test_relations(gold: str, answer: str, same: bool) -> None:
    assert same_relation(relation(gold), relation(answer)) is same
