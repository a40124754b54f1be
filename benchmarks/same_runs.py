"""Compare two checkouts: the same commands must give the same numbers, bit for bit.

    python benchmarks/same_runs.py OLD_CHECKOUT --engines transformers vllm

Trains `dapo`, `grpo` and `ppo` for three steps on the built-in problems in both checkouts, then
evaluates the built-in policy, and compares weights, rollouts, metrics (but what is measured, and
the version of a row) and the figures of the report. Settings are spelled by their flags, which
both checkouts know.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
MEASURED = (
    "seconds",
    "least",
    "tokens_per_second",
    "goodput",
    "mfu",
    "roof_",
    "memory_",
    "machine",
    "row_version",
)
SMALL = (
    "--prompts",
    "8",
    "-n",
    "4",
    "--max-tokens",
    "32",
    "--steps",
    "3",
    "--seed",
    "0",
    "--quiet",
)


def rlvr(checkout: Path, work: Path, args: list[str]) -> None:
    """Run the command line of a checkout in `work`."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "HF_HUB_OFFLINE": "1"}
    environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, "-m", "rlvr_cli", *args]
    subprocess.run(command, cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL)


def run_numbers(run: Path) -> dict[str, Any]:
    """Return the figures of a run that must be equal."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = max(run.glob("checkpoints/step-*"), key=lambda path: int(path.name[5:]))
    numbers: dict[str, Any] = {}
    for row in rows:
        for key, value in row.items():
            if not key.startswith(MEASURED):
                numbers[f"metrics {row['step']} {key}"] = value
    for path in sorted((run / "rollouts").glob("[!m]*.jsonl")):  # not the manifest
        responses = [json.loads(line) for line in path.open()]
        for row in responses:
            row.pop("row_version", None)  # not a figure
        numbers[f"rollouts {path.name}"] = hashlib.sha256(
            json.dumps(responses).encode()
        ).hexdigest()
    weights = (last / "model.safetensors").read_bytes()
    return {**numbers, "weights": hashlib.sha256(weights).hexdigest()}


def report_numbers(out: Path) -> dict[str, Any]:
    """Return the figures of an evaluation without its fingerprint."""
    report = json.loads((out / "report.json").read_text())
    numbers = {}
    for number, result in enumerate(report["results"]):
        for key, value in result.items():
            if key != "fingerprint":
                numbers[f"{number} {key}"] = value
    return numbers


def compare(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Print what differs, and return whether nothing does."""
    differing = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
    print(f"{name}: {len(old)} numbers, {len(differing)} differ", *sorted(differing)[:5])
    return not differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("--engines", nargs="+", default=["transformers"])
    args = parser.parse_args()
    equal = True
    with tempfile.TemporaryDirectory() as directory:
        sides = {"old": args.old.resolve(), "new": HERE}
        for engine in args.engines:
            for algo in ("dapo", "grpo", "ppo"):
                numbers = []
                for side, checkout in sides.items():
                    out = Path(directory) / f"{side}-{engine}-{algo}"
                    command = ["train", "--algo", algo, "--engine", engine, "--out", str(out)]
                    rlvr(checkout, Path(directory), [*command, *SMALL])
                    numbers.append(run_numbers(out))
                equal &= compare(f"{algo} on {engine}", *numbers)
            numbers = []
            for side, checkout in sides.items():
                out = Path(directory) / f"{side}-{engine}-eval"
                command = f"eval --engine {engine} --limit 32 -n 4 --quiet".split()
                rlvr(checkout, Path(directory), [*command, "--out", str(out)])
                numbers.append(report_numbers(out))
            equal &= compare(f"eval on {engine}", *numbers)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
