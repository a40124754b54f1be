"""`python -m verifiers`: JSONL rows in (`answer`, `response`), one verdict a row out."""

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice

from verifiers.api import Verifier
from verifiers.types import Attempt

BATCH = 256


def read_rows(lines: Iterator[str]) -> Iterator[dict]:
    """Parse rows; raises ValueError with the line's number for one that is not usable."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            row["answer"], row["response"] = str(row["answer"]), str(row["response"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from error
        yield row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verifiers", description=__doc__)
    parser.add_argument("--format", choices=["any", "think_answer", "boxed"], default="any")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    rows = read_rows(sys.stdin)
    with Verifier(format=options.format, workers=options.workers) as verifier:
        try:
            while batch := list(islice(rows, BATCH)):
                attempts = [Attempt(row["response"], row["answer"]) for row in batch]
                for row, result in zip(batch, verifier.verify_many(attempts), strict=True):
                    record = {
                        "id": row.get("id"),
                        "verdict": result.verdict,
                        "extracted": result.extracted,
                        "format_ok": result.format_ok,
                        "reason": result.reason,
                    }
                    print(json.dumps(record))
        except ValueError as error:
            print(f"verifiers: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
