"""Processes side by side, forked from that of the tests, so that none has to import torch."""

import gc
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rlvr_cli.ranks.group import join_group

_LIMIT_S = 900.0
_left_behind: list[Any] = []
"""Groups of the process that forked: the end of one waits for its threads, which no fork has."""


def side_by_side(count: int, work: Callable[[], object], place: Path) -> None:
    """Run `work` in so many processes that have met; their output goes to files in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    children = [
        _forked(environment, work, place / f"log-{rank}")
        for rank, environment in enumerate(environments(count))
    ]
    deadline = time.monotonic() + _LIMIT_S
    statuses = {}
    while len(statuses) < count:
        for child in children:
            ended_pid, status = os.waitpid(child, os.WNOHANG) if child not in statuses else (0, 0)
            if ended_pid:
                statuses[child] = status
        if time.monotonic() > deadline or any(statuses.values()):
            for child in set(children) - statuses.keys():
                os.kill(child, 9)
                statuses[child] = os.waitpid(child, 0)[1]
        time.sleep(0.01)
    logs = "\n".join((place / f"log-{rank}").read_text() for rank in range(count))
    ended = [os.waitstatus_to_exitcode(statuses[child]) for child in children]
    assert not any(ended), f"exit codes {ended}\n{logs[-4000:]}"


def environments(count: int) -> list[dict[str, str]]:
    """By what each of so many processes finds the others, as a launcher sets it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    size = str(count)
    common = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    common |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _forked(environment: dict[str, str], work: Callable[[], object], file: Path) -> int:
    child = os.fork()
    if child:
        return child
    gc.freeze()  # a group of processes that is garbage waits for threads that no fork has
    status = 1
    try:
        log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        os.environ |= environment
        if dist.is_initialized():  # a test before has left a group of one
            _left_behind.extend(dist.distributed_c10d._world.pg_map)
            dist.destroy_process_group()
        join_group()
        work()
        status = 0
    except SystemExit as error:
        status = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
