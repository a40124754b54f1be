"""`rlvr-verify`, or `python -P -m verifiers`: rows in (`answer`, `response`), one verdict a row."""

import argparse
import io
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import IO

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is kept, so a Ctrl-C just ends it

from verifiers.api import Verifier
from verifiers.types import Attempt, Verification

BATCH = 256
LONGEST_LINE = 1 << 28
"""Bytes."""
SHOWN, SHORT = 5, 300
MOST_WORKERS = 256


def text(row: dict, field: str) -> str:
    """Return a field's text; a number is one. Raises KeyError or TypeError for anything else."""
    value = row[field]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise TypeError(f"{field} must be a text or a number, not {json.dumps(value)[:40]}")
    if value in (math.inf, -math.inf):
        raise ValueError(f"{field} is too large a number")
    return str(value)


def no_number(name: str) -> None:
    """Refuse what Python reads as a number and JSON does not know."""
    raise ValueError(f"{name} is not JSON")


def read_lines(stream: IO[bytes]) -> Iterator[str | None]:
    """Yield the lines; None for one that is too long, which is skipped and never held."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line.decode("utf-8", "surrogateescape")
            continue
        while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
        yield None


def read_rows(lines: Iterable[str | None], say: Callable[[str], None]) -> Iterator[dict]:
    """Yield the usable rows; say on stderr what is wrong with the others, with the line number."""
    for number, line in enumerate(lines, 1):
        if line is None:
            say(f"line {number}: longer than {LONGEST_LINE >> 20} MB")
            continue
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=no_number)
            if not isinstance(row, dict):
                raise TypeError("not a JSON object")
            row["answer"], row["response"] = text(row, "answer"), text(row, "response")
            json.dumps(row.get("id"))
        except KeyError as error:
            say(f"line {number}: no field {error}")
        except (ValueError, TypeError, RecursionError) as error:
            say(f"line {number}: {error}")
        else:
            yield row


class Complaints:
    """What is wrong with the input, on stderr: the first few at once, the others as a number."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, problem: str) -> None:
        self.count += 1
        if self.count <= SHOWN:
            say(problem)

    def close(self) -> None:
        """Say how many more there were."""
        if self.count > SHOWN:
            say(f"{self.count} lines could not be used, the first {SHOWN} are named above")


def say(text: str) -> None:
    """Print one line on stderr, if it can be written."""
    with suppress(OSError):
        print(f"verifiers: {text}", file=sys.stderr)


def record(row: dict, found: Verification) -> dict:
    """Return the output row of one verification."""
    return {
        "id": row.get("id"),
        "verdict": found.verdict,
        "extracted": found.extracted,
        "format_ok": found.format_ok,
        "reason": found.reason,
    }


def run() -> int:
    """Judge what comes on stdin; 2 if any line could not be used."""
    parser = argparse.ArgumentParser(prog="rlvr-verify", description=__doc__)
    parser.add_argument("--format", choices=["any", "think_answer", "boxed"], default="any")
    parser.add_argument("--workers", type=int, default=1, help="worker processes for hard answers")
    options = parser.parse_args()
    if not 1 <= options.workers <= MOST_WORKERS:
        parser.error(f"--workers must be from 1 to {MOST_WORKERS}")
    complaints = Complaints()
    stream = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
    rows = read_rows(read_lines(stream), complaints)
    with Verifier(format=options.format, workers=options.workers) as verifier:
        while batch := list(islice(rows, BATCH)):
            attempts = [Attempt(row["response"], row["answer"]) for row in batch]
            for row, found in zip(batch, verifier.verify_many(attempts), strict=True):
                print(json.dumps(record(row, found)))
    if sys.stdout is not None:
        sys.stdout.flush()
    complaints.close()
    return 2 if complaints.count else 0


def main() -> int:
    """Run the command. Whatever ends it is at most one line; 141 for a pipe that nobody reads, 2
    for anything else that is wrong."""
    try:
        return run()
    except BrokenPipeError:
        code = 141
    except OSError as error:
        say(f"{error.filename or 'output'}: {error.strerror or error}")
        code = 2
    except Exception as error:
        say(f"{type(error).__name__}: {' '.join(str(error).split())[:SHORT]}")
        code = 2
    with suppress(OSError, AttributeError, ValueError):  # what stdout still holds cannot be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
