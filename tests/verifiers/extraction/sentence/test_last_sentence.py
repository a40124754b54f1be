"""The choice or the word that the last sentence ends in."""

import pytest

from verifiers.extraction.sentence.last_sentence import (
    chosen,
    chosen_last,
    last_sentence,
    main_clause,
    named_kind,
    without_reason,
)


@pytest.mark.parametrize(
    ("sentence", "letter"),
    [
        ("So option B is correct.", "B"),
        ("We choose (C).", "C"),
        ("This corresponds to option D.", "D"),
        ("Therefore, (A).", "A"),
        ("We do not choose (C).", None),
        ("Option B is larger.", None),
    ],
)
def test_choices(sentence: str, letter: str | None) -> None:
    assert chosen(sentence) == letter


def test_two_choices_are_both_said_unless_one_is_taken_back() -> None:
    assert chosen_last("We choose (A). So option B is correct.") == "A, B"
    assert chosen_last("We choose (A). Wait. So option B is correct.") == "B"
    assert chosen_last("We choose nothing.") is None


def test_the_last_sentence_is_short() -> None:
    assert last_sentence("One. The other is **two**.") == "The other is **two**."
    assert last_sentence("It is four. I hope it is correct.") == "It is four."
    assert last_sentence("word " * 100) == ""


@pytest.mark.parametrize(
    ("sentence", "clause"),
    [
        ("there are 6 integers below 9", "there are 6"),
        ("there are 6 integers, so 3 are left", "there are 6 integers, so 3 are left"),
        ("the maximum is 5 when x = 2", "the maximum is 5"),
        ("She needs 12 cups to fill 3 bowls", "She needs 12 cups"),
        ("It is 5", "It is 5"),
    ],
)
def test_main_clauses(sentence: str, clause: str) -> None:
    assert main_clause(sentence).strip() == clause


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Therefore the function is odd.", ("odd", True)),
        ("The function is odd.", ("odd", False)),
        ("The answer is correct.", None),
        ("We count them.", None),
    ],
)
def test_kinds(sentence: str, found: tuple[str, bool] | None) -> None:
    assert named_kind(sentence) == found


def test_a_sentence_without_end_has_no_reasons() -> None:
    assert without_reason("x = 7, as it fits") == "x = 7"
    endless = "ends up with *, as it fits, " * 4_000
    assert without_reason(endless) == main_clause(endless) == endless
