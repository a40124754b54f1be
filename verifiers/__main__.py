"""`python -m verifiers`: JSONL rows in (`answer`, `response`), one verdict a row out."""

import argparse
import io
import json
import sys
from collections.abc import Iterator
from itertools import islice

from verifiers.api import Verifier
from verifiers.types import Attempt, Verification

BATCH = 256


def text(row: dict, field: str) -> str:
    """A field's text; a number is one. Raises KeyError or TypeError for anything else."""
    value = row[field]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise TypeError(f"{field} must be a text or a number, not {json.dumps(value)[:40]}")
    return str(value)


def read_rows(lines: Iterator[str], problems: list[str]) -> Iterator[dict]:
    """Usable rows; what is wrong with the others is added to `problems`, with the line number."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError("not a JSON object")
            row["answer"], row["response"] = text(row, "answer"), text(row, "response")
        except KeyError as error:
            problems.append(f"line {number}: no field {error}")
        except (ValueError, TypeError, RecursionError) as error:
            problems.append(f"line {number}: {error}")
        else:
            yield row


def record(row: dict, found: Verification) -> dict:
    """The output row of one verification."""
    return {
        "id": row.get("id"),
        "verdict": found.verdict,
        "extracted": found.extracted,
        "format_ok": found.format_ok,
        "reason": found.reason,
    }


def main() -> int:
    """Run the command; 2 if any line could not be used."""
    parser = argparse.ArgumentParser(prog="python -m verifiers", description=__doc__)
    parser.add_argument("--format", choices=["any", "think_answer", "boxed"], default="any")
    parser.add_argument("--workers", type=int, default=1, help="worker processes for hard answers")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error("--workers must be at least 1")
    problems: list[str] = []
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="surrogateescape")
    rows = read_rows(iter(lines), problems)
    with Verifier(format=options.format, workers=options.workers) as verifier:
        while batch := list(islice(rows, BATCH)):
            attempts = [Attempt(row["response"], row["answer"]) for row in batch]
            for row, found in zip(batch, verifier.verify_many(attempts), strict=True):
                print(json.dumps(record(row, found)))
    for problem in problems:
        print(f"verifiers: {problem}", file=sys.stderr)
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
