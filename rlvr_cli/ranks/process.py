"""This process among several: its rank, and how many there are on this machine."""

import os
from collections.abc import Callable

report_claims: list[Callable[[], bool]] = []
"""Holds a function once the processes have met: whether this is the first to report an error."""


def rank() -> int:
    """Return the number of this process. Number 0 writes files and messages."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return 0
    return int(os.environ.get("RANK", "0"))


def local_world() -> int:
    """Return how many of the processes are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
