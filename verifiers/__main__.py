"""`rlvr-verify`, or `python -P -m verifiers`: rows in (`answer`, `response`), a verdict each."""

import argparse
import io
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no state is to be saved: Ctrl-C ends it at once

from verifiers.api import Verifier
from verifiers.extraction.extract import boxed_answer
from verifiers.extraction.turns import ChatMarks
from verifiers.names import ANSWERS, DERIVATIONS, OTHER_RESPONSES, PROBLEMS, RESPONSES
from verifiers.types import Attempt, as_text

BATCH = 256  # rows that are judged and printed together
LONGEST_LINE = 1 << 28  # bytes; a longer line is skipped, so that it never fills the memory
MOST_ERRORS = 5  # lines that could not be used and are reported one by one
LONGEST_ERROR = 300  # characters
MOST_WORKERS = 256
Fields = Mapping[str, object]
"""What a line has, by the name of its field."""
RECORDED = ("verdict", "extracted", "format_ok", "reason")


@dataclass(frozen=True)
class Row:
    """Holds a response to be judged, with the id of its line, and its problem if that is there."""

    id: object
    answer: str
    response: str
    problem: str | None


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads as numbers and JSON does not know."""
    raise ValueError(f"{name} is not JSON")


def value_of(row: Fields, path: str) -> object:
    """Return the value at a path such as `a.b`. Return None if there is none."""
    value: object = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def box_in(row: Fields, path: str) -> str | None:
    """Return the answer in the last box of a derivation. Return None if there is none."""
    value = value_of(row, path)
    return boxed_answer(value) if isinstance(value, str) else None


def first_path(row: Fields, paths: Sequence[str]) -> str:
    """Return the first path at which a row has a value, or else a null. Raises KeyError with the
    first of all."""
    for path in paths:
        if value_of(row, path) is not None:
            return path
    for path in paths:
        if path in row:
            return path
    raise KeyError(paths[0])


def read_row(line: str) -> list[Row]:
    """Return the id, the gold answer and the response of a line, once for each of its responses.
    Raises KeyError, TypeError, ValueError or RecursionError."""
    row = json.loads(line, parse_constant=refuse_constant)
    if not isinstance(row, dict):
        raise TypeError("not a JSON object")
    path = first_path(row, (*RESPONSES, *OTHER_RESPONSES))
    others = [name for name in RESPONSES if name != path and value_of(row, name) is not None]
    if others and path in RESPONSES[1:]:
        raise ValueError(f"it has {path} and {others[0]}: leave one of them out")
    responses = value_of(row, path)
    if responses == []:
        raise ValueError(f"{path} is an empty list")
    if not isinstance(responses, list):
        responses = [responses]
    names = [name for name in ANSWERS if name != path]
    names = [name for name in names if name not in DERIVATIONS or box_in(row, name)]
    answer_path = first_path(row, names)
    answer = as_text(value_of(row, answer_path), answer_path)
    if answer_path in DERIVATIONS:
        answer = box_in(row, answer_path) or answer
    json.dumps(row.get("id"))
    texts = [row[name] for name in PROBLEMS if isinstance(row.get(name), str)]
    problem = texts[0] if texts else None
    return [
        Row(id=row.get("id"), answer=answer, response=as_text(response, path), problem=problem)
        for response in responses
    ]


def read_rows(stream: IO[bytes]) -> Iterator[Row | str]:
    """Yield the rows of each line that is not blank, or what is wrong with that line."""
    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            yield f"line {number}: longer than {LONGEST_LINE >> 20} MB"
            continue
        decoded = line.decode("utf-8", "surrogateescape")
        if not decoded.strip():
            continue
        try:
            rows = read_row(decoded)
        except KeyError as error:
            yield f"line {number}: no field {error}"
        except (ValueError, TypeError, RecursionError) as error:
            yield f"line {number}: {error}"
        else:
            yield from rows


def say(message: str) -> None:
    """Print one line on stderr, if it can be written."""
    with suppress(OSError):
        print(f"verifiers: {message}", file=sys.stderr)


def open_rows(file: str) -> IO[bytes]:
    """Open the file of this name, or stdin for `-`."""
    if file != "-":
        return open(file, "rb")
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def run() -> int:
    """Judge the rows of a file or of stdin. Return 2 if any line could not be used, else 0."""
    parser = argparse.ArgumentParser(prog="rlvr-verify", description=__doc__)
    parser.add_argument("file", nargs="?", default="-", help="JSON lines (default: stdin)")
    parser.add_argument("--format", choices=["any", "think_answer", "boxed"], default="any")
    parser.add_argument("--workers", type=int, default=1, help="worker processes for hard answers")
    options = parser.parse_args()
    if not 1 <= options.workers <= MOST_WORKERS:
        parser.error(f"--workers must be from 1 to {MOST_WORKERS}")
    unusable = 0

    def usable_rows() -> Iterator[Row]:
        """Yield the rows, and report the first bad lines as soon as they are read."""
        nonlocal unusable
        for row in read_rows(stream):
            if isinstance(row, Row):
                yield row
                continue
            unusable += 1
            if unusable <= MOST_ERRORS:
                say(row)

    rows = usable_rows()
    chat_marks = ChatMarks()
    counts: Counter[str] = Counter()
    with (
        open_rows(options.file) as stream,
        Verifier(format=options.format, workers=options.workers) as verifier,
    ):
        while batch := list(islice(rows, BATCH)):
            attempts = [Attempt(row.response, row.answer, problem=row.problem) for row in batch]
            chat_marks.add(attempt.response for attempt in attempts)
            for row, verification in zip(batch, verifier.verify_many(attempts), strict=True):
                record = {field: getattr(verification, field) for field in RECORDED}
                print(json.dumps({"id": row.id, **record}))
                counts[verification.verdict] += 1
    if sys.stdout is not None:
        sys.stdout.flush()
    for line in chat_marks.lines():
        say(line)
    if unusable > MOST_ERRORS:
        say(f"{unusable} lines could not be used, the first {MOST_ERRORS} are named above")
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    say(f"{counts.total()} responses: {verdicts or 'none'}")
    return 2 if unusable else 0


def main() -> int:
    """Run the command, and report any error in one line. Return 141 for a pipe that nobody reads, 2
    for every other error."""
    try:
        return run()
    except BrokenPipeError:
        code = 141
    except OSError as error:
        say(f"{error.filename or 'output'}: {error.strerror or error}")
        code = 2
    except Exception as error:
        say(f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST_ERROR]}")
        code = 2
    with suppress(OSError, AttributeError, ValueError):  # what stdout still holds cannot be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
