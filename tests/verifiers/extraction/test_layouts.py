"""Answers that a layout shows."""

import pytest

from verifiers.extraction.layouts import first_line, from_json, last_row, misheaded, value_lines


def test_lines_of_values_are_one_list() -> None:
    assert value_lines("- x = 2\n- x = 3") == "x = 2, x = 3"
    assert value_lines("2\nand then three more of them") is None
    assert value_lines("2") is None


def test_the_first_line_counts_before_an_explanation_alone() -> None:
    assert first_line("42\n\n**Explanation:** 6 times 7.") == "42"
    assert first_line("B) 7\n\nWe count them.") == "B) 7"
    assert first_line("B) 7\n\nC) 8") is None
    assert first_line("We guess 42\n\nExplanation: 6 times 7.") is None


def test_the_last_row_counts_if_it_names_the_answer() -> None:
    assert last_row("| step | value |\n|---|---|\n| Total | 42 |") == "42"
    assert last_row("| step | value |\n|---|---|\n| Mary | 42 |") is None


@pytest.mark.parametrize("heading", ["Wrong answer", "### Wrong answer", "My friend's answer"])
def test_a_heading_gives_a_value_to_others(heading: str) -> None:
    assert misheaded(f"{heading}\n\n42")
    assert not misheaded("### Result\n\n42")


def test_an_object_has_one_answer_and_refuses_none() -> None:
    assert from_json('{"answer": 42}') == ("42", "JSON")
    assert from_json('{"answer": 42, "accepted": false}') is None
    assert from_json('{"answer": 42, "final_answer": 43}') is None
    assert from_json('{"answer": 42') is None
    assert from_json("[" * 100_000) is None
