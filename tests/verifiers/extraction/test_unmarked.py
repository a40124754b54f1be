"""Answers of responses that mark none."""

import pytest

from verifiers import verify
from verifiers.extraction.unmarked import unmarked


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I got 42", "42"),
        ("On obtient 42.", "42"),
        ("Sum: 42", "42"),
        ('{"final_answer": "5"}', "5"),
        ("(a) 2\n(b) 3", "2, 3"),
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
        "I give up. 42",
        "see <answer>",
    ],
)
def test_what_is_no_answer(text: str) -> None:
    assert unmarked(text) is None


def test_a_remark_after_an_unmarked_answer_is_no_answer() -> None:
    text = "The price rose by **12.5 %**.\n\nCaution: going back is only 11.1 %."
    assert verify(text, "12.5%").verdict == "correct"
    assert verify("It is 30. (The bigger one, 330, is not asked.)", "30").verdict == "correct"
    assert verify("It is 30.\n\nNote: this is wrong.", "30").verdict != "correct"
