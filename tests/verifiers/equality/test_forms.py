"""Sets written with a minus, and other forms that are compared as one."""

import pytest
from verifier_nodes import Empty, Set

from verifiers.equality.forms import spelled_out
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, num


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (r"\{1,2\} - \{2\}", "diff"),
        (r"(2,102) - \{12\}", "diff"),
        ("(2,3) - (1,2)", "add"),
        ("5 - 3", "add"),
        ("all real numbers", "setname"),
        ("no solution", "empty"),
    ],
)
def test_one_form(text: str, kind: str) -> None:
    assert spelled_out(parse(text)).kind == kind


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (r"\{x \in \mathbb{Z} | -1 \le x < 3\}", Set(tuple(map(num, range(-1, 3))))),
        (r"\{x \in \mathbb{Z} | 0 < x < 1\}", Empty()),
        (r"\{x \in \mathbb{Z} | x^2 < 2\}", Set(tuple(map(num, (-1, 0, 1))))),
        (r"\{x \in \mathbb{Z} | x > 0\}", None),
        (r"\{x \in \mathbb{R} | 0 < x < 3\}", None),
        (r"\{x | 0 < x < 3\}", None),
    ],
)
def test_sets_of_whole_numbers(text: str, whole: Node | None) -> None:
    node = parse(text)
    assert spelled_out(node) == (node if whole is None else whole)
