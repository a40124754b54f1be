"""Boxes, mathematics and sentences of a response, each in linear time."""

import pytest

from verifiers.extraction.response.passages import (
    WINDOW,
    boxes,
    final_text,
    group_end,
    math_span,
    math_spans,
    sentences,
    without_quotations,
)


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{1} and \fbox{2}", ["1", "2"]),
        (r"\boxed{\frac{1}{2}}", [r"\frac{1}{2}"]),
        (r"\boxed{\{1\}}", [r"\{1\}"]),
        (r"\boxed{\boxed{1}}", [r"\boxed{1}"]),
        (r"\boxed 7", ["7"]),
        (r"\boxed{1} \boxed{2", ["1"]),
        ("none", []),
    ],
)
def test_boxes(text: str, contents: list[str]) -> None:
    assert [content for _, _, content in boxes(text)] == contents


def test_a_box_knows_its_place() -> None:
    text = r"so \boxed{12}."
    ((start, end, _),) = boxes(text)
    assert text[start:end] == r"\boxed{12}"


def test_groups_end_at_their_own_brace() -> None:
    assert group_end("{a{b}c}d", 0) == 7
    assert group_end(r"{\}}", 0) == 4
    assert group_end("{a", 0) == -1


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"$1$, \(2\) and \[3\] and $$4$$", ["1", "2", "3", "4"]),
        ("$5 and then $6", []),
        (r"$\$5$", [r"\$5"]),
        ("costs \\$5", []),
    ],
)
def test_delimited_mathematics(text: str, contents: list[str]) -> None:
    assert [content for _, _, content in math_spans(text)] == contents


def test_a_span_ends_behind_its_mark() -> None:
    assert math_span("so $x$.", 3) == (6, "x")
    assert math_span("so $x$.", 0) is None


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two? Three", ["One.", "Two?", "Three"]),
        ("It is 2.5 cm.", ["It is 2.5 cm."]),
        ("a\nb", ["a", "b"]),
        ("So\n\\[\nx\n= 2.\n\\]", ["So", r"\[ x = 2 \]"]),
    ],
)
def test_sentences(text: str, pieces: list[str]) -> None:
    assert [" ".join(piece.split()) for piece in sentences(text)] == pieces


def test_only_the_first_turn_counts_without_notes_and_bold() -> None:
    assert final_text("5<|im_end|>6") == "5"
    assert final_text("2+3=<<2+3=5>>5") == "2+3=5"
    assert final_text("**5**") == "5"
    assert final_text("5<!-- 6 -->").strip() == "5"


def test_a_very_long_text_is_cut_around_its_last_mark() -> None:
    assert len(final_text("1. 2" * WINDOW)) in (WINDOW - 1, WINDOW - 2, WINDOW - 3)
    assert final_text("x" * (2 * WINDOW)) == ""  # a value that the limit cuts is none
    assert r"\boxed{5}" in final_text("x" * WINDOW + r"\boxed{5}" + "x" * (2 * WINDOW))


def test_quoted_and_hidden_boxes_are_blank_at_their_places() -> None:
    for quoted in ('"{}"', "`{}`", "```\n{}\n```", r"\phantom{{{}}}"):
        text = "a " + quoted.format(r"\boxed{5}") + " b"
        blank = without_quotations(text)
        assert "boxed" not in blank
        assert (len(blank), blank[0], blank[-1]) == (len(text), "a", "b")
    assert without_quotations(r'"a" \boxed{5}') == r'"a" \boxed{5}'


def test_a_long_gap_is_one_space() -> None:
    assert final_text("so 7" + " " * 5_000 + "or 8") == "so 7 or 8"
    assert final_text("so 7" + " " * 50 + "or 8") == "so 7" + " " * 50 + "or 8"
