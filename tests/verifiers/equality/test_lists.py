"""Lists whose members have names."""

from verifiers.equality.labels import Named, unname
from verifiers.equality.lists import are_components, as_tuples, by_name, distinct_labels
from verifiers.grammar.parse import parse


def members(*texts: str) -> list[Named]:
    return [unname(parse(text)) for text in texts]


def test_names_of_components() -> None:
    assert distinct_labels(members("x = 1", "y = 2"))
    assert not distinct_labels(members("x_1 = 1", "x_2 = 2"))
    assert are_components(members("x_1 = 1", "x_2 = 2"))
    assert not are_components(members("x = 1", "x = 2"))
    assert not are_components(members("x = 1", "2"))


def test_values_in_the_order_of_their_names() -> None:
    assert by_name(members("y = 2", "x = 1")) == (parse("1"), parse("2"))
    assert by_name(members("y = 2", "x = 1"), parse("(y, x)")) == (parse("2"), parse("1"))
    assert by_name(members("2", "1")) == (parse("2"), parse("1"))


def test_named_values_as_tuples() -> None:
    flat = members("x = 1", "y = 2", "x = 3", "y = 4")
    pairs = members("(1, 2)", "(3, 4)")
    assert as_tuples(flat, pairs) == pairs
    assert as_tuples(flat[:3], pairs) == flat[:3]
    assert as_tuples(pairs, pairs) == pairs
