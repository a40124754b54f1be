"""Bound time and memory of what untrusted files make this process compute."""

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

_AGAIN_S = 1.0
"""Seconds from one alarm to the next, should a callback have swallowed the first."""


@contextmanager
def bounded(seconds: float, memory: int) -> Iterator[None]:
    """Raise TimeoutError after `seconds`, and MemoryError if the block takes more than `memory`
    bytes beyond what the process has.

    Time is bounded on the main thread only, memory where /proc tells what is in use.
    """
    limits = resource.getrlimit(resource.RLIMIT_AS)
    timed = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, _late) if timed else None
    try:
        with suppress(OSError, ValueError):
            pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]
            most = int(pages) * resource.getpagesize() + memory
            lower = min([most, *(limit for limit in limits if limit >= 0)])
            resource.setrlimit(resource.RLIMIT_AS, (lower, limits[1]))
        if timed:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("it takes too long")
