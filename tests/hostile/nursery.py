"""Commands as forked children of one process that has imported everything: real descriptors, exit
codes and limits, without seconds of imports each. Run as a program it is that process."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

SECONDS, MEMORY_MB = 40, 3000
TEMPLATE_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """A command line of `rlvr`, and what the process is given."""

    argv: list[str]
    cwd: str
    stdin: str = os.devnull
    stdout: str | None = None
    """A file to write to instead of one that is read again."""
    closed: list[int] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    memory_mb: int = MEMORY_MB


@dataclass(frozen=True)
class Done:
    """How it ended; `rc` is None where it had to be killed at its limit."""

    rc: int | None
    stdout: str
    stderr: str
    seconds: float


class Nursery:
    """The process, from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, job: Job) -> Done:
        """Run one command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        outputs = [
            Path(job.cwd, name).read_bytes().decode(errors="replace") for name in (".out", ".err")
        ]
        return Done(reply["rc"], *outputs, reply["seconds"])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _serve() -> None:
    import torch

    import rlvr_cli.__main__
    import rlvr_cli.cli.eval
    import rlvr_cli.cli.responses
    import rlvr_cli.cli.sample
    import rlvr_cli.cli.train
    import rlvr_cli.data.prompts

    torch.set_num_threads(1)
    rlvr_cli.data.prompts._SECONDS = TEMPLATE_SECONDS
    for line in sys.stdin:
        job, started = json.loads(line), time.monotonic()
        child = os.fork()
        if child == 0:
            _be_born(job)
        rc = _outcome(child)
        print(json.dumps({"rc": rc, "seconds": time.monotonic() - started}), flush=True)


def _outcome(child: int) -> int | None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _be_born(job: dict) -> None:
    """Become the command; never returns."""
    from rlvr_cli.__main__ import main

    os.chdir(job["cwd"])
    os.environ.update(job["environment"])
    files = [
        os.open(job["stdin"], os.O_RDONLY),
        os.open(job["stdout"] or ".out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        os.open(".err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ]
    Path(".out").touch()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    for number in job["closed"]:
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)  # which closes the descriptor
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (job["memory_mb"] << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.argv = ["rlvr", *job["argv"]]
    code: int | str | None = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    _serve()
