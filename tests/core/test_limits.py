"""Bounds of time and memory leave nothing behind. Cores that count: affinity, control groups of
both versions, OMP_NUM_THREADS."""

import os
import resource
import signal
import threading

import pytest

from rlvr_cli.core import limits
from rlvr_cli.core.limits import bounded, cgroup_cores, thread_limit, usable_cores


def state():
    return (
        resource.getrlimit(resource.RLIMIT_AS),
        signal.getsignal(signal.SIGALRM),
        signal.getitimer(signal.ITIMER_REAL),
    )


def test_time_ends_a_loop_and_a_long_product():
    before = state()
    for endless in (lambda: [None for _ in iter(int, 1)], lambda: 7 ** (10**9)):
        with pytest.raises(TimeoutError), bounded(0.05, 1 << 30):
            endless()
    assert state() == before


def test_memory_beside_what_is_there():
    before = state()
    with pytest.raises(MemoryError), bounded(10, 64 << 20):
        bytearray(4 << 30)  # more than a process may have freed and keeps
    with bounded(10, 64 << 20):
        bytearray(8 << 20)
    assert state() == before


def test_a_tighter_limit_stays():
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 40, limits[1]))
        with bounded(10, 1 << 50):
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == 1 << 40
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_another_thread_is_bounded_in_memory_alone():
    actual = []

    def run():
        try:
            with bounded(0.01, 64 << 20):
                bytearray(4 << 30)  # more than a process may have freed and keeps
        except MemoryError as error:
            actual.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(actual) == 1


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/", {"cpu.max": "max 100000\n"}, 1e6),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/elsewhere", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/../..", {"cpu.max": "50000 100000"}, 0.5),
        (
            "4:cpu,cpuacct:/x\n3:memory:/x",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1e6),
        ("1:cpu:/", {"cpu/cpu.max": "nonsense"}, 1e6),
        ("1:name=systemd:/", {"cpu.max": "50000 100000"}, 1e6),
        ("", {}, 1e6),
    ],
)
def test_the_tightest_quota_counts(tmp_path, membership, files, expected):
    assert cgroup_cores(membership, write(tmp_path, files)) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_counts():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert 1 <= usable_cores() <= len(before)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("1", 1), ("3", 3), (" 2,4", 2), ("64", 8), ("", 8)],
)
def test_omp_num_threads_is_a_limit(monkeypatch, asked, expected):
    monkeypatch.setattr(limits, "usable_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert thread_limit() == expected
