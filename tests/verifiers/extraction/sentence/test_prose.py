"""The value that prose states."""

import pytest

from verifiers.extraction.sentence.prose import joined_spans, last_expression, leads_to, only_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Tom has 7 apples left.", "7"),
        ("There are 6 integers below 9.", "6"),
        ("The total is $\\frac{1}{2}$.", "\\frac{1}{2}"),
        ("El cubo se corta en tres partes, así que salen veintisiete.", "veintisiete"),
    ],
)
def test_last_expression(text: str, value: str) -> None:
    assert (last_expression(text) or "").strip() == value


@pytest.mark.parametrize(
    "text",
    [
        "It is half of 7.", "It is not 7.", "Nobody knows.", "Son dos veces treinta y cinco.",
        "Er hat zweimal fünfzehn.", "Son de quince a treinta.",
    ],
)  # fmt: skip
def test_what_a_sentence_does_not_state(text: str) -> None:
    assert last_expression(text) is None


def test_joined_mathematics_is_one_list() -> None:
    assert joined_spans("$1$ and $2$") == "1, 2"
    assert joined_spans("$1$ or $2$") == "1 or 2"
    assert joined_spans("$42$ million") is None


def test_only_value() -> None:
    assert (only_value("Tom has 7 apples") or "").strip() == "7"
    assert only_value("Tom has 7 apples and 8 pears") is None
    assert leads_to("Tom has ")
    assert not leads_to("on page ")
