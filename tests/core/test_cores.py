"""Cores that count: affinity, control groups of both versions, OMP_NUM_THREADS."""

import os

import pytest

from rlvr_cli.core import cores
from rlvr_cli.core.cores import cgroup_cores, thread_limit, usable_cores


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
    [("1", 1), ("3", 3), (" 2,4", 2), ("64", 8), ("0", 8), ("many", 8), ("", 8)],
)
def test_omp_num_threads_is_a_limit(monkeypatch, asked, expected):
    monkeypatch.setattr(cores, "usable_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert thread_limit() == expected
