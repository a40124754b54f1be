"""Answers of responses that mark none."""

import pytest

from verifiers import verify
from verifiers.extraction.unmarked import named_values, solved, unmarked, value_lines


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
    ("sentence", "values"),
    [
        ("So Tom has 5 apples and Ann has 3.", ("5", "3")), ("She ran 5 km in 25 minutes.", ()),
        ("The angles measure 40°, 60° and 80°.", ("40°", "60°", "80°")), ("It is 5.", ()),
        ("Tom does not have 5 apples and Ann 3.", ()), ("5 times 3 and 4", ()),
    ],
)  # fmt: skip
def test_values_that_a_sentence_gives_to_several_things(
    sentence: str, values: tuple[str, ...]
) -> None:
    assert named_values(sentence) == values


def test_a_remark_after_an_unmarked_answer_is_no_answer() -> None:
    text = "The price rose by **12.5 %**.\n\nCaution: going back is only 11.1 %."
    assert verify(text, "12.5%").verdict == "correct"
    assert verify("It is 30. (The bigger one, 330, is not asked.)", "30").verdict == "correct"
    assert verify("It is 30.\n\nNote: this is wrong.", "30").verdict != "correct"
