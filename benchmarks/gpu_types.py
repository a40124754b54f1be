"""Train two steps in each number type and way on this GPU, all in one process: two minutes.

    python benchmarks/gpu_types.py            # the built-in policy
    python benchmarks/gpu_types.py --cpu      # tries the script itself

The ways are those of `gpu_run.py right`, which starts a process for each: 20 seconds where a
machine is new. Prints a table: seconds, the gap between engine and trainer, loss, norm of the
gradient, and how often float16 passed a mini-batch again.
"""

import argparse
import io
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

from gpu_right import EAGER, PPO, SMALL, WAYS

from rlvr_cli.api import Run
from rlvr_cli.cli.main import app

HALF = ("--set", "optim.precision=float16", "--set", "rollout.precision=float16", *EAGER)
HALF_WAYS = {
    "float16": ("--algo", "dapo", *HALF),
    "float16, ppo": (*PPO, *HALF),
    "float16, lora": ("--algo", "dapo", "--lora", "8", *HALF),
    "float16, offload": ("--algo", "grpo", "--set", "optim.offload=all", *HALF),
}
FIGURES = ("mismatch", "loss", "grad_norm", "overflows")


def trained(words: tuple[str, ...], out: Path) -> list[str]:
    """Run `rlvr train` with these words, and return its figures, or its error, as cells."""
    try:
        with redirect_stdout(io.StringIO()):
            app(["train", *words], standalone_mode=False)
    except (Exception, SystemExit) as error:  # a way that fails is a line of the table
        return [f"{type(error).__name__}: {str(error)[:300]}"]
    rows = Run(out).metrics
    values = [[row[figure] for row in rows if row.get(figure) is not None] for figure in FIGURES]
    return [", ".join(f"{value:.3g}" for value in column) for column in values]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true")
    small = SMALL["cpu" if parser.parse_args().cpu else "cuda"]
    print(f"| way | seconds | {' | '.join(FIGURES)} |\n| --- | --- {'| --- ' * len(FIGURES)}|")
    with tempfile.TemporaryDirectory() as directory:
        for number, (name, flags) in enumerate({**WAYS, **HALF_WAYS}.items()):
            out = Path(directory) / str(number)
            place = ("--engine", "transformers", "--steps", "2", "--out", str(out))
            started = time.perf_counter()
            cells = trained((*flags, *small, *place), out)
            seconds = time.perf_counter() - started
            print(f"| {name} | {seconds:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
