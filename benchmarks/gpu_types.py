"""Train two steps in each number type and way on this GPU, all in one process: two minutes.

    python benchmarks/gpu_types.py            # the built-in policy
    python benchmarks/gpu_types.py --cpu      # tries the script itself

`gpu_run.py right` starts a process for each command, which takes 20 seconds where a machine is new.
Prints a table: seconds, the gap between engine and trainer, loss, norm of the gradient, and scale
of the loss in float16. `resume` goes on with the run before it.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rlvr_cli import train

HALF = ["optim.precision=float16", "rollout.precision=float16"]
WAYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "dapo, as the card chooses": ({"algo": "dapo"}, []),
    "resume": ({}, []),
    "weights in bfloat16": ({"algo": "dapo"}, ["optim.weights=bfloat16"]),
    "offload": ({"algo": "grpo"}, ["optim.offload=all"]),
    "layers computed again": ({"algo": "dapo"}, ["optim.checkpointing=on"]),
    "float16": ({"algo": "dapo"}, HALF),
    "float16, ppo": ({"algo": "ppo"}, [*HALF, "algorithm.advantage.critic.warmup=0"]),
    "float16, lora": ({"algo": "dapo", "lora": 8}, HALF),
    "float16, offload": ({"algo": "grpo"}, [*HALF, "optim.offload=all"]),
}
SMALL = ["eval.limit=0", "optim.compile=off"]


def figures(rows: list[dict[str, Any]], name: str) -> str:
    """Return a metric of all steps that have it, in words."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return ", ".join(f"{value:.3g}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    names = ("mismatch", "loss", "grad_norm", "overflows", "rejected_share")
    print(f"| way | seconds | {' | '.join(names)} |\n| --- | --- {'| --- ' * len(names)}|")
    last: Path | None = None
    for way, (options, settings) in WAYS.items():
        if given.cpu and "offload" in way:
            continue
        started = time.perf_counter()
        try:
            if way == "resume":
                run = train(resume=last, steps=3)
            else:
                out = Path(tempfile.mkdtemp()) / "run"
                run = train(
                    engine="transformers",
                    prompts=8,
                    samples=8,
                    steps=2,
                    out=out,
                    set=[*SMALL, *settings],
                    **options,
                )
            last = run.directory
            cells = [figures(run.metrics, name) for name in names]
        except Exception as error:  # a way that fails is a line of the table
            cells = [f"{type(error).__name__}: {str(error)[:300]}"]
        print(f"| {way} | {time.perf_counter() - started:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
