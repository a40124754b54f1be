"""Additions up to 49 + 49, which a small chat model half knows, as JSONL in two disjoint splits.

python benchmarks/additions.py DIRECTORY      # writes train.jsonl and heldout.jsonl there
"""

import json
import random
import sys
from pathlib import Path

TRAIN, HELD_OUT = 1024, 96


def problems() -> dict[str, list[dict]]:
    """The rows of both splits, distinct and always the same."""
    pairs = [(a, b) for a in range(2, 50) for b in range(2, 50)]
    random.Random(0).shuffle(pairs)
    rows = [
        {"problem": f"Calculate {a} + {b}. Reply with the sum only.", "answer": a + b}
        for a, b in pairs
    ]
    return {"heldout": rows[:HELD_OUT], "train": rows[HELD_OUT : HELD_OUT + TRAIN]}


def write(directory: Path) -> None:
    """Both splits as files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in problems().items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
