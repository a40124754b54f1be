"""Every rule of equality both ways, on invented answers."""

import pytest
from verifier_case_files import equality_cases

from verifiers.equality.compare import compare

CASES = equality_cases()


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, *_ in CASES))
def test_equality(rule: str) -> None:
    wrong = []
    for gold, answer, equal in (case for name, *case in CASES if name == rule):
        judgement = compare(gold, answer)
        if judgement.equal is not equal:
            wrong.append((gold, answer, judgement.reason))
    assert not wrong


def test_every_rule_is_tested_both_ways() -> None:
    ways = {(rule, equal) for rule, _, _, equal in CASES}
    assert {rule for rule, _ in ways} == {rule for rule, equal in ways if (rule, not equal) in ways}
