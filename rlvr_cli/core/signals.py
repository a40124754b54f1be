"""Handle Ctrl-C and SIGTERM: the first as soon as no work can be spoiled, the second at once."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.02
"""Seconds until a signal that arrived during an import is looked at again."""
_STOPPING = b"\nstopping as soon as this step is saved; once more to leave at once\n"
NO_SIGNALS = "signals do not work in it: the call came from outside the main thread"
"""What a function of this process is told to expect in another thread."""
_in_force: list["Interrupts"] = []
"""The handlers that are entered, the innermost one last."""


class Interrupts:
    """Turn signals into KeyboardInterrupt at a place where no work is spoiled.

    The first signal raises it at once inside `interruptible`, and otherwise at the next
    `interruptible`. A second signal raises it anywhere. A signal that arrives during an import
    raises it at the import's end: torch's C++ code ends the process over an exception while its
    module is imported.

    Python drops an exception inside a destructor or a callback of the import system, with a
    traceback, which is not shown. So the signals are counted as well, and `raise_if_interrupted`
    and the end of `interruptible` look at the count. Several processes have to stop at the same
    place: if not `alone`, the first signal raises only within `at_once`, and `is_interrupted` tells
    that it came.

    Outside the main thread, where Python allows no handlers, it changes nothing.
    """

    def __init__(self, alone: bool = True) -> None:
        self._signals = 0
        self._alone = alone
        self._interruptible = False

    def __enter__(self) -> "Interrupts":
        self._is_in_force = in_main_thread()
        if not self._is_in_force:
            return self
        self._before = {name: signal.signal(name, self._handle) for name in _SIGNALS}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _look_again)
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._show_others
        _in_force.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if not self._is_in_force:
            return
        _in_force.remove(self)
        if _in_force and kind is not None and issubclass(kind, Exception):
            _in_force[-1]._signals += self._signals  # not handled: an error came first
        sys.unraisablehook = self._hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for name, handler in self._before.items():
            signal.signal(name, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Enter a block that may be left anywhere. After a signal it ends with KeyboardInterrupt,
        even if an earlier one was dropped or turned into another error."""
        self._interruptible = self._alone
        try:
            raise_if_interrupted()
            yield
            raise_if_interrupted()
        except Exception:
            raise_if_interrupted()
            raise
        finally:
            self._interruptible = False

    def _show_others(self, fault: "sys.UnraisableHookArgs") -> None:
        if fault.exc_type is not KeyboardInterrupt:
            self._hook(fault)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            raise KeyboardInterrupt
        if self._interruptible:
            _look_again(number, frame)
        else:
            os.write(2, _STOPPING)


def in_main_thread() -> bool:
    """Return whether this is the main thread, in which alone Python handles signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def at_once() -> Iterator[None]:
    """Enter a block that a signal leaves with KeyboardInterrupt anywhere."""
    if not _in_force:
        yield
        return
    innermost = _in_force[-1]
    before = innermost._interruptible
    innermost._interruptible = True
    try:
        raise_if_interrupted()
        yield
    finally:
        innermost._interruptible = before


def is_interrupted() -> bool:
    """Return whether a signal came."""
    return any(handler._signals for handler in _in_force)


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if a signal came and may be handled now."""
    if _in_force and _in_force[-1]._interruptible and is_interrupted():
        raise KeyboardInterrupt


def _look_again(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt now, or look again a little later if a module is being imported."""
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    if frame:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        raise_if_interrupted()
