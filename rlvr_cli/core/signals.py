"""Ctrl-C and SIGTERM: the first is heeded as soon as nothing can be spoiled, the second at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WAITING = b"\nstopping as soon as this step is saved; once more to leave at once\n"
_in_force: list["Interrupts"] = []


class Interrupts:
    """While in force, a signal raises KeyboardInterrupt: at once inside `welcome`, elsewhere at
    the next `welcome`; a second signal raises it wherever it comes.

    Python drops what is raised inside a destructor or a callback of the import system. So the
    signal is also kept as a flag, which `heed` and the end of `welcome` look at.
    """

    def __init__(self) -> None:
        self._asked = 0
        self._welcome = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._before = {name: signal.signal(name, self._handle) for name in _SIGNALS}
        _in_force.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _in_force.remove(self)
        for name, handler in self._before.items():
            signal.signal(name, handler)

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """A block that can be left anywhere. Once asked, it ends with KeyboardInterrupt, even
        where the first one was dropped or came out as another error."""
        self._welcome = True
        try:
            heed()
            yield
            heed()
        except Exception:
            heed()
            raise
        finally:
            self._welcome = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        if self._welcome or self._asked > 1:
            raise KeyboardInterrupt
        os.write(2, _WAITING)


def heed() -> None:
    """Raise KeyboardInterrupt if one was asked for and may come now."""
    if _in_force and _in_force[-1]._welcome and any(each._asked for each in _in_force):
        raise KeyboardInterrupt
