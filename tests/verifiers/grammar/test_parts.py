"""Labels of parts: where a run of them begins and ends."""

import pytest

from verifiers.grammar.parts import as_list, last_parts, parts_of


def test_parts_have_their_labels_in_order() -> None:
    assert [part[:2] for part in parts_of("(a) $x=2$; (b) (3, 4)")] == [
        ("a", "$x=2$"),
        ("b", "(3, 4)"),
    ]
    assert [part.text for part in parts_of("**Part (i):** 5 and **(ii)** 12.")] == ["5", "12"]


def test_what_has_no_second_part_or_another_order_is_no_run() -> None:
    assert parts_of("(a) 3") == ()
    assert parts_of("(b) 3 (a) 4") == ()
    assert parts_of("f(a) + f(b)") == ()
    assert parts_of("So (a) 3 (b) 4") == ()


@pytest.mark.parametrize(
    "product",
    ["(a)(1+(b)(1))", "(a) (x) (b) (y)", "(a) + (b)", "(a) - (b) 1", "(a) \\cdot (b) c", "(a)(b)"],
)
def test_brackets_that_are_multiplied_are_no_labels(product: str) -> None:
    assert parts_of(product) == ()


def test_labels_may_stand_in_a_list_and_before_a_point() -> None:
    assert [part.text for part in parts_of("- (a) 3\n- (b) 10")] == ["3", "10"]
    assert [part.text for part in parts_of("(a) -3 (b) (2, -1)")] == ["-3", "(2, -1)"]


def test_the_last_run_counts_and_a_mention_is_no_label() -> None:
    text = "(a) 1+2\n(b) 10 = 2·5, by (a).\nSo (a) 3; (b) 10"
    assert [part.text for part in last_parts(text, 2)] == ["3", "10"]
    assert last_parts("(a) 3\n(b) from part (a), 10", 2)[0].text == "3"
    assert last_parts(text, 3) == ()


def test_short_parts_are_a_list_too() -> None:
    assert as_list("a) 4; b) 9") == "4, 9"
    assert as_list("(a) x = 1, x = 3 (b) 9") is None
