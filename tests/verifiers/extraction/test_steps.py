"""The last of several steps."""

import pytest

from verifiers.extraction.steps import bare_answer, solved


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("2x = 240, x = 120", "x = 120"), ("c^2 = 169\nc = 13", "c = 13"), ("2x=8 => x=4", "x=4"),
        ("x = 2, x = 3", None), ("x = 2, y = 3", None), ("a + b = 5; x = 3", None),
        ("x = 120", None),
    ],
)  # fmt: skip
def test_equations_that_are_solved_one_after_another(text: str, last: str | None) -> None:
    assert solved(text) == last


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("so, 42", "42"), ("42, I think", "42"), ("2x = 240 ⇒ x = 120", "x = 120"),
        ("42", "42"), ("2x = 240, x = 120", "x = 120"),
    ],
)  # fmt: skip
def test_a_value_without_the_words_around_it(text: str, bare: str) -> None:
    assert bare_answer(text) == bare
