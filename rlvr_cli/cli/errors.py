"""End a command after a mistake, a fault, an interruption, or a pipe that was closed."""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from rlvr_cli.core.errors import ReportedError, RunStoppedError
from rlvr_cli.core.libraries import neutralize_logs
from rlvr_cli.core.signals import Interrupts
from rlvr_cli.core.text import one_line
from rlvr_cli.ranks.launch import reports_errors

_OUT_OF_MEMORY = re.compile(
    "can't allocate memory|out of memory|not enough memory|Resource temporarily unavailable"
)
"""What torch's RuntimeError says, and the tokenizers when the system refuses a thread."""


@contextmanager
def reported_errors(interrupted: str = "") -> Iterator[None]:
    """Report a mistake or a fault in one line with exit code 2. End quietly for a closed pipe.

    After Ctrl-C or SIGTERM it prints the text of the KeyboardInterrupt, else `interrupted`.
    """
    neutralize_logs()
    try:
        with Interrupts() as interrupts, interrupts.interruptible():
            yield
            sys.stdout.flush()
        return
    except (SystemExit, GeneratorExit):
        raise
    except ReportedError as error:
        report(str(error))
        raise typer.Exit(3 if isinstance(error, RunStoppedError) else 2) from None
    except KeyboardInterrupt as error:
        note = str(error) or interrupted
        if note:
            with suppress(OSError):
                print(f"rlvr: interrupted; {note}", file=sys.stderr)
        raise typer.Exit(130) from None
    except BaseException as error:  # a panic of the tokenizers is no Exception
        code = report_unforeseen(error)
    raise typer.Exit(code)


def report_unforeseen(error: BaseException) -> int:
    """Report an error that no command raises on purpose, and discard what is still to be printed.
    Return the exit code."""
    code = 2
    if isinstance(error, BrokenPipeError):
        code = 141
    elif isinstance(error, ReportedError):
        report(str(error))
    elif isinstance(error, OSError):
        report(f"{error.filename or 'output'}: {error.strerror or error}")
    else:
        report(fault(error))
    with suppress(OSError, ValueError):  # at its exit Python cannot write stdout either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def fault(error: BaseException) -> str:
    """Describe an unforeseen error in one line, and write its traceback to a file."""
    reason = one_line(error)
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(reason):
        return (
            "out of memory: take a smaller model, fewer or shorter responses, or a larger machine"
        )
    try:
        handle, path = tempfile.mkstemp(prefix="rlvr-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write("".join(traceback.format_exception(error)))
        details = f"details: {path}"
    except Exception:  # no room, no directory, no memory
        details = "its details could not be written"
    name = type(error).__name__
    if reason:
        name = f"{name}: {reason}"
    return f"{name} (a fault that was not foreseen; {details})"


def report(message: str) -> None:
    """Print the line of an error on stderr, which may be full or closed."""
    from rlvr_cli.console.display import fail

    with suppress(OSError):
        if reports_errors():
            fail(message)
