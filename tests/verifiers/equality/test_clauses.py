"""Clauses that only say what a letter may be."""

import pytest

from verifiers.equality.clauses import without_clause, without_clauses


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("2x for all real x", "2x"),
        (r"2x \text{ for all } x \in \mathbb{R}", "2x"),
        ("x^2 + c where c is a constant", "x^2 + c"),
        ("for all x", "for all x"),
        ("2x for x > 3", "2x for x > 3"),
        ("all real x > 3", "x > 3"),
        ("two for the money", "two for the money"),
        ("(2x for all x)", "(2x for all x)"),
        ("2x", "2x"),
    ],
)
def test_heads(text: str, head: str) -> None:
    assert without_clause(text) == head


def test_contradicting_clauses_stay() -> None:
    assert without_clauses("2n for all integers n", "2n") == ("2n", "2n")
    pair = ("2n for all integers n", "2n for all real n")
    assert without_clauses(*pair) == pair


def test_a_long_text_is_not_searched() -> None:
    text = "x" * 400 + " for all x"
    assert without_clause(text) == text
