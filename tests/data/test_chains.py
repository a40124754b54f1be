"""The built-in problems: right, seeded, evenly hard, and split by their text alone."""

import re
from collections import Counter

from rlvr_cli.data import chains


def test_the_splits_of_chains_never_overlap_whatever_the_seed():
    held_out = {row["problem"] for seed in range(3) for row in chains.problems("test", 256, seed)}
    train = {row["problem"] for seed in range(3) for row in chains.problems("train", 4096, seed)}
    assert not held_out & train


def test_chains_are_right_seeded_and_have_every_level_evenly():
    rows = chains.problems("train", 800, seed=1)
    assert rows == chains.problems("train", 800, seed=1)
    assert rows != chains.problems("train", 800, seed=2)
    assert len({row["problem"] for row in rows}) == len({row["id"] for row in rows}) == 800
    for row in rows:
        start, shown = re.fullmatch(
            r"Start at (\d), keep last digits:(.*)", row["problem"]
        ).groups()
        steps = re.findall(r" \((.)\) ([-+*])(\d)", shown)
        assert "".join(f" ({label}) {op}{operand}" for label, op, operand in steps) == shown
        assert "".join(label for label, _, _ in steps) == "abcdefgh"[: row["level"]]
        total = int(start)
        for _, op, operand in steps:
            number = int(operand)
            total = {"+": total + number, "-": total - number, "*": total * number}[op]
        assert int(row["answer"]) == total % 10
    levels = Counter(row["level"] for row in rows)
    assert set(levels) == set(range(1, 9))
    # a level of n operations has 10 * 21 ** n chains, so that the first runs out
    assert levels[1] <= 210
    assert all(70 <= levels[level] <= 140 for level in range(2, 9))


def test_one_wrong_step_of_a_chain_always_makes_a_wrong_answer():
    for op, operands in chains.OPERATIONS.items():
        for operand in operands:
            assert {chains.apply(op, left, operand) for left in range(10)} == set(range(10))
    assert [chains.apply(op, 7, 9) for op in "+-*"] == [6, 8, 3]
