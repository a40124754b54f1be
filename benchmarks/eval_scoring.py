"""How fast `rlvr eval --responses` judges made-up responses, the whole command included.

python benchmarks/eval_scoring.py --responses 10000 --samples 16
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILLER = "We start from the definition, expand, and check the boundary cases one by one. "


def spellings(top: int, bottom: int) -> list[str]:
    """One number in the forms that models write it in."""
    return [
        rf"\frac{{{top}}}{{{bottom}}}",
        f"{top}/{bottom}",
        rf"\dfrac {top}{{{bottom}}}",
        rf"x = \frac{{{2 * top}}}{{{2 * bottom}}}",
        rf"\left(\frac{{{top}}}{{{bottom}}}\right)",
    ]


def response(rng: random.Random, top: int, bottom: int) -> str:
    """A thought and an answer, in several formats; some are wrong, some say nothing."""
    if rng.random() < 0.5:
        top += rng.choice((1, 1, 1, 2, 5))
    answer = rng.choice(spellings(top, bottom))
    thought = FILLER * rng.randint(1, 40)
    forms = (
        f"<think>{thought}</think><answer>{answer}</answer>",
        rf"{thought} So the answer is $\boxed{{{answer}}}$.",
        f"{thought}\nThe final answer is ${answer}$.",
        thought,
    )
    return rng.choices(forms, (4, 4, 2, 1))[0]


def rows(count: int, samples: int) -> list[dict]:
    """A row a problem, its responses as a list."""
    rng = random.Random(0)
    made = []
    for number in range(count // samples):
        top, bottom = rng.randint(2, 10**6), rng.randint(2, 997)
        texts = [response(rng, top, bottom) for _ in range(samples)]
        gold = rf"\frac{{{top}}}{{{bottom}}}"
        made.append({"id": number, "level": number % 5, "answer": gold, "responses": texts})
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=16)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "responses.jsonl"
        made = rows(args.responses, args.samples)
        file.write_text("".join(json.dumps(row) + "\n" for row in made))
        command = [sys.executable, "-m", "rlvr_cli", "eval", "--responses", str(file)]
        command += ["--by", "level", "--out", str(Path(directory) / "out")]
        started = time.perf_counter()
        done = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - started
    count = sum(len(row["responses"]) for row in made)
    print(next(line for line in done.stderr.splitlines() if line.startswith("judged")))
    print(f"whole command: {count} responses in {seconds:.1f} s, {count / seconds:.0f} a second")


if __name__ == "__main__":
    main()
