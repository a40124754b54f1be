"""How every command ends: a mistake, a fault, an interruption, a pipe that nobody reads."""

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from rlvr_cli.core.errors import ReportedError, RunStoppedError
from rlvr_cli.core.libraries import neutralize_logs
from rlvr_cli.core.signals import Interrupts
from rlvr_cli.ranks.launch import reports_errors

_FULL = (
    "can't allocate memory",
    "out of memory",
    "not enough memory",
    "Resource temporarily unavailable",
)
"""What torch says in a RuntimeError, and the tokenizers where no thread can be had."""
_LONGEST = 300


@contextmanager
def reported_errors(interrupted: str = "") -> Iterator[None]:
    """Report a mistake or a fault in one line with exit code 2; end quietly for a closed pipe.

    Ctrl-C and SIGTERM end it with what the KeyboardInterrupt says, else with `interrupted`.
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
        if note := str(error) or interrupted:
            with suppress(OSError):
                print(f"rlvr: interrupted; {note}", file=sys.stderr)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        code = 141
    except OSError as error:
        report(f"{error.filename or 'output'}: {error.strerror or error}")
        code = 2
    except BaseException as error:  # a panic of the tokenizers is no Exception
        report(fault(error))
        code = 2
    with suppress(OSError, ValueError):  # what stdout holds cannot be written at the end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(code)


def fault(error: BaseException) -> str:
    """Describe what was not foreseen in one line; its traceback goes to a file."""
    reason = " ".join(str(error).split())[:_LONGEST]
    if isinstance(error, MemoryError) or any(words in reason for words in _FULL):
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
    what = type(error).__name__ + f": {reason}" * bool(reason)
    return f"{what} (a fault that was not foreseen; {details})"


def report(message: str) -> None:
    """Print the line on a stderr that may be full or gone."""
    from rlvr_cli.console.display import fail

    with suppress(OSError):
        if reports_errors():
            fail(message)
