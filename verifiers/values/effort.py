"""Limit the processor time of work that is done in the caller's own process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()


class OutOfEffortError(Exception):
    """Says that the budget is spent, so that a worker process should do the work instead."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Give this thread a budget of processor time, after which `check` raises."""
    _local.deadline = time.thread_time() + seconds
    try:
        yield
    finally:
        _local.deadline = None


def check() -> None:
    """Raise OutOfEffortError if this thread's budget is spent."""
    deadline = getattr(_local, "deadline", None)
    if deadline is not None and time.thread_time() > deadline:
        raise OutOfEffortError
