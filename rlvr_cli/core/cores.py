"""Find how many processor cores this process may use."""

import os
import re
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1e6


def usable_cores() -> int:
    """Count the cores that affinity and control groups leave to this process, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        membership = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return cores
    return max(1, min(cores, int(cgroup_cores(membership, _GROUPS))))


def thread_limit() -> int:
    """Return the most threads worth starting: the usable cores, or fewer by OMP_NUM_THREADS."""
    asked = re.match(r"\s*0*([1-9]\d*)", os.environ.get("OMP_NUM_THREADS", ""))
    return min(usable_cores(), int(asked[1])) if asked else usable_cores()


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
        base = root / controllers
        group = base / path.lstrip("/")
        while group != base.parent:
            with suppress(OSError, ValueError, ZeroDivisionError):  # no file, or `max`: no limit
                said = " ".join((group / name).read_text(encoding="utf-8") for name in names)
                quota, period = map(int, said.split())
                quotas.append(quota / period if quota > 0 else _NO_LIMIT)
            group = group.parent
    return min(quotas)
