"""Test what the lectures claim of the algorithms in runs that anybody can repeat.

    python benchmarks/claims.py [CLAIM…] [--seeds 0 1 2 3 4] [--jobs 2] [--trl-python PY]
    python benchmarks/claims.py --report                   # of the runs that are there

A claim is a few arms, each some settings of `rlvr train` on the built-in problems, that differ in
one thing. Those named `_all` take the problems of the default run, the others its levels 1 to 8,
where thirty steps show more. A run is a process with one thread; it leaves ARM-SEED.json in
benchmarks/results/claims (or --results DIRECTORY) and is never made twice, so that arms are shared
and an interrupted command goes on where it was. The report compares at equal steps, equal seconds
and equal generated tokens, with 95 % intervals over the seeds, and draws
benchmarks/pictures/CLAIM.svg. Seconds are the processor's, without measurements: they hardly change
with what else runs. TRL (`trl_run.py`) needs the Python of an environment that has it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from claims_report import report
from trl_run import KNOWN

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.evaluation.curves import FIGURES

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "benchmarks" / "pictures"
EVERY = 10
"""How often the held-out problems are measured, in steps."""
TRL = ("trl", "trl_all")
TEACHER = "TEACHER"
"""In an arm: the directory of the default run that is made once, for all arms to learn from."""
PRESETS = tuple(name for name in ALGORITHMS if name not in ("sft", "opd"))
_TRAIN = "--train"

PLAIN = ["algo=grpo", "algorithm.kl=none"]
FOUR, MANY = "algorithm.mini_batches=4", "algorithm.mini_batches=16"
HIGHER = [*PLAIN, MANY, "algorithm.surrogate.high=0.28"]
GAP = ["algo=dapo", MANY, "rollout.precision=bfloat16", "rollout.mismatch_limit=1"]
"""An engine in bfloat16 beside a trainer in float32: a large gap, also on a CPU."""
ARMS: dict[str, list[str]] = {
    "dapo_all": ["algo=dapo"],
    "grpo4_all": ["algo=grpo", FOUR],
    "grpo4": ["algo=grpo", FOUR],
    "grpo16": ["algo=grpo", MANY],
    "plain4": [*PLAIN, FOUR],
    "plain16": [*PLAIN, MANY],
    "higher16": HIGHER,
    "token16": [*HIGHER, "algorithm.aggregation=token_mean"],
    "dapo16": ["algo=dapo", MANY],
    "dapo16_low": ["algo=dapo", MANY, "algorithm.surrogate.high=0.2"],
    "dapo16_ratio": ["algo=dapo", MANY, "algorithm.surrogate=ratio"],
    "token4": [*PLAIN, FOUR, "algorithm.aggregation=token_mean"],
    "gap": [*GAP, "algorithm.importance_correction=none"],
    "gap_token": [*GAP, "algorithm.importance_correction=truncate"],
    "gap_response": [*GAP, "algorithm.importance_correction=geometric_mask"],
    "dr_grpo4": ["algo=dr_grpo", FOUR],
    "ppo4": ["algo=ppo", FOUR],
    "opd_all": ["algo=opd", f"teacher={TEACHER}", "rollout.samples=1", "rollout.prompts=64"],
    "grpo4_512": ["algo=grpo", FOUR, "data.limit=512"],
    "rest_grpo4_512": ["algo=grpo", FOUR, "data.limit=512", "data.rest=true"],
}
"""By name; any other arm is the preset of its name as it is."""
OF_512 = ("grpo4_512", "rest_grpo4_512")
STEPS = {
    **dict.fromkeys(OF_512, 160),
    **dict.fromkeys(("dapo", "grpo4", "trl"), 90),
    **dict.fromkeys(("dapo_all", "grpo4_all", "trl_all", "opd_all"), 60),
    **dict.fromkeys(("plain4", "token4", "dr_grpo4", "ppo4"), 45),
    **dict.fromkeys(("plain16", "higher16", "token16", "grpo16"), 40),
}
"""Steps of an arm, else 30: more if a step takes fewer tokens or learns less than the others'."""


@dataclass(frozen=True)
class Claim:
    """Holds a claim as a sentence, the arms that test it, and the figure that it is about."""

    sentence: str
    arms: tuple[str, ...]
    figure: str


CLAIMS = {
    "default": Claim(
        "The default run beside GRPO and TRL", ("trl_all", "grpo4_all", "dapo_all"), "entropy"
    ),
    "updates": Claim(
        "Several updates a batch learn more of the same tokens",
        ("grpo", "grpo4", "dapo"),
        "clip_fraction",
    ),
    "dapo": Claim("DAPO is above GRPO", ("trl", "grpo4", "dapo"), "response_length"),
    "dapo16": Claim(
        "DAPO is above GRPO with sixteen updates a batch", ("grpo16", "dapo16"), "entropy"
    ),
    "ladder": Claim(
        "Each of DAPO's techniques helps", ("plain16", "higher16", "token16", "dapo16"), "entropy"
    ),
    "entropy": Claim("Entropy collapses without clip-higher", ("dapo16_low", "dapo16"), "entropy"),
    "length": Claim(
        "The mean of a sequence's tokens favors long wrong responses",
        ("plain4", "token4", "dr_grpo4"),
        "response_length",
    ),
    "dead_groups": Claim(
        "Without dynamic sampling ever more groups give no signal",
        ("token16", "dapo16"),
        "mixed_share",
    ),
    "critic": Claim("A critic costs and does not pay here", ("grpo4", "ppo4"), "grad_norm"),
    "baseline": Claim("A baseline takes variance away", ("reinforce", "rloo"), "grad_norm"),
    "clip": Claim(
        "Several updates a batch need the clip", ("dapo16_ratio", "dapo16"), "clip_fraction"
    ),
    "rows": Claim(
        "Bounds on probabilities and maximum likelihood, beside DAPO",
        ("grpo4", "dapo", "dppo", "maxrl"),
        "clip_fraction",
    ),
    "gap": Claim(
        "A correction is for a gap between engine and trainer",
        ("dapo16", "gap", "gap_token", "gap_response"),
        "mismatch",
    ),
    "presets": Claim("Every preset as it is", PRESETS, "entropy"),
    "opd": Claim(
        "A trained teacher is worth its tokens many times", ("dapo_all", "opd_all"), "entropy"
    ),
    "rest": Claim("What was alike is better left to rest", OF_512, "mixed_share"),
}


def make(results: Path, trl_python: str | None, asked: int | None, run: tuple[str, int]) -> None:
    """Make one run as a process of its own and store its figures."""
    arm, seed = run
    steps = asked or STEPS.get(arm, 30)
    path = results / f"{arm}-{seed}.json"
    if path.exists():  # another command's
        return
    with tempfile.TemporaryDirectory() as directory:
        if arm in TRL:
            command = [trl_python or "", str(ROOT / "benchmarks" / "trl_run.py"), directory]
            command += ["--seed", str(seed), "--steps", str(steps), "--every", str(EVERY)]
            command += ["--our-python", sys.executable] + ["--all"] * (arm == "trl_all")
        else:
            settings = [*ARMS.get(arm, [f"algo={arm}"]), f"seed={seed}", f"steps={steps}"]
            settings = [one.replace(TEACHER, str(results / "teacher")) for one in settings]
            settings += [f"data.where={KNOWN}"] * (not arm.endswith("_all"))
            settings += [
                "threads=1",
                f"eval.every={EVERY}",
                "checkpoint.every=1000",
                "engine=transformers",
            ]
            command = [sys.executable, __file__, _TRAIN, f"{directory}/run", *settings]
        threads = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, env=os.environ | threads, capture_output=True, check=False)
        if done.returncode:
            print(f"{arm} {seed} failed:\n{done.stderr.decode()[-2000:]}", file=sys.stderr)
            return
        last = done.stdout.decode().splitlines()[-1:]
        figures = json.loads(last[0]) if arm in TRL else run_figures(Path(directory) / "run")
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(figures))
    unfinished.replace(path)
    last = figures["measured"][-1]
    print(f"{arm} seed {seed}: {last}", file=sys.stderr, flush=True)


def make_teacher(directory: Path) -> None:
    """Make the default run whose policy is the teacher of others, by a seed of no arm."""
    unfinished = directory.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    settings = ("threads=1", "seed=1000", "checkpoint.every=1000", "engine=transformers")
    subprocess.run([sys.executable, __file__, _TRAIN, str(unfinished), *settings], check=True)
    unfinished.replace(directory)


def train(directory: str, settings: list[str]) -> None:
    """Train in this process, with the processor's time as the clock."""
    import time

    time.perf_counter = time.process_time
    from rlvr_cli.cli.main import app

    options = [part for setting in settings for part in ("--set", setting)]
    app(["train", "--quiet", "--out", directory, *options])


def run_figures(run: Path) -> dict[str, Any]:
    """Return the figures of a run: of each step, and of the held-out problems where measured."""
    before = json.loads((run / "summary.json").read_text())["before"]
    measured = [point(0, 0.0, 0, before["pass@1"], before["by_level"])]
    steps = []
    seconds = 0.0
    tokens = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        seconds += row["seconds_step"]
        tokens += row["tokens_sampled"]
        steps.append({key: _rounded(row.get(key)) for key in ("step", *FIGURES)})
        if (value := row.get("held_out_pass@1")) is not None:
            levels = row["held_out_by_level"]
            measured.append(point(row["step"], seconds, tokens, value, levels))
    return {"measured": measured, "steps": steps}


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def point(step: int, seconds: float, tokens: int, value: float, levels: dict) -> dict[str, Any]:
    keys = ("step", "seconds", "tokens", "pass@1", "by_level")
    return dict(zip(keys, (step, round(seconds, 2), tokens, value, levels), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "claims")
    parser.add_argument("claims", nargs="*", help=f"of {', '.join(CLAIMS)}; none means all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, help="of every arm; none means its own number")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trl-python", help="without it TRL is left out")
    parser.add_argument("--report", action="store_true", help="make no run")
    if sys.argv[1:2] == [_TRAIN]:
        train(sys.argv[2], sys.argv[3:])
        return
    args = parser.parse_args()
    if unknown := [name for name in args.claims if name not in CLAIMS]:
        parser.error(f"no such claim: {', '.join(unknown)}; it is one of {', '.join(CLAIMS)}")
    args.results.mkdir(parents=True, exist_ok=True)
    claims = {name: CLAIMS[name] for name in args.claims or CLAIMS}
    missing = {
        (arm, seed): None
        for seed in args.seeds
        for claim in claims.values()
        for arm in claim.arms
        if not (args.results / f"{arm}-{seed}.json").exists()
        and (arm not in TRL or args.trl_python)
    }
    if not args.report:
        needs_teacher = any(TEACHER in "".join(ARMS.get(arm, ())) for arm, _ in missing)
        if needs_teacher and not (args.results / "teacher").exists():
            make_teacher(args.results / "teacher")
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(partial(make, args.results, args.trl_python, args.steps), missing))
    for name, claim in claims.items():
        report(name, claim.sentence, claim.arms, claim.figure, args.results, PICTURES)


if __name__ == "__main__":
    main()
