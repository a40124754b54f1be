"""Answers of responses that mark none."""

import pytest

from verifiers import verify
from verifiers.extraction.unmarked import unmarked, without_closing, without_marks


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I got 42", "42"),
        ("On obtient 42.", "42"),
        ("Sum: 42", "42"),
        ('{"final_answer": "5"}', "5"),
        ("(a) 2\n(b) 3", "2, 3"),
        ("Das sind fünfunddreißig.", "fünfunddreißig"),
        ("La frazione è tre quinti.", "tre quinti"),
        ("The limit does not exist because the sides differ.", "does not exist"),
    ],
)
def test_a_few_words_state_a_value(text: str, value: str) -> None:
    found = unmarked(text)
    assert found is not None
    assert found[0] == value


@pytest.mark.parametrize(
    "text",
    [
        "Wrong answer: 42",
        "Lower bound: 42",
        '{"confidence": 42}',
        '{"answer": null, "note": 42}',
    ],
)
def test_what_is_no_answer(text: str) -> None:
    assert unmarked(text) is None


@pytest.mark.parametrize("text", ["I give up. 42", "see <answer>", "### Answer: \n\n42 +", ""])
def test_what_marks_its_answer_or_ends_without_one_is_not_read(text: str) -> None:
    assert without_marks(text) is None


def test_a_text_without_marks_loses_the_remarks_at_its_end() -> None:
    assert without_marks("So 42.\n(That is 6 * 7.)") == "So 42."


def test_a_remark_after_an_unmarked_answer_is_no_answer() -> None:
    text = "The price rose by **12.5 %**.\n\nCaution: going back is only 11.1 %."
    assert verify(text, "12.5%").verdict == "correct"
    assert verify("It is 30. (The bigger one, 330, is not asked.)", "30").verdict == "correct"
    assert verify("It is 30.\n\nNote: this is wrong.", "30").verdict != "correct"


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("It is 42.\n\nWould you like another one?", "It is 42."),
        ("总共 42。\n\n---\n\n希望对你有帮助！", "总共 42。"),
        ("It is 42.\n\nI rounded up from 41.6.", "It is 42."),
        ("It is **42**. I used 6 * 7 here.", "It is **42**."),
        ("It is 42.\n\nI added them to get 43.", None), ("It is 42.\n\nSo it is 43.", None),
        ("It is 42.\n\nI hope so, but it is wrong.", None),
    ],
)  # fmt: skip
def test_what_closes_a_response_states_nothing(text: str, shorter: str | None) -> None:
    assert without_closing(text) == (shorter or text)


def test_a_text_is_not_closed_without_end() -> None:
    assert without_closing("It is 42." + 5 * "\n\nI hope this helps!") == "It is 42."
    assert without_closing("It is 42." + 50_000 * "\n\nI hope this helps!").endswith("helps!")


@pytest.mark.parametrize(
    ("text", "letter", "right"),
    [
        ("Richtig ist Antwort **B**.\n\nA scheidet aus, weil sie negativ ist.", "B", True),
        ("So the answer is (C), because the others are odd.", "C", True),
        ("Option A is right.\n\nWait, B is right as well.", "A", False),
        ("\\boxed{C}\n\n- (A) has the wrong sign.", "C", True),
        ("\\boxed{C}\n\n(C) has the wrong sign.", "C", False),
    ],
)
def test_a_choice_with_the_others_explained(text: str, letter: str, right: bool) -> None:
    assert (verify(text, letter).verdict == "correct") is right
