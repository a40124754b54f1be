"""Limits: bound what untrusted files may compute, and count the cores that this process may use."""

import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

_AGAIN_S = 1.0
"""Seconds from one alarm to the next, should a callback have swallowed the first."""
_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1e6


@contextmanager
def bounded(seconds: float, memory: int) -> Iterator[None]:
    """Raise TimeoutError after `seconds`, and MemoryError if the block takes more than `memory`
    bytes beyond what the process has.

    Time is bounded on the main thread only, memory where /proc tells what is in use.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it takes too long")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    is_timed = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGALRM, stop) if is_timed else None
    try:
        with suppress(OSError, ValueError):
            pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]
            most = int(pages) * resource.getpagesize() + memory
            lower = min([most, *(limit for limit in limits if limit >= 0)])
            resource.setrlimit(resource.RLIMIT_AS, (lower, limits[1]))
        if is_timed:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        yield
    finally:
        if is_timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def thread_limit() -> int:
    """Return the most threads worth starting: the usable cores, or fewer by OMP_NUM_THREADS."""
    wanted = re.match(r"\s*0*([1-9]\d*)", os.environ.get("OMP_NUM_THREADS", ""))
    return min(usable_cores(), int(wanted[1])) if wanted else usable_cores()


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
    """Return the tightest CPU quota in cores, a million if there is none.

    `membership` is the text of /proc/self/cgroup, `root` where the groups are mounted; version 2
    names a quota in `cpu.max`, version 1 in two files. A group's limit holds for those below it.
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
