"""This process among several: its rank, and how many there are on this machine."""

from collections.abc import Callable

from rlvr_cli.core.environment import whole_number
from rlvr_cli.core.errors import UserError

report_claims: list[Callable[[], bool]] = []
"""Holds a function once the processes have met: whether this is the first to report an error."""


def rank() -> int:
    """Return the number of this process. Number 0 writes files and messages.

    Raises UserError if the environment holds no such number.
    """
    size = world_size()
    number = whole_number("RANK", 0) if size > 1 else 0
    if number >= size:
        raise UserError(f"RANK={number}: not below WORLD_SIZE={size}; correct or unset both")
    return number


def world_size() -> int:
    """Return how many processes there are, as the environment says."""
    return whole_number("WORLD_SIZE", 1, least=1)


def local_world() -> int:
    """Return how many of the processes are on this machine."""
    return whole_number("LOCAL_WORLD_SIZE", world_size(), least=1)
