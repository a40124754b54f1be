"""The first signal waits for a moment at which nothing can be spoiled, the second does not."""

import os
import signal

import pytest

from rlvr_cli.core.signals import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_it_is_welcome_it_comes_at_once(number):
    before = signal.getsignal(number)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.welcome():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_elsewhere_it_waits_for_the_next_welcome(capfd):
    reached = []
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("end of the write")
        with pytest.raises(KeyboardInterrupt), interrupts.welcome():
            reached.append("never")
    assert reached == ["end of the write"]
    assert "stopping as soon as this step is saved" in capfd.readouterr().err


def test_the_second_comes_at_once_anywhere():
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
