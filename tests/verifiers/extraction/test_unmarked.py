"""Answers of responses that mark none."""

import pytest

from verifiers.extraction.unmarked import unmarked, value_lines


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


def test_lines_of_values_are_one_list() -> None:
    assert value_lines("- x = 2\n- x = 3") == "x = 2, x = 3"
    assert value_lines("2\nand then three more of them") is None
    assert value_lines("2") is None
