"""Measure the default run for each algorithm and seed: pass@1 before and after, and minutes.

python benchmarks/default_run.py                              # dapo
python benchmarks/default_run.py --algo all --seeds 0 1 2     # the table of claims.md
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rlvr_cli.algorithm.choices import ALGORITHMS


def run(algo: str, seed: int, directory: Path, options: list[str]) -> dict:
    """Train once and return the summary of the run."""
    command = [sys.executable, "-m", "rlvr_cli", "train", "--algo", algo, "--quiet"]
    command += ["--seed", str(seed), "--out", str(directory), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads((directory / "summary.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algo", nargs="+", default=["dapo"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("options", nargs="*", help="more options of rlvr train, after --")
    args = parser.parse_args()
    algos = list(ALGORITHMS) if args.algo == ["all"] else args.algo
    print("| algorithm | pass@1 before | pass@1 after | worst | median minutes |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        for algo in algos:
            summaries = []
            for seed in args.seeds:
                place = Path(directory) / f"{algo}-{seed}"
                summaries.append(run(algo, seed, place, args.options))
            before, after = (
                [summary[moment]["pass@1"] for summary in summaries]
                for moment in ("before", "after")
            )
            minutes = statistics.median(summary["minutes"] for summary in summaries)
            columns = (" ".join(f"{value:.3f}" for value in values) for values in (before, after))
            print(f"| {algo} |", *(f"{c} |" for c in columns), f"{min(after):.3f} |", end="")
            print(f" {minutes:.2f} |", flush=True)


if __name__ == "__main__":
    main()
