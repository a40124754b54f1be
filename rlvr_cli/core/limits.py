"""Bound what untrusted files may compute, and count the cores that this process may use."""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from rlvr_cli.core.environment import thread_count

_AGAIN_S = 1.0
"""Seconds from one alarm to the next, in case a callback swallowed the first."""
_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1e6


@contextmanager
def bounded(seconds: float, memory: int) -> Iterator[None]:
    """Raise TimeoutError after `seconds`, and MemoryError if the block takes more than `memory`
    bytes beyond what the process has.

    Time is bounded on the main thread only, and memory only if /proc tells what is in use.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it takes too long")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    is_timed = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGALRM, stop) if is_timed else None
    try:
        limit_memory(memory)
        if is_timed:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        yield
    finally:
        if is_timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def limit_memory(memory: int) -> None:
    """Let this process take `memory` bytes beyond what it has, if /proc tells what is in use."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]
        largest = int(pages) * resource.getpagesize() + memory
        soft_limit = min([largest, *(limit for limit in limits if limit >= 0)])
        resource.setrlimit(resource.RLIMIT_AS, (soft_limit, limits[1]))


def thread_limit() -> int:
    """Return the largest number of threads that is of use: the usable cores, or OMP_NUM_THREADS if
    that is less. Raises UserError if that is no number."""
    return min(usable_cores(), thread_count() or usable_cores())


def usable_cores() -> int:
    """Count the cores that affinity and control groups leave to this process, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        membership = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return cores
    return max(1, min(cores, int(cgroup_cores(membership, _GROUPS))))


def cgroup_cores(membership: str, root: Path) -> float:
    """Return the smallest CPU quota in cores, or a million without a quota.

    `membership` is the text of /proc/self/cgroup, and the groups are mounted at `root`. Version 2
    has a quota in `cpu.max`, version 1 in two files. A group's limit also holds for its children.
    """
    quotas = [_NO_LIMIT]
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
        group = root / controllers / path.lstrip("/")
        while group != (root / controllers).parent:
            with suppress(OSError, ValueError, ZeroDivisionError):  # no file, or `max`: no limit
                text = " ".join((group / name).read_text(encoding="utf-8") for name in names)
                quota, period = map(int, text.split())
                quotas.append(quota / period if quota > 0 else _NO_LIMIT)
            group = group.parent
    return min(quotas)
