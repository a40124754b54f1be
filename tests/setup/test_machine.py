"""What the machine says is free."""

import pytest
import torch

from rlvr_cli.setup import machine
from rlvr_cli.setup.machine import Machine, host_memory, this_machine

FILES = {
    "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   5 kB\n",
    "/sys/fs/cgroup/memory.max": "9000\n",
    "/sys/fs/cgroup/memory.current": "8000\n",
}


def put_files(monkeypatch, files: dict[str, str | None]) -> None:
    """Let the machine have these files and no others."""

    class Files(type(machine.Path())):
        def read_text(self, encoding=None):
            text = files.get(str(self))
            if text is None:
                raise FileNotFoundError(self)
            return text

    monkeypatch.setattr(machine, "Path", Files)
    monkeypatch.setattr(machine, "_CONTAINER", Files("/sys/fs/cgroup"))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 1000),
        ({"/sys/fs/cgroup/memory.max": "max\n"}, 5120),
        ({"/sys/fs/cgroup/memory.max": None}, 5120),
        ({"/sys/fs/cgroup/memory.current": "100"}, 5120),
        ({"/proc/meminfo": "MemTotal: 9 kB\n"}, 1000),
    ],
)
def test_the_tighter_of_machine_and_container_counts(monkeypatch, changed, expected):
    put_files(monkeypatch, FILES | changed)
    assert host_memory() == expected


def test_without_any_word_of_the_system_all_of_its_memory_counts(monkeypatch):
    put_files(monkeypatch, {})
    monkeypatch.setattr(machine.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.get)
    assert host_memory() == 40_960


def test_of_several_processes_the_least_memory_counts(monkeypatch):
    monkeypatch.setattr(machine, "default_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (700, 1000))
    monkeypatch.setattr(machine, "host_memory", lambda: 60)
    assert this_machine() == Machine("cuda", total=1000, free=700, host=60)
    monkeypatch.setattr(machine, "gather", lambda sizes: [sizes, [2000, 500, 50], [900, 800, 70]])
    assert this_machine() == Machine("cuda", total=900, free=500, host=50)
    monkeypatch.undo()
    monkeypatch.setattr(machine, "host_memory", lambda: 800)
    monkeypatch.setattr(machine, "local_world", lambda: 4)
    assert this_machine() == Machine("cpu", total=200, free=200)
