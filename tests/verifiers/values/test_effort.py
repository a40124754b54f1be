"""A budget of processor time ends work in its own thread only."""

import threading

import pytest

from verifiers.values.effort import OutOfEffortError, check, limited


def test_a_spent_budget_raises_and_is_gone_afterwards() -> None:
    check()
    with limited(100.0):
        check()
    with pytest.raises(OutOfEffortError), limited(-1.0):
        check()
    check()


def test_a_budget_belongs_to_its_thread() -> None:
    fine = []

    def elsewhere() -> None:
        check()
        fine.append(True)

    with limited(-1.0):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert fine == [True]
