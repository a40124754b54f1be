"""Values that a response goes on to after its answer."""

import pytest

from verifiers.extraction.later_values import (
    computed_on,
    concluded,
    goes_on_with_parts,
    stated_anew,
)

SAID = "It is 12."


@pytest.mark.parametrize(
    ("later", "values"),
    [
        ("So there are only 8.", ["8"]), ("The right count is 6.", ["6"]),
        ("Поэтому правильно 36.", ["36"]), ("If it were a square, it would be 16.", []),
        ("Check: 12 + 3 = 15.", []), ("The other root is 5.", []),
    ],
)  # fmt: skip
def test_numbers_that_later_sentences_lead_to(later: str, values: list[str]) -> None:
    assert stated_anew(f"{SAID} {later}", len(SAID) - 1, "12") == values


def test_what_is_concluded_is_no_rival_where_it_says_the_answer_again() -> None:
    again = f"{SAID} So Ann has 12, and her brother 7."
    assert concluded(again, len(SAID) - 1, "12") == []
    assert concluded(f"{SAID} Hence the total is 84.", len(SAID) - 1, "12") == ["84."]


def test_what_is_computed_from_a_mark_is_new_and_last() -> None:
    text = "A cake needs 30 g. So 7 * 30 = 210 g."
    assert computed_on(text, text.index(" g"), "30") == ["210"]
    assert computed_on(f"{text} That is a lot for 5.", text.index(" g"), "30") == []
    assert computed_on("30 is right, since 7 * 30 = 210.", 2, "30") == []


@pytest.mark.parametrize(
    ("rest", "goes_on"),
    [
        ("\n\nStep 3: Add the tax.", True), ("\n(2) Find b.", True),
        ("\n\nStep 4: Verify it.", False), ("\n1. First.\n2. Then.", False), (" Done.", False),
    ],
)  # fmt: skip
def test_further_parts(rest: str, goes_on: bool) -> None:
    assert goes_on_with_parts(f"12{rest}", 2) is goes_on
