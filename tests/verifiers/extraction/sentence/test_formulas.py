"""Equations and expressions in signs at the end of a sentence."""

import pytest

from verifiers.extraction.sentence.formulas import formula_at_end


@pytest.mark.parametrize(
    ("sentence", "formula"),
    [
        ("We conclude, so θ = 2π/3.", "θ = 2π/3"),
        ("In standard form this becomes y = 2x - 1.", "y = 2x - 1"),
        ("So the nth term is given by 2n + 1.", "2n + 1"),
        ("We're left with 3x² − 2x + 1.", "3x² − 2x + 1"),
        ("The answer is 5.", None), ("It is given by a rule.", None), ("So x = 5.", None),
        ("So $y = 2x$.", None),
    ],
)  # fmt: skip
def test_the_formula_that_a_sentence_ends_in(sentence: str, formula: str | None) -> None:
    assert formula_at_end(sentence) == formula


def test_a_long_run_of_digits_is_read_once() -> None:
    assert formula_at_end(f"So the nth term is {'1' * 350}!") is None
