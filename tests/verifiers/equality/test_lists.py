"""Other ways to write a list or a tuple."""

import pytest

from verifiers.equality.compare import compare
from verifiers.equality.labels import Named, unname
from verifiers.equality.lists import (
    along_axes,
    as_tuples,
    by_name,
    components,
    distinct_labels,
    named_alike,
    whole_numbers,
    written_out,
)
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Empty, Node, Set, num
from verifiers.values.same_value import rational


def members(*texts: str) -> list[Named]:
    return [unname(parse(text)) for text in texts]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (r"1, 2, \ldots, 6", range(1, 7)),
        (r"1, 3, \ldots, 7, 9", range(1, 10, 2)),
        (r"6, 4, \ldots, 0", range(6, -1, -2)),
        (r"\{-2, -1, \ldots, 1\}", range(-2, 2)),
        (r"1, 2, \ldots, 4, 6", None),
        (r"1, 2, 4, \ldots, 7", None),
        (r"1, 3, \ldots, 8", None),
        (r"1, \ldots, 6", None),
        (r"1, 2, \ldots", None),
        (r"1, 2, \ldots, 10^9", None),
        (r"1, 1, \ldots, 1", None),
        (r"a, b, \ldots, f", None),
    ],
)
def test_progressions(text: str, whole: range | None) -> None:
    node = parse(text)
    written = node if whole is None else node.with_args(tuple(map(num, whole)))
    assert written_out(node) == written


def test_the_tail_of_a_continued_list_is_compared() -> None:
    assert compare("1,2,3,4,5,6", r"1, 2, \ldots, 5, 6").equal
    assert not compare("1,2,3,4,5,6", r"1, 2, \ldots, 4, 6").equal


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (r"\{x \in \mathbb{Z} | -1 \le x < 3\}", Set(tuple(map(num, range(-1, 3))))),
        (r"\{x \in \mathbb{Z} | 0 < x < 1\}", Empty()),
        (r"\{x \in \mathbb{Z} | x^2 < 2\}", Set(tuple(map(num, (-1, 0, 1))))),
        (r"\{x \in \mathbb{Z} | x > 0\}", None),
        (r"\{x \in \mathbb{R} | 0 < x < 3\}", None),
        (r"\{x | 0 < x < 3\}", None),
    ],
)
def test_sets_of_whole_numbers(text: str, whole: Node | None) -> None:
    node = parse(text)
    assert whole_numbers(node) == (node if whole is None else whole)


@pytest.mark.parametrize(
    ("text", "size", "vector"),
    [
        ("2i + 3j", 2, (2, 3)),
        ("2i + 3j - k", 3, (2, 3, -1)),
        ("2i + 3j", 3, (2, 3, 0)),
        ("2i + 3k", 2, None),
        ("2i + 3", 2, None),
        ("i + j + 1", 2, None),
        ("j^2", 2, None),
    ],
)
def test_vectors_of_axes(text: str, size: int, vector: tuple[int, ...] | None) -> None:
    found = along_axes(parse(text), size)
    assert (found and tuple(map(rational, found.args))) == vector


def test_names_of_components() -> None:
    assert distinct_labels(members("x = 1", "y = 2"))
    assert not distinct_labels(members("x_1 = 1", "x_2 = 2"))
    assert components(members("x_1 = 1", "x_2 = 2"))
    assert not components(members("x = 1", "x = 2"))
    assert not components(members("x = 1", "2"))


def test_values_in_the_order_of_their_names() -> None:
    assert by_name(members("y = 2", "x = 1")) == [parse("1"), parse("2")]
    assert by_name(members("y = 2", "x = 1"), parse("(y, x)")) == [parse("2"), parse("1")]
    assert by_name(members("2", "1")) == [parse("2"), parse("1")]


def test_named_values_as_tuples() -> None:
    flat = members("x = 1", "y = 2", "x = 3", "y = 4")
    pairs = members("(1, 2)", "(3, 4)")
    assert as_tuples(flat, pairs) == pairs
    assert as_tuples(flat[:3], pairs) == flat[:3]
    assert as_tuples(pairs, pairs) == pairs


def test_one_value_of_several_names() -> None:
    assert named_alike(parse("x = y = 1")) == members("x = 1", "y = 1")
    assert named_alike(parse("x = 1")) == []
    assert named_alike(parse("x = y = z")) == []
