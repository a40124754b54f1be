"""The built-in problems: right, seeded, evenly hard, and split by their text alone."""

import re
from collections import Counter

from rlvr_cli.data import chains


def test_the_splits_of_chains_never_overlap_whatever_the_seed():
    held_out = {row["problem"] for seed in range(3) for row in chains.problems("test", 256, seed)}
    train = {row["problem"] for seed in range(3) for row in chains.problems("train", 4096, seed)}
    assert not held_out & train


def test_chains_are_right_seeded_and_have_every_level_evenly():
    rows, repeated, others = (list(chains.problems("train", 1000, seed)) for seed in (1, 1, 2))
    assert rows == repeated != others
    assert len({row["problem"] for row in rows}) == len({row["id"] for row in rows}) == 1000
    for row in rows:
        start, shown = re.fullmatch(
            r"Start at (\d), keep last digits:(.*)", row["problem"]
        ).groups()
        steps = re.findall(r" \((.)\) ([-+*])(\d+)", shown)
        assert "".join(f" ({label}) {op}{operand}" for label, op, operand in steps) == shown
        assert "".join(label for label, _, _ in steps) == "abcdefgh"[: len(steps)]
        total = int(start)
        for _, op, operand in steps:
            number = int(operand)
            total = {"+": total + number, "-": total - number, "*": total * number}[op]
        assert int(row["answer"]) == total % 10
        assert row["level"] == _level(steps)
    expected = Counter(row["level"] for row in rows[:800])
    assert set(expected) == set(range(1, 9))
    # a level of n operations has 10 * 21 ** n chains, so that the first runs out
    assert expected[1] <= 210
    assert all(70 <= expected[level] <= 140 for level in range(2, 9))
    new = Counter(row["level"] for row in rows[800:])
    assert set(new) == {9, 10, 11, 12}
    assert all(30 <= count <= 70 for count in new.values())


def _level(steps: list[tuple[str, str, str]]) -> int:
    """The level of a chain, by its numbers alone."""
    if any(len(operand) == 2 for _, _, operand in steps):
        return 11 if len(steps) <= 4 else 12
    if all(operand in ("379" if op == "*" else "123456789") for _, op, operand in steps):
        return len(steps)
    return 9 if len(steps) <= 5 else 10


def test_levels_one_to_eight_are_the_same_alone():
    """So that runs on them compare with runs on all, and with those before there were others."""
    both = list(chains.problems("test", 320, seed=1))
    assert [row["level"] <= 8 for row in both] == [True] * 256 + [False] * 64
    assert list(chains.problems("test", 80, seed=1))[:64] == both[:64]


def test_one_wrong_step_of_a_chain_always_makes_a_wrong_answer():
    for op, operands in chains.OPERATIONS.items():
        for operand in operands:
            assert {chains.apply(op, left, operand) for left in range(10)} == set(range(10))
    assert [chains.apply(op, 7, 9) for op in "+-*"] == [6, 8, 3]
