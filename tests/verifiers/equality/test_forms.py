"""Sets written with a minus, and other forms that are compared as one."""

import pytest

from verifiers.equality.forms import spelled_out, without_minus
from verifiers.grammar.parse import parse


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (r"\{1,2\} - \{2\}", "diff"),
        (r"(2,102) - \{12\}", "diff"),
        ("(2,3) - (1,2)", "add"),
        ("5 - 3", "add"),
        ("all real numbers", "setname"),
        ("no solution", "empty"),
    ],
)
def test_one_form(text: str, kind: str) -> None:
    assert spelled_out(parse(text)).kind == kind


def test_a_minus_between_names_is_one_between_sets_only_where_both_are_capitals() -> None:
    assert without_minus(parse("A - B")).kind == "diff"
    assert without_minus(parse("A - b")).kind == "add"
    assert without_minus(parse("A - B - D")).kind == "add"
