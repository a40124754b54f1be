"""The default run, seed by seed: pass@1 before and after, and minutes.

python benchmarks/default_run.py --algo dapo --seeds 0 1 2
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algo", default="dapo")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("options", nargs="*", help="more options of rlvr train, after --")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for seed in args.seeds:
            run = Path(directory) / str(seed)
            command = [sys.executable, "-m", "rlvr_cli", "train", "--algo", args.algo, "--quiet"]
            command += ["--seed", str(seed), "--out", str(run), *args.options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            summary = json.loads((run / "summary.json").read_text())
            found.append(summary)
            before, after = summary["before"]["pass@1"], summary["after"]["pass@1"]
            print(f"seed {seed}: {before:.3f} -> {after:.3f} in {summary['minutes']:.2f} minutes")
    after = [summary["after"]["pass@1"] for summary in found]
    minutes = statistics.median(summary["minutes"] for summary in found)
    print(f"{args.algo}: worst {min(after):.3f}, median {minutes:.2f} minutes")


if __name__ == "__main__":
    main()
