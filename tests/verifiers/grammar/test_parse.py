"""The whole way from text to tree, within its limits."""

import inspect
import sys

import pytest
from verifier_nodes import List, Sym, Tuple

from verifiers.grammar.parse import LONGEST_CACHED, MAX_TEXT, parse
from verifiers.grammar.tree import ParseError, TooLargeError, num


def test_grouping_reads_one_number_or_a_list() -> None:
    assert parse("1,234") == num(1234)
    assert parse("1,234", grouping=False) == List(",", (num(1), num(234)))


@pytest.mark.parametrize(
    ("text", "brackets"), [("]1, 2[", "()"), ("[1, 2[", "[)"), ("]1, 2]", "(]"), ("(1, 2]", "(]")]
)
def test_brackets_that_open_outward(text: str, brackets: str) -> None:
    assert parse(text) == Tuple(brackets, (num(1), num(2)))


def test_nothing_may_be_left_over() -> None:
    with pytest.raises(ParseError, match="unexpected '}'"):
        parse("1}")


def test_long_texts_are_read_and_too_long_ones_refused() -> None:
    assert parse(" " * LONGEST_CACHED + "x") == Sym("x")
    with pytest.raises(TooLargeError):
        parse("1" * (MAX_TEXT + 1))


def test_a_stack_that_runs_out_is_too_large() -> None:
    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
        else:
            parse("(" * 45 + "deep" + ")" * 45)

    with pytest.raises(TooLargeError, match="nested too deeply"):
        below(sys.getrecursionlimit() - len(inspect.stack()) - 200)
