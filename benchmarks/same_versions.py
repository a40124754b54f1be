"""Compare what this checkout computes with several versions of its libraries, figure by figure.

    python benchmarks/same_versions.py USUAL=.venv LOWEST=.venv-lowest HIGHEST=.venv-highest

Each NAME=DIRECTORY is a virtual environment. Every command below runs in each of them. A cell of
the printed table says how many figures (metrics that are not measured times or memory, responses,
weights) are equal to those of the first environment, or the exit code of a command that failed.
"""

import argparse
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from same_runs import HERE, run_numbers

SMALL = "--prompts 8 -n 4 --max-tokens 32 --seed 0 --quiet --set eval.limit=0"
TRAIN = {
    "dapo": "--algo dapo --steps 3",
    "grpo": "--algo grpo --steps 3",
    "ppo, own critic": "--algo ppo --steps 3",
    "ppo, shared critic": "--algo ppo --set algorithm.advantage.critic=shared --steps 3",
    "dapo --lora 4": "--algo dapo --lora 4 --steps 3",
    "compiled": "--algo dapo --set optim.compile=on --steps 2",
    "two processes": "--algo dapo --processes 2 --steps 2",
    "bfloat16": "--algo dapo --set optim.precision=bfloat16 --steps 2",
    "bfloat16 --lora 4": "--algo dapo --lora 4 --set optim.precision=bfloat16 --steps 2",
}
VLLM = "--algo dapo --engine vllm --steps 3"


class FailedError(Exception):
    """A command did not end with exit code 0."""


def rlvr(environment: Path, work: Path, command: str) -> str:
    """Run the command line of this checkout in an environment and return its stdout."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    python = environment / "bin" / "python"
    process = subprocess.run(
        [python, "-m", "rlvr_cli", *command.split()],
        cwd=work,
        env=variables,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["no message"]
        raise FailedError(f"exit {process.returncode}: {lines[-1]:.120}")
    return process.stdout


def numbers(environment: Path, work: Path, name: str, command: str) -> dict[str, Any]:
    """Train in a new directory and return what must be equal. The first run is also resumed."""
    run = work / name.replace(" ", "-").replace(",", "")
    rlvr(environment, work, f"train {SMALL} {command} --out {run}")
    if name == "dapo":
        rlvr(environment, work, f"train --resume {run} --steps 4 --quiet")
    if "lora" not in command:
        return run_numbers(run)
    return adapter_numbers(run)


def adapter_numbers(run: Path) -> dict[str, Any]:
    """Return the figures of a run that stores an adapter in place of weights."""
    for directory in run.glob("checkpoints/step-*"):
        (directory / "model.safetensors").symlink_to(directory / "adapter_model.safetensors")
    return run_numbers(run)


def evaluation(environment: Path, work: Path) -> dict[str, Any]:
    """Evaluate, sample and show the run of `dapo`, and return checksums of what they print."""
    texts = {
        "eval": rlvr(environment, work, "eval --limit 20 -n 2 --seed 0 --quiet"),
        "sample": rlvr(environment, work, "sample start:7 -n 2 --seed 0 --max-tokens 32 --quiet"),
    }
    rlvr(environment, work, "show dapo")
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def versions(environment: Path) -> str:
    """Return the versions of torch and transformers in an environment."""
    code = "import torch, transformers; print(torch.__version__, transformers.__version__)"
    command = [environment / "bin" / "python", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("environments", nargs="+", metavar="NAME=DIRECTORY")
    parser.add_argument("--vllm", nargs="*", default=[], metavar="NAME", help="which have vLLM")
    args = parser.parse_args()
    places = {
        name: Path(directory).resolve()
        for name, _, directory in (text.partition("=") for text in args.environments)
    }
    print("| run |", " | ".join(f"{name}: {versions(at)}" for name, at in places.items()), "|")
    print("| --- |" + " --- |" * len(places))
    with tempfile.TemporaryDirectory() as directory:
        for row in [*TRAIN, "eval, sample, show", "vllm"]:
            cells = []
            first: dict[str, Any] | None = None
            for name, environment in places.items():
                work = Path(directory) / name
                work.mkdir(exist_ok=True)
                try:
                    if row == "vllm" and name not in args.vllm:
                        cells.append("no vLLM")
                        continue
                    if row == "vllm":
                        actual = numbers(environment, work, row, VLLM)
                    elif row in TRAIN:
                        actual = numbers(environment, work, row, TRAIN[row])
                    else:
                        actual = evaluation(environment, work)
                except FailedError as error:
                    cells.append(str(error))
                    continue
                first = first or actual
                equal = sum(first.get(key) == value for key, value in actual.items())
                cells.append(f"{equal} of {len(actual)}")
            print(f"| {row} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
