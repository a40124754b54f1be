"""What a worker of the user's starts is ended with it, wherever it went, and with the command."""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from verifiers.workers import cage
from verifiers.workers.pool import Pool, WorkerLostError

ROOT = Path(__file__).resolve().parents[3]
SLACK_S = 10.0
HOSTILE = '''
import os, signal, subprocess, sys, time

def answering(name):
    return lambda question: {"reply": globals()[name](question.get("count", 5)) or "done"}

def sleeper(before=lambda: None):
    pid = os.fork()
    if pid == 0:
        before()
        time.sleep(60)
        os._exit(0)
    return pid

def forks(count):
    for _ in range(count):
        sleeper()

def forks_twice(count):
    for _ in range(count):
        if os.fork() == 0:
            sleeper(os.setsid)
            os._exit(0)
        os.wait()

def ignores_signals(count):
    def ignore():
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
    for _ in range(count):
        sleeper(ignore)

def allocates(count):
    """Each of these takes what it gets, and stays."""
    for _ in range(count):
        if os.fork() == 0:
            parts = []
            try:
                while True:
                    parts.append(bytearray(16 << 20))
            except MemoryError:
                time.sleep(60)
                os._exit(0)

def closes_its_pipes(count):
    forks(count)
    os.closerange(0, 64)
    time.sleep(60)

def writes_to_the_pipe(count):
    forks(count)
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"[garbage\\n")
        except OSError:
            pass
    time.sleep(60)

def stops_itself(count):
    forks(count)
    os.kill(os.getpid(), signal.SIGSTOP)

def kills_its_parent(count):
    forks(count)
    os.kill(os.getppid(), signal.SIGKILL)

def ends_badly(count):
    forks_twice(count)
    os._exit(3)
'''
NAMES = ["forks", "forks_twice", "ignores_signals", "allocates", "closes_its_pipes"]
NAMES += ["writes_to_the_pipe", "stops_itself", "ends_badly"]
IN_NAMESPACE, BY_KEEPER = 64, None
"""A number of processes, which takes a namespace where there may be one; none, which takes none."""


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A text in the environment by which the processes of a test are known, and a module of
    hostile functions."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(tmp_path)
    text = uuid.uuid4().hex
    monkeypatch.setenv("MARK", text)
    return text


def marked(mark: str) -> list[int]:
    """The living processes that carry the mark, in all namespaces."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = f"MARK={mark}".encode() in (place / "environ").read_bytes()
            is_dead = " Z " in (place / "stat").read_text()
        except OSError:
            continue
        if is_marked and not is_dead:
            found.append(int(place.name))
    return found


def assert_ended(mark: str) -> None:
    deadline = time.monotonic() + SLACK_S
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(mark) == []


def pool_of(name: str, processes: int | None, timeout: float = 5.0) -> Pool:
    return Pool(
        workers=1,
        timeout=timeout,
        memory_mb=256,
        judge=json.dumps(["hostile", name]),
        processes=processes,
    )


def ask_again(pool: Pool, count: int) -> None:
    for _ in range(50):
        pool.put({"count": count})
        time.sleep(0.05)


@pytest.mark.parametrize("processes", [IN_NAMESPACE, BY_KEEPER], ids=["namespace", "keeper"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_outlives_its_worker(name, processes, mark):
    pool = pool_of(name, processes, timeout=0.6)
    try:
        reply = pool.put({})["reply"]
        assert len(marked(mark)) >= 5
    except WorkerLostError as error:
        reply = str(error)
    finally:
        pool.close()
    lost = {"closes_its_pipes": "time limit", "writes_to_the_pipe": "worker died"}
    lost |= {"stops_itself": "time limit", "ends_badly": "worker died"}
    assert reply == lost.get(name, "done")
    assert_ended(mark)


def test_too_many_processes_are_ended_and_said(mark):
    pool = pool_of("forks", 8)
    try:
        with pytest.raises(WorkerLostError, match=r"^more than 8 processes$"):
            ask_again(pool, 10)  # the keeper looks ten times a second
        assert_ended(mark)
        assert pool.put({"count": 2})["reply"] == "done"
    finally:
        pool.close()
    assert_ended(mark)


def test_a_keeper_that_is_killed_is_noticed(mark):
    """In a namespace it cannot be: its first process takes no signal from within."""
    pool = pool_of("kills_its_parent", BY_KEEPER)
    try:
        with pytest.raises(WorkerLostError, match=r"^worker died"):
            ask_again(pool, 1)  # it is killed while the function goes on
    finally:
        pool.close()
    for pid in marked(mark):  # which no keeper ends any more
        os.kill(pid, 9)
    if cage._may_be_apart():
        pool = pool_of("kills_its_parent", IN_NAMESPACE)
        try:
            assert pool.put({})["reply"] == "done"
        finally:
            pool.close()
        assert_ended(mark)


@pytest.mark.parametrize("processes", [IN_NAMESPACE, BY_KEEPER], ids=["namespace", "keeper"])
def test_nothing_outlives_a_command_that_was_killed(processes, mark, tmp_path):
    script = (
        "import time\n"
        "from verifiers.workers.pool import Pool\n"
        f"judge = {json.dumps(json.dumps(['hostile', 'forks_twice']))}\n"
        f"pool = Pool(workers=2, timeout=20, memory_mb=256, judge=judge, processes={processes})\n"
        "pool.put({'count': 20})\n"
        "pool.put({'count': 20})\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    assert len(marked(mark)) >= 40
    command.kill()
    command.wait()
    command.stdout.close()
    assert_ended(mark)


def test_what_a_process_started_ends_with_its_regular_end(mark, tmp_path):
    script = (
        "import hostile\n"
        "from verifiers.workers.cage import end_with_this\n"
        "end_with_this()\n"
        "hostile.forks_twice(5)\n"
        "hostile.ignores_signals(5)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    result = subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, check=True)
    assert result.returncode == 0
    assert marked(mark) == []


def test_descendants_are_listed_parents_first():
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE)
    assert shell.stdout is not None
    shell.stdout.readline()
    below = cage.descendants()
    (sleeper,) = map(int, Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split())
    assert below.index(shell.pid) < below.index(sleeper)
    os.kill(sleeper, 9)
    shell.wait()
    shell.stdout.close()
    assert not {shell.pid, sleeper} & set(cage.descendants())
