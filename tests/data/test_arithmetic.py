"""The built-in problems: their rows, and that the text alone decides the split."""

import pytest

from rlvr_cli.data import arithmetic


@pytest.mark.parametrize("split", ["train", "test"])
def test_rows_are_distinct_of_their_split_and_the_same_for_a_seed(split):
    rows = arithmetic.problems(split, 60, seed=3)
    assert rows == arithmetic.problems(split, 80, seed=3)[:60]
    assert len({row["problem"] for row in rows}) == len({row["id"] for row in rows}) == 60
    assert {arithmetic.split_of(row["problem"]) for row in rows} == {split}


def test_a_split_that_is_none_or_too_small_is_refused():
    with pytest.raises(ValueError, match="has the splits train and test, not 'dev'"):
        arithmetic.problems("dev", 1, seed=0)
