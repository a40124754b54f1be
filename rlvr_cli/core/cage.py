"""Do work on a stranger's file in a fork of this process, in a cage that ends it as a whole."""

import faulthandler
import gc
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from rlvr_cli.core.limits import limit_memory
from rlvr_cli.core.text import GIB, one_line
from verifiers.workers.cage import enter
from verifiers.workers.pool import ENVIRONMENT, READ_CHUNK

_SLACK_S = 1.0
"""Seconds after the limit at which the kernel ends the work, so that this process comes first."""


class CageError(Exception):
    """Says why work in a cage has no result."""


def in_cage(work: Callable[[], object], seconds: float, memory: int) -> Any:
    """Return what `work` returns, which must be JSON, from a fork of this process.

    The fork may take `memory` bytes beyond those of this process, and sees paths and language of
    the environment. Raises CageError with a reason if it exceeds a limit, ends early or raises.
    """
    output, replies = os.pipe()
    pipe, life = os.pipe()
    parent = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        os.close(life)
        _serve(work, parent, pipe, replies, seconds, memory)
    os.close(replies)
    os.close(pipe)
    try:
        reply = json.loads(_read(output, seconds))
    except ValueError:
        reply = {"lost": f"it takes more than {memory / GIB:.3g} GiB of memory, or ends by itself"}
    finally:
        os.close(life)  # which the keeper notices
        os.close(output)
        os.waitpid(keeper, 0)
    if "lost" in reply:
        raise CageError(reply["lost"])
    return reply["value"]


def _read(output: int, seconds: float) -> bytes:
    """Read until the other end is closed. Raises CageError after `seconds`."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        remaining = max(0.0, deadline - time.monotonic())
        if not select.select([output], [], [], remaining)[0]:
            raise CageError(f"it takes more than {seconds:g} s")
        part = os.read(output, READ_CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _serve(
    work: Callable[[], object], parent: int, pipe: int, replies: int, seconds: float, memory: int
) -> NoReturn:
    """Do the work in the fork, and write its value or the reason of its failure."""
    code = 1
    with suppress(BaseException):
        gc.disable()  # what this process would collect is its parent's
        faulthandler.disable()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 2)
        os.dup2(replies, 1)
        enter(parent, pipe, None)
        os.dup2(null, 1)
        for name in list(os.environ):
            if not ENVIRONMENT.fullmatch(name):
                del os.environ[name]
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + _SLACK_S)
        limit_memory(memory)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(replies, "wb") as file:
            file.write(json.dumps(_reply(work)).encode())
        code = 0
    os._exit(code)


def _reply(work: Callable[[], object]) -> dict[str, object]:
    try:
        return {"value": work()}
    except MemoryError:
        return {"lost": "it takes too much memory"}
    except BaseException as error:  # whatever a file may hold, and a panic of the tokenizers
        return {"lost": f"{type(error).__name__}: {one_line(error)}"}
