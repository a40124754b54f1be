"""Conditions beside an answer, and constants of integration."""

import pytest

from verifiers.equality.conditions import align_parameters, with_constants_of
from verifiers.grammar.parse import parse


@pytest.mark.parametrize(
    ("gold", "answer", "aligned"),
    [
        (r"2\pi k, k \in \mathbb{Z}", r"2\pi n, n \in \mathbb{Z}", r"2\pi k"),
        (r"2\pi k, k \in \mathbb{Z}", r"2\pi k", r"2\pi k"),
        (r"x^2, x \in \mathbb{R}", "x^2", "x^2"),
        (r"2 k", "2 n", "2 n"),
    ],
)
def test_parameters(gold: str, answer: str, aligned: str) -> None:
    left, right = align_parameters(parse(gold), parse(answer))
    assert right == parse(aligned)
    assert left in (parse(gold), parse(aligned))


def test_a_condition_that_excludes_is_no_domain() -> None:
    node = parse(r"x \in \mathbb{R}, x \ne 2")
    assert align_parameters(node, node) == (node, node)


@pytest.mark.parametrize(
    ("gold", "answer", "renamed"),
    [
        ("x + C", "x + k", "x + C"),
        ("C x", "k x", "k x"),
        ("x + C", "x + y", "x + y"),
        ("C_1 x + C_2", "c_1 x + c_2", "C_1 x + C_2"),
    ],
)
def test_constants(gold: str, answer: str, renamed: str) -> None:
    assert with_constants_of(parse(gold), parse(answer)) == parse(renamed)
