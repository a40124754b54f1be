"""Which spellings share a key."""

import pytest

from verifiers.grammar.parse import parse
from verifiers.values.canonical import canonical


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("a+b", "b+a", True),
        ("a+(b+c)", "(c+a)+b", True),
        ("2xy", "yx2", True),
        ("-2x", "x(-2)", True),
        ("-xy", "x(-y)", True),
        (r"\{1,2\}", r"\{2,1\}", True),
        ("0.5", r"0.50", True),
        ("a-b", "b-a", False),
        ("x/y", "y/x", False),
        ("(1,2)", "(2,1)", False),
        ("(1,2)", "[1,2]", False),
        ("1,2", "2,1", False),
        ("x<y", "x>y", False),
        ("x", "X", False),
        (r"\sin x", r"\cos x", False),
    ],
)
def test_keys(left: str, right: str, same: bool) -> None:
    assert (canonical(parse(left)) == canonical(parse(right))) is same


def test_a_long_number_has_a_key() -> None:
    assert canonical(parse("9" * 4000)) != canonical(parse("9" * 3999 + "8"))
