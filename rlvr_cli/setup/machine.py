"""Measure this machine: its memory, and its GPU."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rlvr_cli.model.card import Card, present_card
from rlvr_cli.model.loading import default_device
from rlvr_cli.ranks.group import gather
from rlvr_cli.ranks.process import local_world

_CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """The memory of one process before anything is loaded: a GPU's, or its part of the host's."""

    device: str
    """cuda or cpu."""
    total: int
    free: int
    host: int | None = None
    """Beside a GPU, the process's part of the free memory of the host. None if it is not known."""


def this_machine() -> Machine:
    """Measure the memory in bytes. With several processes, return the least that one has."""
    device = default_device()
    host = host_memory() // local_world()
    free = host
    total = host
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
    totals, frees, hosts = zip(*gather([total, free, host]), strict=True)
    least = Machine(device, total=min(totals), free=min(frees))
    return replace(least, host=min(hosts)) if device == "cuda" else least


def oldest_card() -> Card:
    """Return this process's GPU. With several processes, return the oldest that one has."""
    card = present_card()
    gathered = gather([card.name, *card.capability])
    cards = [Card(name, (major, minor)) for name, major, minor in gathered]
    return min(cards, key=lambda candidate: candidate.capability)


def host_memory() -> int:
    """Return the bytes still available of this computer's or container's memory."""
    limits = list[int]()
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable"))
        limits.append(int(line.split()[1]) << 10)
    with suppress(OSError, ValueError):  # Without a limit, the file says "max".
        limit = int((_CONTAINER / "memory.max").read_text(encoding="utf-8"))
        limits.append(limit - int((_CONTAINER / "memory.current").read_text(encoding="utf-8")))
    return min(limits, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
