"""Text that is safe on a terminal, short in a message, and numbers in sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from rlvr_cli.core.text import (
    DEEPEST,
    SHORT,
    first_mistake,
    format_value,
    is_too_deep,
    opens_thought,
    plural,
    printable,
    shortened,
)


def test_what_a_terminal_obeys_is_replaced_and_lines_and_tabs_stay():
    assert printable("a\tb\nc\x1b[2J\x07\r\x9b1m\u202eabc\u2066\ud800é漢") == (
        "a\tb\nc\ufffd[2J\ufffd\ufffd\ufffd1m\ufffdabc\ufffd?é漢"
    )


@given(st.text())
def test_printable_text_is_as_long_as_before_and_stays_as_it_is(text):
    once = printable(text)
    assert len(once) == len(text)
    assert printable(once) == once
    assert all(sign.isprintable() or sign in "\t\n\ufffd" or ord(sign) > 0x9F for sign in once)


def test_a_text_is_cut_only_where_it_is_too_long():
    assert shortened("x" * SHORT) == "x" * SHORT
    assert shortened("x" * (SHORT + 1)) == "x" * SHORT + "…"


def test_a_shortened_text_is_one_line():
    assert shortened("a\nb\r\nc\u2028d\n") == "a b c d"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("it's", '"it\'s"'),
        (0.5, "0.5"),
        (None, "None"),
        ("x" * 200, "'" + "x" * 99 + "…"),
        ([[[[[[[[1]]]]]]]], "[[[[[[[...]]]]]]]"),
    ],
)
def test_any_value_in_a_message(value, expected):
    assert format_value(value) == expected


def test_a_number_that_python_does_not_print():
    assert format_value(10**5000) == "so large a number"


class Inner(BaseModel):
    count: int = Field(ge=1)


class Outer(BaseModel):
    inner: list[Inner]
    late: int


def test_the_first_mistake_with_its_place():
    with pytest.raises(ValidationError) as actual:
        Outer.model_validate({"inner": [{"count": 1}, {"count": 0}], "late": "x"})
    assert first_mistake(actual.value) == "inner.1.count must be 1 or more"


def nested(levels, wrap):
    value = 0
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: [{}, 1, x]])
def test_depth_counts_lists_and_objects(wrap):
    assert not is_too_deep(nested(DEEPEST - 1, wrap))
    assert is_too_deep(nested(DEEPEST + 1, wrap))
    assert is_too_deep(nested(100_000, wrap))


def test_one_is_singular():
    assert [plural(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_a_prompt_that_opens_think_by_itself():
    actual = [opens_thought(text) for text in ("a<think>\n", "<think> a", "</think>", "", None)]
    assert actual == [True, False, False, False, False]
