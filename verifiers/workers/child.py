"""Answer questions in a child process, each one line of JSON in and one line out.

`verifiers.workers.pool` starts it. Nothing depends on Python's own timers: the parent kills this
process at the limit, the kernel kills it a little later (SIGALRM with its default action) or when
the parent dies, and its memory is capped. Functions of the user's are in a cage as well.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from importlib import import_module
from typing import IO, Any

from verifiers.judges import JUDGES, Decide
from verifiers.types import Judgement
from verifiers.workers import cage

ALARM_SLACK_S = 1.0  # after the limit, so that the parent, which reports it, comes first


def confine(parent: int, memory_mb: int) -> None:
    """Cap the memory of this process and tie its life to its parent's."""
    limit = memory_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        cage.tie_to_parent()
        if os.getppid() != parent:
            sys.exit(1)


def private_stdout() -> IO[str]:
    """Return the pipe to the parent for replies alone. All other prints go nowhere."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return replies


def judging(decide: Decide) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that answers a question with a judgement."""

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        try:
            judgement = decide(question["gold"], question["answer"])
        except MemoryError:
            raise
        except Exception as error:
            judgement = Judgement(False, f"not comparable ({type(error).__name__})")
        return {"lost": judgement.reason} if judgement.equal is None else asdict(judgement)

    return answer


def serve(
    answer: Callable[[dict[str, Any]], dict[str, Any]], questions: Iterable[str], replies: IO[str]
) -> None:
    """Answer questions until the parent closes the pipe, or one is `lost`."""
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in questions:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, question.pop("limit") + ALARM_SLACK_S)
        try:
            reply = answer(question)
        except MemoryError:
            reply = {"lost": "out of memory"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(reply), file=replies, flush=True)
        if "lost" in reply:
            return


def main() -> None:
    """Serve a judge by its name, or, in a cage of so many processes, the `answering` of a module:
    JSON [module, *arguments]."""
    parent, memory_mb, judge, *processes = sys.argv[1:]
    if processes:
        cage.enter(int(parent), sys.stdin.fileno(), json.loads(processes[0]))
        parent = str(os.getppid())
    confine(int(parent), int(memory_mb))
    replies = private_stdout()
    questions = sys.stdin
    sys.stdin = open(os.devnull)  # noqa: SIM115
    if judge in JUDGES:
        serve(judging(JUDGES[judge].load()), questions, replies)
    else:
        module, *arguments = json.loads(judge)
        serve(import_module(module).answering(*arguments), questions, replies)


if __name__ == "__main__":
    main()
