"""The table of conventions in verifiers/README.md, row by row: tables/conventions.jsonl."""

import pytest
from verifier_case_files import table

from verifiers.equality.compare import compare

# Each gold with answers that equal it, and with answers that do not.
ROWS = table("conventions")
EQUAL = [(row["gold"], answer) for row in ROWS for answer in row["equal"]]
UNEQUAL = [(row["gold"], answer) for row in ROWS for answer in row["unequal"]]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert compare(gold, answer).equal


@pytest.mark.parametrize(("gold", "answer"), UNEQUAL)
def test_unequal(gold: str, answer: str) -> None:
    assert not compare(gold, answer).equal
