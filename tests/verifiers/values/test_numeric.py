"""Values in high precision, within bounds."""

from fractions import Fraction

import pytest

from verifiers.grammar.parse import parse
from verifiers.grammar.tree import TooLargeError
from verifiers.values.exact import InexactError, UndefinedError
from verifiers.values.numeric import Evaluator, context

DIGITS = 30


def value(text: str, *, real: bool = True, decimal_log: bool = False):
    return Evaluator(DIGITS, {"x": Fraction(2)}, real=real, decimal_log=decimal_log)(parse(text))


@pytest.mark.parametrize(
    ("text", "square"),
    [
        (r"\sqrt 2", 2),
        ("2^{1/2}", 2),
        (r"2\sin(\pi/4)", 2),
        (r"2\cos 45^\circ", 2),
        (r"\tan(\pi/3)", 3),
        (r"e^{\ln 3}", 9),
        (r"\log_3 9", 4),
        (r"\lg 100", 4),
        (r"\sqrt[3]{-27}", 9),
        ("x + 1/2", 6.25),
        ("4!", 576),
        ("|-5|", 25),
        ("50\\%", 0.25),
    ],
)
def test_values(text: str, square: float) -> None:
    assert abs(value(text) ** 2 - square) < 1e-25


def test_gamma_at_a_half() -> None:
    assert abs(value("(1/2)!") ** 2 * 4 - context(DIGITS).pi) < 1e-25


def test_a_logarithm_is_natural_unless_asked() -> None:
    assert abs(value(r"\log 100", decimal_log=True) - 2) < 1e-25
    assert abs(value(r"\log e") - 1) < 1e-25


def test_complex_values_where_they_are_allowed() -> None:
    assert value("i^2", real=False) == -1
    assert abs(value(r"\sqrt{-4}", real=False) - context(DIGITS).mpc(0, 2)) < 1e-25
    for text in ("i", "(-1)^{1/2}", r"\sqrt{-4}"):
        with pytest.raises(InexactError):
            value(text)


def test_an_unknown_function_has_one_value_for_each_argument() -> None:
    assert value("f(2)") == value("f(x)")
    assert value("f(2)") != value("f(3)")
    assert value("f(2)") != value("g(2)")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1/0", UndefinedError),
        (r"\ln 0", UndefinedError),
        ("0^{-1}", UndefinedError),
        (r"\infty", InexactError),
        ("9^{9^{9}}", TooLargeError),
        ("(10001/2)!(20003/2)!", TooLargeError),
        (r"\sinh 10^9", TooLargeError),
    ],
)
def test_what_has_no_value(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        value(text)


def test_precisions_do_not_disturb_each_other() -> None:
    assert (context(30).dps, context(60).dps, context(30).dps) == (30, 60, 30)
    assert context(30) is context(30)
