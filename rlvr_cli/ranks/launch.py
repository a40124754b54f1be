"""Start one command as several processes by torchrun's agent, with one stdout and one exit code.

A bare call of torchrun would end with 1 whatever the exit codes of the processes are, and only one
of them would read the standard input. Unless told otherwise, it also kills processes 30 s after a
signal, when a long step is not saved yet.
"""

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from shutil import copyfileobj
from typing import Any

from rlvr_cli.core.environment import thread_count
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.versions import installed_version, launcher_waits
from rlvr_cli.ranks.process import local_world, rank, report_claims, world_size

LAUNCHER = "RLVR_LAUNCHED_BY"
"""Holds the launcher's process id, in the processes that it starts and that end with it."""
_STDIN = "RLVR_STDIN"
"""Names a copy of the launcher's standard input."""
_PR_SET_PDEATHSIG = 1
_DAY_S = 86_400
_stderr: list[int] = []
"""The standard error of a process whose output is discarded, for the error that it may report."""


def begin(processes: int | None, reads_stdin: bool) -> None:
    """Start the command as `processes` processes and exit with their code.

    In a process that we or torchrun started, join the others instead. Raises UserError if they
    cannot meet, or if the environment holds no numbers where it should.
    """
    thread_count()
    size = world_size()
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        if processes is not None and processes > 1:
            sys.exit(launch(processes, sys.argv[1:], reads_stdin))
        return
    if processes is not None and processes != local_world():
        raise UserError(
            f"--processes {processes}: {local_world()} of {size} were started here already"
        )
    if size > 1:
        if reads_stdin and _STDIN not in os.environ:
            raise UserError("-: with torchrun every process needs the problems; name a file")
        from rlvr_cli.ranks.group import join_group

        join_group()


def silence_others() -> None:
    """Discard the output of all processes but the first, and end with the launcher."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is not None:
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if str(os.getppid()) != launcher:
            sys.exit(2)
        if _STDIN in os.environ:
            os.dup2(os.open(os.environ[_STDIN], os.O_RDONLY), 0)
    if rank() > 0:
        _stderr.append(os.dup(2))
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)


def end() -> None:
    """Wait for the other processes at the end: torchrun's agent ends all once one has failed."""
    if report_claims and LAUNCHER in os.environ:
        from rlvr_cli.ranks.group import meet

        meet("end")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def reports_errors() -> bool:
    """Return whether this process reports its error: the first that has one, of those that met."""
    try:
        first = report_claims[-1]() if report_claims else rank() == 0
    except RuntimeError:  # the first process is gone, and has reported why
        first = rank() == 0
    except UserError:  # the environment holds no rank, and that is the error
        first = True
    if first and _stderr:
        os.dup2(_stderr[0], 2)
    return first


def launch(processes: int, arguments: Sequence[str], reads_stdin: bool) -> int:
    """Run `rlvr ARGUMENTS` as several processes, which end together, and return the exit code.

    Raises UserError if one was killed.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    options: dict[str, Any] = {}
    if launcher_waits():
        options["shutdown_timeout"] = _DAY_S  # after a signal: as long as the step takes
    else:
        LOG.warning(
            "with torch %s several processes are killed 30 s after a stop, and a longer step is "
            "lost: pip install 'torch>=2.12'",
            installed_version("torch"),
        )
    logging.disable(logging.CRITICAL)  # the processes report their errors themselves
    os.environ[LAUNCHER] = str(os.getpid())
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with ExitStack() as stack:
        logs = stack.enter_context(tempfile.TemporaryDirectory())
        if reads_stdin:
            copy = stack.enter_context(tempfile.NamedTemporaryFile())  # every process reads it
            copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            os.environ[_STDIN] = copy.name
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=str(os.getpid()),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            signals_to_handle="SIGTERM,SIGINT",
            logs_specs=DefaultLogsSpecs(log_dir=logs),
            **options,
        )
        try:
            elastic_launch(config, sys.executable)("-m", "rlvr_cli", *arguments)
        except SignalException:
            return 130
        except ChildFailedError as error:
            codes = {number: failure.exitcode for number, failure in error.failures.items()}
            return exit_code(codes, processes)
    return 0


def exit_code(failed: dict[int, int], count: int) -> int:
    """Return the exit code of process 0, or else of the first process that failed.

    Processes that the agent ended do not count. Raises UserError if one was killed.
    """
    codes = {number: code for number, code in failed.items() if code != -signal.SIGTERM}
    for number, code in codes.items():
        if code < 0:
            raise UserError(
                f"process {number} of {count} was killed ({signal.Signals(-code).name}), so all "
                "were ended; what is on disk is good: go on with --resume, or the same --out"
            )
    return codes.get(0) or next(iter(codes.values()), 130)
