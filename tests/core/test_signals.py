"""The first signal waits for a moment at which nothing can be spoiled, the second does not."""

import importlib
import os
import signal
import sys
import time

import pytest

from rlvr_cli.core.signals import Interrupts, raise_if_interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_it_is_welcome_it_comes_at_once(number):
    before = signal.getsignal(number)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_elsewhere_it_waits_for_the_next_welcome(capfd):
    reached = []
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("end of the write")
        with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
            reached.append("never")
    assert reached == ["end of the write"]
    assert "stopping as soon as this step is saved" in capfd.readouterr().err


def test_after_a_welcome_it_waits_again():
    with Interrupts() as interrupts:
        with interrupts.interruptible():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        raise_if_interrupted()


def test_the_second_comes_at_once_anywhere():
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def interrupting_module(directory, monkeypatch, signals):
    """Write a module that interrupts its own import."""
    (directory / "interrupting.py").write_text(
        "import os, signal\n" + "os.kill(os.getpid(), signal.SIGINT)\n" * signals + "whole = 1\n"
    )
    monkeypatch.syspath_prepend(directory)
    monkeypatch.delitem(sys.modules, "interrupting", raising=False)


def imported_and_waited_for():
    assert importlib.import_module("interrupting").whole
    time.sleep(20)
    pytest.fail("it was lost")


def test_in_an_import_it_waits_for_its_end(tmp_path, monkeypatch):
    interrupting_module(tmp_path, monkeypatch, 1)
    before = signal.getsignal(signal.SIGALRM)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        imported_and_waited_for()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_second_does_not_wait_for_an_import(tmp_path, monkeypatch):
    interrupting_module(tmp_path, monkeypatch, 2)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        importlib.import_module("interrupting")
    assert "interrupting" not in sys.modules


class Dropping:
    """Its destructor is interrupted; what is raised in a destructor is dropped by Python."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def dropped():
    Dropping()


def dropped_and_heeded():
    Dropping()
    raise_if_interrupted()
    pytest.fail("it was lost")


def turned_into_another():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        raise ImportError("half a module") from None


def command_inside_a_run():
    with Interrupts() as run:
        Dropping.__del__(run)
        raise_if_interrupted()  # not while a step is being saved
        with run.interruptible():
            pytest.fail("it was lost")


@pytest.mark.parametrize(
    "block", [dropped, dropped_and_heeded, turned_into_another, command_inside_a_run]
)
def test_one_that_was_lost_on_its_way_comes_later(block):
    with Interrupts() as command, pytest.raises(KeyboardInterrupt), command.interruptible():
        block()


def test_no_interruption_no_harm():
    raise_if_interrupted()
    with Interrupts() as interrupts, interrupts.interruptible():
        raise_if_interrupted()


class Raises:
    """An object whose destructor raises an error."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.mark.parametrize(("error", "shown"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_only_an_interrupt_that_a_destructor_drops_is_not_shown(error, shown, capfd, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with Interrupts():
        Raises(error)
    assert ("Traceback" in capfd.readouterr().err) is shown
    assert sys.unraisablehook is sys.__unraisablehook__
