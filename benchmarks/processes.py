"""Measure what several processes and one cost: seconds of a step and of all processors.

python benchmarks/processes.py [--processes 2] [--runs 3] [OPTIONS of rlvr train]

Trains alone and with N processes of one thread each, in turn, and prints medians. The seconds of
the processors are the difference of a long and a short run, without start and end.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

LAST = 6
SMALL = f"""
    --steps {LAST} --prompts 16 -n 8 --max-tokens 64 --limit 64 --set eval.limit=0
    --set threads=1 --set optim.micro_tokens=1024
""".split()
PHASES = ("rollout", "verification", "logprobs", "update", "sync", "step")


def seconds_of(metrics: Path, first: int = 2) -> dict[str, float]:
    """Return the median seconds of each phase of a step, from a given step on."""
    rows = [json.loads(line) for line in metrics.open()][first - 1 :]
    return {p: statistics.median(row.get(f"seconds_{p}", 0.0) for row in rows) for p in PHASES}


def cost(count: int, options: list[str]) -> dict[str, float]:
    """Train with some processes. Return the seconds of a step by phase, and of all processors."""
    processor = []
    with tempfile.TemporaryDirectory() as place:
        for steps in (1, LAST):
            out = Path(place) / f"run-{steps}"
            arguments = [*options, "--steps", steps, "--out", out, "--processes", count]
            before = os.times()
            command = [sys.executable, "-m", "rlvr_cli", "train", "--quiet", *map(str, arguments)]
            subprocess.run(command, check=True, capture_output=True)
            processor.append(sum(os.times()[2:4]) - sum(before[2:4]))
        seconds = seconds_of(out / "metrics.jsonl")
    return {**seconds, "processor": (processor[1] - processor[0]) / (LAST - 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    args, options = parser.parse_known_args()
    costs = defaultdict(list)
    for _ in range(args.runs):
        for count in (1, args.processes):
            costs[count].append(cost(count, options or SMALL))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for count, rows in costs.items():
        seconds = (f"{p} {statistics.median(row[p] for row in rows):.3f}" for p in rows[0])
        print(f"{count} processes, seconds a step: {', '.join(seconds)}")


if __name__ == "__main__":
    main()
