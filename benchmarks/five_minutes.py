"""Compare recipes of SmolLM2-135M by what they learn in five minutes of a core.

    python benchmarks/five_minutes.py DIRECTORY --model DIR                # all arms on additions
    python benchmarks/five_minutes.py DIRECTORY --model DIR --problems chain_sum \\
        --arms recipe lora --seeds 0 1 2
    python benchmarks/five_minutes.py DIRECTORY --table                    # of what is there

Each arm is recipes/smollm2.yaml with one change. A run trains with one thread until another step
as long as its last would pass the budget, which counts the processor's seconds of steps and not of
loading or measuring. Then the policy gives two answers to each of 300 held-out problems. The
problems are those of trl_learning.py, and `start` is the model before training. DIRECTORY keeps a
file for each run that is done, and such runs are left out when the command is given again. `DIR` is
what benchmarks/smollm.py prints. chain_sum and basic_arithmetic need reasoning-gym.
"""

import argparse
import json
import shutil
import statistics
from contextlib import suppress
from pathlib import Path

from trl_learning import write_problems

from rlvr_cli import evaluate, train

ROOT = Path(__file__).parents[1]
BUDGET_S = 300.0
ANSWERS = 2
ARMS: dict[str, dict[str, object]] = {
    "recipe": {},
    "two-updates": {"algorithm.mini_batches": 2},
    "four-prompts": {"rollout.prompts": 4},
    "filter": {"algorithm.filter": "mixed"},
    "lora": {"lora.rank": 32, "optim.lr": 2e-4},
    "double-rate": {"optim.lr": 4e-5},
    "groups-of-16": {"rollout.samples": 16, "rollout.prompts": 4},
    "groups-of-4": {"rollout.samples": 4, "rollout.prompts": 16},
    "16-bits": {"optim.precision": "bfloat16", "rollout.precision": "bfloat16"},
}
"""What each arm changes in the recipe, which has 8 prompts x 8 samples and one update a batch.
`data.rest` is none of them: in five minutes no problem comes a second time."""
WITHOUT_EXTRAS = {
    "eval.source": None,
    "checkpoint.every": 1000,
    "checkpoint.minutes": 1000,
    "threads": 1,
}
"""Nothing is measured or saved while a run trains."""
SOURCES = {
    "additions": None,
    "chain_sum": "gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=2",
    "basic_arithmetic": "gym:basic_arithmetic?max_terms=2&max_digits=2&allow_parentheses=false"
    '&allow_negation=false&operators=["+","-","*"]',
}
PROMPTS = {"basic_arithmetic": "{problem} Reply with the answer only."}
"""The prompts of problems that are not asked as they are."""


class BudgetSpentError(Exception):
    """Ends a run whose next step would pass the budget."""


class Budget:
    """Counts the steps of a run and their processor's seconds."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used_s = 0.0
        self.steps = 0

    def __call__(self, metrics: dict, groups: list) -> None:
        """Count a step. Raises BudgetSpentError if another one as long would pass the limit."""
        step_s = metrics["seconds_processor"]
        self.used_s += step_s
        self.steps += 1
        if self.used_s + step_s > self.limit_s:
            raise BudgetSpentError


def train_within(
    directory: Path, model: str, arm: str, seed: int, prompt: str, out: Path, limit_s: float
) -> Budget:
    """Train an arm until the budget is spent, and return what was used."""
    budget = Budget(limit_s)
    with suppress(BudgetSpentError):
        train(
            str(directory / "train.jsonl"),
            config=ROOT / "recipes" / "smollm2.yaml",
            model=model,
            seed=seed,
            prompt=prompt,
            steps=1000,
            set={**WITHOUT_EXTRAS, **ARMS[arm]},
            out=out,
            on_step=budget,
        )
    return budget


def measure(directory: Path, model: str, prompt: str) -> dict:
    """Return pass@1 on the held-out problems, with its interval over problems."""
    report = evaluate(
        str(directory / "heldout.jsonl"),
        model=model,
        prompt=prompt,
        n=ANSWERS,
        temperature=0.7,
        top_p=1.0,
        max_tokens=16,
        set={"threads": 1},
    )
    (result,) = report["results"]
    return result["pass@k"]["1"]


def make(args: argparse.Namespace, arm: str, seed: int) -> None:
    """Train and measure an arm with a seed, and keep its figures."""
    directory = args.directory / args.problems
    place = directory / f"{arm}-{seed}.json"
    if place.exists():
        return
    if not (directory / "train.jsonl").exists():
        write_problems(directory, SOURCES[args.problems])
    prompt = PROMPTS.get(args.problems, "plain")
    figures: dict[str, object] = {"arm": arm, "seed": seed, "steps": 0, "seconds": 0.0}
    if arm == "start":
        figures["pass@1"] = measure(directory, args.model, prompt)
    else:
        out = directory / f"{arm}-{seed}"
        shutil.rmtree(out, ignore_errors=True)
        budget = train_within(directory, args.model, arm, seed, prompt, out, args.budget)
        figures["steps"] = budget.steps
        figures["seconds"] = round(budget.used_s, 1)
        figures["pass@1"] = measure(directory, str(out), prompt)
        figures["metrics"] = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        shutil.rmtree(out)
    place.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(json.dumps({key: value for key, value in figures.items() if key != "metrics"}))


def table(directory: Path) -> list[str]:
    """Return the lines of a table: for each set of problems and arm, what its seeds learned."""
    lines = ["| problems | arm | seeds | steps | seconds | held-out pass@1, each | mean |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for problems in SOURCES:
        runs: dict[str, list[dict]] = {}
        for path in sorted((directory / problems).glob("*-*.json")):
            row = json.loads(path.read_text(encoding="utf-8"))
            runs.setdefault(row["arm"], []).append(row)
        means = {
            arm: statistics.mean(row["pass@1"]["value"] for row in rows)
            for arm, rows in runs.items()
        }
        for arm in sorted(runs, key=means.__getitem__, reverse=True):
            rows = runs[arm]
            seeds = ", ".join(str(row["seed"]) for row in rows)
            steps = ", ".join(str(row["steps"]) for row in rows)
            seconds = ", ".join(f"{row['seconds']:.0f}" for row in rows)
            each_seed = ", ".join(interval(row["pass@1"]) for row in rows)
            lines.append(
                f"| {problems} | {arm} | {seeds} | {steps} | {seconds} | {each_seed} | "
                f"{means[arm]:.3f} |"
            )
    return lines


def interval(figure: dict) -> str:
    """Return a figure with its interval over problems: `0.146 [0.089, 0.230]`."""
    low, high = figure["interval"]
    return f"{figure['value']:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", help="a directory")
    parser.add_argument("--problems", default="additions", choices=SOURCES)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=["start", *ARMS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of the processor")
    parser.add_argument("--table", action="store_true", help="make no run")
    args = parser.parse_args()
    if not args.table:
        if args.model is None:
            parser.error("--model is missing: python benchmarks/smollm.py makes one and prints it")
        for arm in args.arms:
            for seed in args.seeds:
                make(args, arm, seed)
    print("\n".join(table(args.directory)))


if __name__ == "__main__":
    main()
