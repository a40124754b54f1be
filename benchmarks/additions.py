"""Write additions up to 49 + 49, which a small chat model half knows, as JSONL: two splits,
and examples of the train split with a response in the think_answer format, for `--algo sft`.

python benchmarks/additions.py DIRECTORY      # writes train, heldout and examples.jsonl there
"""

import json
import random
import sys
from pathlib import Path

TRAIN = 1024
HELD_OUT = 96
EXAMPLES = 48


def problems() -> dict[str, list[dict]]:
    """Return the rows of both splits, distinct and always the same, and the examples."""
    pairs = [(a, b) for a in range(2, 50) for b in range(2, 50)]
    random.Random(0).shuffle(pairs)
    rows = [
        {"problem": f"Calculate {a} + {b}. Reply with the sum only.", "answer": a + b}
        for a, b in pairs
    ]
    train = rows[HELD_OUT : HELD_OUT + TRAIN]
    sums = [(*pair, sum(pair)) for pair in pairs[HELD_OUT : HELD_OUT + EXAMPLES]]
    responses = [f"<think>{a} + {b} = {c}</think><answer>{c}</answer>" for a, b, c in sums]
    examples = [{**row, "response": text} for row, text in zip(train, responses, strict=False)]
    return {"heldout": rows[:HELD_OUT], "train": train, "examples": examples}


def write(directory: Path) -> None:
    """Write each list of rows as a file."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in problems().items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
