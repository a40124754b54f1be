"""Ask worker processes, which are killed at their limit, so that every call returns in time."""

import contextlib
import json
import os
import queue
import re
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from verifiers.judges import JUDGES, OURS
from verifiers.types import Judgement
from verifiers.workers.cage import END_LIMIT_S

START_LIMIT_S = 60.0  # the imports take about 1 s, and far longer on a busy machine or a slow disk
LATE = "time limit"
LOOK_S = 1.0  # between two looks whether the process of a reply that does not come is there
READ_CHUNK = 65536  # bytes; a pipe of Linux holds as many
GYM = '["verifiers.gym"]'
"""The judge that makes and scores the problems of reasoning-gym (`verifiers/gym.py`)."""
PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
ENVIRONMENT = re.compile("PATH|LANG|LC_.*|TMPDIR|PYTHONHASHSEED|PYTHONHOME|LD_LIBRARY_PATH")
"""Variables of the environment that a judge gets. Others may hold secrets."""


class WorkerLostError(Exception):
    """Says that a worker died, was killed at its limit, or could not be started."""


class _Worker:
    """Holds one child process, which one thread uses at a time."""

    def __init__(self, judge: str, memory_mb: int, processes: int | None) -> None:
        # A set has one order in all workers, so that a generator repeats its problems.
        environment = {"PYTHONHASHSEED": "0", **os.environ}
        is_gym = judge == GYM
        if is_gym:
            environment["PYTHONHASHSEED"] = "0"
        # Any other judge is the user's own functions, which are trusted.
        if judge in JUDGES or is_gym:
            environment = {k: v for k, v in environment.items() if ENVIRONMENT.fullmatch(k)}
        words = [str(os.getpid()), str(memory_mb), judge]
        self._has_keeper = judge not in JUDGES and not is_gym
        if self._has_keeper:
            words.append(json.dumps(processes))
        paths = [PACKAGE_ROOT, *(path for path in sys.path if path)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "verifiers.workers.child", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=PACKAGE_ROOT,
            env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._unread = b""

    def await_ready(self) -> None:
        """Wait for the imports, so that they do not count against the limit of a question."""
        self._read_line(START_LIMIT_S, "worker did not start")

    def put(self, question: dict[str, Any], limit: float) -> dict[str, Any]:
        """Return the reply to a question. Raises WorkerLostError after `limit` seconds without."""
        text = json.dumps({**question, "limit": limit}, default=str)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: what it said of that is read below
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        line = self._read_line(limit, LATE)
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):  # the user's function wrote to the pipe
            raise WorkerLostError("worker died")
        if "lost" in reply:
            raise WorkerLostError(reply["lost"])
        return reply

    def _read_line(self, limit: float, complaint: str) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN | select.POLLHUP)
        deadline = time.monotonic() + limit
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WorkerLostError(complaint)
            if not poller.poll(min(left, LOOK_S) * 1000):
                if self._process.poll() is not None:  # but what it started has the pipe
                    raise WorkerLostError("worker died, and its keeper")
                continue
            chunk = os.read(descriptor, READ_CHUNK)
            if not chunk:
                raise WorkerLostError("worker died")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def kill(self) -> None:
        """End the process, with all that it started. A thread that waits for its reply sees the
        pipe close."""
        if self._has_keeper:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
        self._process.kill()
        self._process.wait()

    def dispose(self) -> None:
        """End the process and close its pipes. Only the thread that uses the worker may call it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Pool:
    """Holds a fixed number of workers, started when first needed and replaced when lost.

    One thread, which lives as long as the pool, starts all of them, because Linux ties a child's
    life to the thread that started it. A worker that runs functions of the user's has at most so
    many `processes` with those that they start (`cage.enter`).
    """

    def __init__(
        self,
        *,
        workers: int,
        timeout: float,
        memory_mb: int,
        judge: str = OURS,
        processes: int | None = None,
    ) -> None:
        self._size = workers
        self._timeout = timeout
        self._memory_mb = memory_mb
        self._processes = processes
        self._judge = judge
        self._lock = threading.Lock()
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(self._size):
            self._idle.put(None)
        self._alive: set[_Worker] = set()
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="verifiers-start")

    def ask(self, gold: str, answer: str) -> Judgement:
        """Compare in a worker. `equal` is None if time or memory ran out, or the worker died.

        Raises RuntimeError if the pool is closed.
        """
        try:
            return Judgement(**self.put({"gold": gold, "answer": answer}))
        except WorkerLostError as error:
            return Judgement(None, str(error))

    def put(self, question: dict[str, Any], times: int = 1) -> dict[str, Any]:
        """Return a worker's reply to a question that may take `times` the limit of time.

        Raises WorkerLostError if time or memory ran out or the worker died, RuntimeError if the
        pool is closed.
        """
        with self._lock:
            if self._owner != os.getpid():
                self._reset()
        worker = self._idle.get()
        try:
            if self._closed:
                raise RuntimeError("this verifier is closed")
            worker = worker or self._start()
            return worker.put(question, self._timeout * times)
        except WorkerLostError:
            if worker is not None:
                self._discard(worker)
                worker = None
            raise
        finally:
            self._idle.put(worker)

    def _start(self) -> _Worker:
        try:
            worker = self._starter.submit(
                _Worker, self._judge, self._memory_mb, self._processes
            ).result()
        except (OSError, RuntimeError) as error:
            raise WorkerLostError("worker could not be started") from error
        with self._lock:
            self._alive.add(worker)
        try:
            if self._closed:
                raise WorkerLostError("verifier closed")
            worker.await_ready()
        except WorkerLostError:
            self._discard(worker)
            raise
        return worker

    def _discard(self, worker: _Worker) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.dispose()

    def close(self) -> None:
        """Kill every worker. A second call does nothing."""
        with self._lock:
            was_closed = self._closed
            alive = self._alive
            self._closed = True
            self._alive = set()
        if was_closed or self._owner != os.getpid():  # after a fork the workers are the parent's
            return
        for worker in alive:
            worker.kill()
        self._starter.shutdown(wait=True)
