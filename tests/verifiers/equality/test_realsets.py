"""Sets of real numbers, interval by interval."""

import pytest

from verifiers.equality.realsets import NotASetError, looks_like_range, read_set, same_set
from verifiers.grammar.parse import parse


def intervals(text: str) -> list[tuple[float, bool, float, bool]]:
    """Return (low, whether it is a member, high, whether it is a member) of each interval."""
    cuts = read_set(parse(text)).cuts
    return [
        (float(low), not after_low, float(high), bool(after_high))
        for (low, after_low), (high, after_high) in zip(cuts[::2], cuts[1::2], strict=True)
    ]


INF = float("inf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2)", [(1, True, 2, False)]),
        ("x > 1", [(1, False, INF, False)]),
        ("1 < x \\le 2", [(1, False, 2, True)]),
        ("x^2 \\le 4", [(-2, True, 2, True)]),
        ("x^2 > 4", [(-INF, False, -2, False), (2, False, INF, False)]),
        ("-x^2 > -4", [(-2, False, 2, False)]),
        ("|x - 1| < 2", [(-1, False, 3, False)]),
        ("|x| \\ge 1", [(-INF, False, -1, True), (1, True, INF, False)]),
        ("x \\ne 0", [(-INF, False, 0, False), (0, False, INF, False)]),
        (r"\{1, 2\}", [(1, True, 1, True), (2, True, 2, True)]),
        (r"\mathbb{R}", [(-INF, False, INF, False)]),
        (r"\mathbb{R}^+", [(0, False, INF, False)]),
        (r"[0, 3] \cap [2, 5]", [(2, True, 3, True)]),
        (r"[0, 3] \setminus \{1\}", [(0, True, 1, False), (1, False, 3, True)]),
        (r"(0, 1) \cup (1, 2)", [(0, False, 1, False), (1, False, 2, False)]),
        (r"(0, 1] \cup (1, 2)", [(0, False, 2, False)]),
        (r"(-\infty, 1) \cup (2, 3] \cup (3, 4)", [(-INF, False, 1, False), (2, False, 4, False)]),
        (r"[0, 5] \cup [1, 2]", [(0, True, 5, True)]),
        (r"\{x | x > 1\}", [(1, False, INF, False)]),
        ("x < 1 or x > 2", [(-INF, False, 1, False), (2, False, INF, False)]),
        ("x > 1 and x < 2", [(1, False, 2, False)]),
        ("[1, 1]", [(1, True, 1, True)]),
    ],
)
def test_intervals(text: str, expected: list) -> None:
    assert intervals(text) == expected


@pytest.mark.parametrize(
    "text", ["(1, 2, 3)", "x < y", "x^3 < 1", "5", r"\langle 1, 2 \rangle", "(1, a)", "(1, 1/0)",
             "x > 1 and y < 2", r"\{x \in \mathbb{Z} | x > 1\}", "(2, 1)", "(1, 1)",
             r"x^2 \in (0, 1)", r"2 \in (0, 1)", r"\{x^2 | 0 < x < 1\}", r"\{y | 0 < x < 1\}"]
)  # fmt: skip
def test_what_is_no_set(text: str) -> None:
    with pytest.raises(NotASetError):
        read_set(parse(text))


def test_sets_differ_by_ends_and_by_variable() -> None:
    def same(first: str, other: str) -> bool:
        return same_set(read_set(parse(first)), read_set(parse(other)))

    assert same("x^2 < 2", r"(-\sqrt 2, \sqrt 2)")
    assert not same("x^2 < 2", r"(-1.4142135623, 1.4142135623)")
    assert not same("x < 1", "x \\le 1")
    assert not same("x < 1", "y < 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x > 1", True), ("[1, 2)", True), ("(1, 2)", False), (r"(1, \infty)", True), ("x = 1", False),
     (r"x \in (1, 2)", True), ("1, 2", False), ("x > 1, x < 2", True), (r"\mathbb{R}", True)],
)  # fmt: skip
def test_what_can_only_be_a_set(text: str, expected: bool) -> None:
    assert looks_like_range(parse(text)) is expected
