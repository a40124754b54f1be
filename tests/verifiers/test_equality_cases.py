"""Every rule of equality both ways, on invented answers."""

import pytest
from verifier_case_files import equality_cases

from verifiers.equality.compare import compare

CASES = equality_cases()


@pytest.mark.parametrize(("rule", "gold", "answer", "equal"), CASES)
def test_equality(rule: str, gold: str, answer: str, equal: bool) -> None:
    judgement = compare(gold, answer)
    assert judgement.equal is equal, judgement.reason


def test_every_rule_is_tested_both_ways() -> None:
    ways = {(rule, equal) for rule, _, _, equal in CASES}
    assert {rule for rule, _ in ways} == {rule for rule, equal in ways if (rule, not equal) in ways}
