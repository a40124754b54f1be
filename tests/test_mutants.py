"""The faults that `make mutants` plants, and the tests that it runs for them."""

import ast

import mutants
import pytest

SOURCE = b"""\
LIMIT = 3  # no function's


def f(a, b=True):
    \"\"\"\xc3\xa9 < 4.\"\"\"
    if not a.x <= 2 and b:
        g(a, key=b)
    return min(a - 1, b)
"""


def test_every_kind_of_fault_is_planted_once_and_only_inside_functions():
    unbroken = SOURCE.decode().splitlines()
    actual = set()
    for start, end, new in mutants.edits(SOURCE):
        changed = (SOURCE[:start] + new + SOURCE[end:]).decode().splitlines()
        assert changed[:3] == unbroken[:3]
        assert changed[4] == unbroken[4]
        actual |= {line.strip() for line in changed} - {line.strip() for line in unbroken}
    assert actual == {
        "def f(a, b=False):",
        "if a.x <= 2 and b:",
        "if not a.x < 2 and b:",
        "if not a.x <= 4 and b:",
        "if not a.x <= 2 or b:",
        "if (True):",
        "if (False):",
        "pass",
        "g(a, )",
        "return max(a - 1, b)",
        "return min(a + 1, b)",
        "return min(a - 2, b)",
    }


@pytest.mark.parametrize("module", mutants.ALSO)
def test_every_core_module_has_faults_and_tests(module):
    assert len(list(mutants.edits((mutants.ROOT / module).read_bytes()))) > 5
    tests = mutants.tests_of(module)
    assert tests
    assert all((mutants.ROOT / test).exists() for test in tests)


def test_every_fault_is_python_that_differs():
    for fault in mutants.mutants("rlvr_cli/algorithm/loss.py"):
        ast.parse(fault.source)
        assert fault.before != fault.after


def test_what_is_called_equivalent_is_still_there():
    for module, before, _ in mutants.EQUIVALENT:
        lines = [line.strip() for line in (mutants.ROOT / module).read_text().splitlines()]
        assert before in lines
