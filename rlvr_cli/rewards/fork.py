"""Answer a question in a fork of this process, as a worker would: in its main thread, alone."""

import json
import os
import select
import signal
import warnings
from collections.abc import Callable
from typing import NoReturn

from rlvr_cli.core.jsonl import JsonObject, parse_json

_SLACK_S = 1.0
"""Seconds after the limit at which the kernel ends a fork whose parent is gone."""


def reply_of_fork(answer: Callable[[], JsonObject], seconds: float) -> JsonObject | None:
    """Return what `answer` returns in a fork. Return None if it dies, or takes longer."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads that a fork lacks. It is bounded in time.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _answer_and_leave(answer, writing, seconds)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            is_ready = bool(select.select([pipe], [], [], seconds)[0])
            line = pipe.readline() if is_ready else b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return dict(parse_json(line)) if line.endswith(b"\n") else None


def _answer_and_leave(answer: Callable[[], JsonObject], writing: int, seconds: float) -> NoReturn:
    """Write the answer to a pipe as a line of JSON, and end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + _SLACK_S)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.write(writing, json.dumps(answer()).encode() + b"\n")
    finally:
        os._exit(0)
