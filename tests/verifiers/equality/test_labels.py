"""What an equation names, and which names agree."""

import pytest

from verifiers.equality.labels import (
    Named,
    as_equation,
    collect,
    is_name,
    labels_agree,
    renamed_argument,
    unname,
    with_sign,
)
from verifiers.grammar.parse import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", True), ("f(x)", True), ("f^{-1}(x)", True), ("|AB|", True), (r"\sin A", True),
        (r"\frac{dy}{dx}", True), ("AB", True), ("(x, y)", True), ("A:B", True),
        ("2x", False), ("x + y", False), ("5", False), ("(x, 1)", False), (r"\sin 2", False),
    ],
)  # fmt: skip
def test_names(text: str, expected: bool) -> None:
    assert is_name(parse(text)) is expected


@pytest.mark.parametrize(
    ("text", "label", "value"),
    [
        ("x = 5", "x", "5"),
        ("x = 6/2 = 3", "x", "3"),
        ("x = 6/2 = 4", None, "x = 6/2 = 4"),
        ("2 + 1 = 3", None, "3"),
        ("x + y = 5", None, "x + y = 5"),
        ("x = x^2", None, "x = x^2"),
        ("x \\in (1, 2)", "x", "(1, 2)"),
        ("x < 5", None, "x < 5"),
        ("1/3 \\approx 0.33", None, "1/3"),
        ("x = 1/3 \\approx 0.33", "x", "1/3"),
        (r"\sin x = 0", None, r"\sin x = 0"),
        (r"\sin x = 1/2", r"\sin x", "1/2"),
        ("5", None, "5"),
    ],
)
def test_names_are_taken_off(text: str, label: str | None, value: str) -> None:
    assert unname(parse(text)) == Named(None if label is None else parse(label), parse(value))


@pytest.mark.parametrize(
    ("gold", "answer", "agree"),
    [
        ("x = 5", "5", True),
        ("x = 5", "x = 6", True),
        ("x = 5", "y = 5", False),
        ("f(x) = 2x", "y = 2x", True),
        ("f(x) = 2x", "f(t) = 2t", True),
        ("f(x) = 2x", "g(x) = 2x", False),
        ("f(1) = 2", "f(2) = 2", False),
        ("f = 0", "f(x) = 0", True),
    ],
)
def test_which_names_agree(gold: str, answer: str, agree: bool) -> None:
    assert labels_agree(unname(parse(gold)), unname(parse(answer))) is agree


def test_a_functions_own_argument_is_renamed() -> None:
    gold, answer = unname(parse("f(n) = 2n")), unname(parse("f(m) = 2m"))
    assert renamed_argument(gold, answer) == parse("2n")
    assert renamed_argument(unname(parse("f(n) = 2n")), unname(parse("f(m) = m + n"))) == parse(
        "m + n"
    )


def test_a_member_as_the_equation_that_it_was() -> None:
    assert as_equation(unname(parse("y = 2x"))) == parse("y = 2x")
    assert as_equation(unname(parse("x + y = 2"))) == parse("x + y = 2")
    assert as_equation(unname(parse("5"))) is None


def test_signs_are_chosen_together() -> None:
    node = parse(r"1 \pm 2")
    assert node.has("pm")
    assert with_sign(node, True) == parse("1 + 2")
    assert with_sign(node, False) == parse("1 - 2")


@pytest.mark.parametrize(
    ("text", "values"),
    [("1, 2", "12"), (r"\{1, 2\}", "12"), (r"\{1\} \cup \{2\}", "12"), ("x = 1 or 2", "12")],
)
def test_members(text: str, values: str) -> None:
    members = collect(parse(text))
    assert members is not None
    assert [member.value for member in members] == [parse(value) for value in values]


def test_a_single_answer_has_no_members() -> None:
    assert collect(parse("5")) is None
    assert collect(parse("(1, 2)")) is None
