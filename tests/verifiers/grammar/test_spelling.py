"""What is rewritten before there are tokens."""

import pytest
from verifier_case_files import table

from verifiers.grammar.spelling import plain_signs


@pytest.mark.parametrize("row", table("spelling"))
def test_plain_signs(row: dict) -> None:
    assert plain_signs(row["text"]) == row["plain"]
