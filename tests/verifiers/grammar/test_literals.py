"""Numbers from their digits, exactly."""

from fractions import Fraction

import pytest
from verifier_nodes import Sym

from verifiers.grammar.literals import (
    MAX_DIGITS,
    continued_decimal,
    plain_number,
    read_literal,
    whole_number,
)
from verifiers.grammar.tree import TooLargeError, num


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-12", -12), ("+3", 3), ("$5", 5), ("1,234", 1234), ("0.25", Fraction(1, 4)),
        ("12,34", None), ("1e3", None), ("x", None), ("", None), ("1.", None),
        ("9" * 40, 10**40 - 1), ("9" * 41, None),
    ],
)  # fmt: skip
def test_plain_numbers(text: str, value: int | Fraction | None) -> None:
    assert plain_number(text) == value


@pytest.mark.parametrize(
    ("text", "value", "digits"),
    [
        ("12", 12, 0),
        ("0.250", Fraction(1, 4), 3),
        ("00.7", Fraction(7, 10), 1),
        ("1.5e2", 150, 2),
        ("2e-3", Fraction(1, 500), 0),
        ("1{,}000", 1000, 0),
        (r"0.\overline{3}", Fraction(1, 3), 0),
        (r"0.1\overline{6}", Fraction(1, 6), 0),
        (r"2.\overline{09}", Fraction(23, 11), 0),
    ],
)
def test_literals(text: str, value: int | Fraction, digits: int) -> None:
    assert read_literal(text) == num(value, digits)


def test_a_literal_has_a_longest_length() -> None:
    assert read_literal("1" * MAX_DIGITS).value > 10 ** (MAX_DIGITS - 1)
    for text in ("1" * (MAX_DIGITS + 1), "1e99999"):
        with pytest.raises(TooLargeError):
            read_literal(text)


def test_dots_continue_a_period_that_is_seen_three_times() -> None:
    assert continued_decimal("0.333", read_literal("0.333")).value == Fraction(1, 3)
    assert continued_decimal("0.121212", read_literal("0.121212")).value == Fraction(4, 33)
    assert continued_decimal("3.14159", read_literal("3.14159")).value == Fraction(314159, 100000)


def test_whole_numbers() -> None:
    assert whole_number(num(7)) == 7
    assert whole_number(num(Fraction(1, 2))) is None
    assert whole_number(Sym("x")) is None
