"""Kill a run at random moments, resume it each time, and compare it with an unbroken run.

python benchmarks/kill_resume.py [--algo dapo ppo] [--kills 100] [--processes 1] [-- OPTIONS]

Half of the kills come at a random time, half inside a write: as a file is synced or renamed. Each
life is a fork of this process, which has everything imported. With several processes any one of
them is killed at a random time, and the command has to end by itself. Exits with 1 unless weights,
state, rollouts, metrics and summary (but for times, speeds and memory) equal the unbroken run's bit
for bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers  # noqa: F401  (so that no life has to import it)
from same_runs import MEASURED

from rlvr_cli.cli.main import app
from rlvr_cli.program import train  # noqa: F401  (the same)

COMMAND = ["train"]
SETTINGS = ("eval.limit=4", "eval.every=3", "checkpoint.keep=2", "checkpoint.every=1")
SHORT = ["--steps", "8", "--prompts", "4", "-n", "4", "--max-tokens", "40", "--limit", "64"]
SMALL = [*SHORT, *(part for setting in SETTINGS for part in ("--set", setting))]
TIMED = ("minutes", "trainer/state.json")
WRITES_A_STEP, KILLS_A_RUN = 30, 10


def repeatable(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a step without those that depend on the machine and the moment."""
    return {name: value for name, value in metrics.items() if not name.startswith(MEASURED)}


def life(
    args: list[str], log: Path, die_after: float | None, die_in_write: int | None = None
) -> int | None:
    """Return the exit code of `rlvr ARGS`, or None if it was killed, after some seconds or at a
    write."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if die_in_write is not None:
            kill_in_write(die_in_write)
        sys.argv = ["rlvr", *args]
        code = 1
        try:
            code = app(args, standalone_mode=False) or 0
        except SystemExit as end:  # of the launcher
            code = int(end.code or 0)
        finally:
            os._exit(code)
    deadline = time.monotonic() + (die_after if die_after is not None else 600.0)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        if time.monotonic() > deadline:
            kill_one(child)
            return None
        time.sleep(0.002)


def kill_one(command: int) -> None:
    """Kill one of the processes that the command has started, else the command. Wait for its end,
    which has to come within a minute."""
    started = Path(f"/proc/{command}/task/{command}/children").read_text().split()
    os.kill(int(random.choice(started)) if started else command, signal.SIGKILL)
    signal.alarm(60)
    os.waitpid(command, 0)
    signal.alarm(0)


def kill_in_write(number: int) -> None:
    """Let this process die at its `number`-th sync or rename, just before or just after it."""
    left = [number]

    def dying(function):
        def wrapped(*args):
            left[0] -= 1
            if left[0] == 0 and number % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    os.fsync = dying(os.fsync)
    Path.rename = dying(Path.rename)


def broken_run(
    args: list[str], run: Path, kills: int, seconds: float, in_writes: bool, rng: random.Random
) -> Counter[str]:
    """Run, kill (at most `kills` times) and resume to the end. Count the moments of the kills."""
    log = run.with_suffix(".log")
    interrupted: Counter[str] = Counter()
    while True:
        resumes = (run / "config.yaml").exists()
        if not resumes:
            shutil.rmtree(run, ignore_errors=True)
        command = ["--resume", str(run)] if resumes else [*args, "--out", str(run)]
        after = number = None
        if sum(interrupted.values()) < kills:
            if in_writes and rng.random() < 0.5:
                number = rng.randint(1, WRITES_A_STEP)
            else:
                after = rng.uniform(0, seconds)
        code = life([*COMMAND, *command], log, after, number)
        if code:
            raise SystemExit(f"a life failed:\n{log.read_text()[-2000:]}")
        if code == 0:
            return interrupted
        partial = any(run.parent.rglob(".*.partial"))
        interrupted["inside a write" if partial else "elsewhere"] += 1


def differences(run_a: Path, run_b: Path) -> list[str]:
    """Return the files that differ between two runs, apart from times."""
    names: set[str] = set()
    for run in (run_a, run_b):
        names.update(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    return sorted(name for name in names if contents(run_a / name) != contents(run_b / name))


def contents(path: Path) -> object:
    """Return what has to be equal in a file, or None without the file."""
    if not path.exists():
        return None
    if path.name == "metrics.jsonl":
        return [repeatable(json.loads(line)) for line in path.open()]
    if path.name in ("summary.json", "state.json", "manifest.json"):
        return without_times(json.loads(path.read_text()))
    return path.read_bytes()


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    """Return a summary, a state or the checksums of a checkpoint without its times."""
    values = {key: value for key, value in values.items() if key not in TIMED}
    if "figures" in values:
        values["figures"] = repeatable(values["figures"])
    if "progress" in values:
        values["progress"] = {**values["progress"], "seconds": None}
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algo", nargs="+", default=["dapo", "ppo"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("options", nargs="*", default=SMALL, help="of rlvr train, after --")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared_out = options.processes > 1
    if shared_out:
        COMMAND.extend(["--processes", str(options.processes)])
    failed = False
    for algo in options.algo:
        rng = random.Random(f"{options.seed}:{algo}")
        args = ["--algo", algo, *options.options]
        with tempfile.TemporaryDirectory() as place:
            unbroken, broken = Path(place) / "whole", Path(place) / "broken"
            started = time.monotonic()
            if life([*COMMAND, *args, "--out", str(unbroken)], unbroken.with_suffix(".log"), None):
                raise SystemExit(unbroken.with_suffix(".log").read_text()[-2000:])
            seconds = time.monotonic() - started
            interrupted: Counter[str] = Counter()
            wrong = []
            runs = 0
            while interrupted.total() < options.kills:
                shutil.rmtree(broken, ignore_errors=True)
                left = options.kills - interrupted.total()
                kills = min(left, KILLS_A_RUN)
                interrupted += broken_run(args, broken, kills, seconds / 2, not shared_out, rng)
                wrong += differences(unbroken, broken)
                runs += 1
        failed = failed or bool(wrong)
        summary = ", ".join(f"{count} {moment}" for moment, count in sorted(interrupted.items()))
        print(f"{algo}: {interrupted.total()} kills of {runs} runs ({summary}): ", end="")
        print(f"{sorted(set(wrong))} differ" if wrong else "equal bit for bit", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
