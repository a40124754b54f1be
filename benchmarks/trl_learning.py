"""Compare what SmolLM2-135M learns with our GRPO and with TRL's, over seeds.

    python benchmarks/trl_learning.py DIRECTORY --trl-python PY --model DIR --seeds 0 1 2 \\
        --problems 'gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=2'
    python benchmarks/trl_learning.py DIRECTORY --table        # of what is there, without training

Both take recipes/smollm2.yaml (ten updates of Dr. GRPO on 64 responses each, one thread), the same
500 problems in the same order, which the seed decides, and passes of equal size. Each trained model
gives four answers to each of 300 held-out problems. TRL is measured twice: after all ten steps, and
after its last step that ended within the processor's seconds of our whole run. DIRECTORY keeps
seed-N.json for each seed that is done, and leaves such seeds out when it is called again.
"""

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import additions
import trl_real

ROOT = Path(__file__).parents[1]
TRAIN, HELD_OUT, ANSWERS = 500, 300, 4
NEEDED = trl_real.PROMPTS * trl_real.RECIPE["steps"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def write_problems(directory: Path, source: str | None) -> None:
    """Write train.jsonl and heldout.jsonl, which have no problem in common."""
    if source is None:
        pairs = additions.problems()
        rows = pairs["train"][: TRAIN + HELD_OUT]
    else:
        from rlvr_cli.data.problems import load_problems

        problems = load_problems(f"{source}&size={TRAIN + HELD_OUT}", "train").problems
        rows = [{"problem": problem.problem, "answer": problem.answer} for problem in problems]
    directory.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", rows[:TRAIN]), ("heldout", rows[TRAIN:])):
        lines = "".join(json.dumps(row) + "\n" for row in part)
        (directory / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def seconds_of(command: list[str]) -> float:
    """Run a command and return the processor's seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(directory: Path, model: Path) -> list[float]:
    """Return the share of right answers to each held-out problem."""
    out = directory / "result"
    shutil.rmtree(out, ignore_errors=True)
    temperature = trl_real.RECIPE["rollout"]["temperature"]
    options = f"--prompt plain -n {ANSWERS} --temperature {temperature} --top-p 1"
    options += f" --max-tokens {trl_real.MAX_TOKENS} --quiet"
    command = [sys.executable, "-m", "rlvr_cli", "eval", str(directory / "heldout.jsonl")]
    command += ["--model", str(model), "--out", str(out)]
    seconds_of(command + options.split())
    right: dict[str, list[bool]] = {}
    for path in sorted((out / "responses").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            right.setdefault(row["id"], []).append(row["verdict"] == "correct")
    return [sum(answers) / len(answers) for answers in right.values()]


def compare(directory: Path, trl_python: str, model: str, seed: int) -> dict:
    """Train on both sides with one seed, and return what each learned."""
    run = directory / f"ours-{seed}"
    peer = directory / f"trl-{seed}"
    for place in (run, peer):
        shutil.rmtree(place, ignore_errors=True)
    command = [sys.executable, "-m", "rlvr_cli", "train", str(directory / "train.jsonl")]
    command += ["--config", str(ROOT / "recipes" / "smollm2.yaml"), "--model", model, "--quiet"]
    command += ["--seed", str(seed), "--set", "eval.source=null", "--out", str(run)]
    ours_s = seconds_of(command)
    command = [trl_python, str(Path(__file__)), str(directory), "--model", model]
    command += ["--trl-side", str(seed), "--within", str(ours_s)]
    trl_s = seconds_of(command)
    kept = json.loads((peer / "kept.json").read_text(encoding="utf-8"))
    figures = {
        "seed": seed,
        "ours": {"seconds": ours_s, "right": measure(directory, run)},
        "trl": {"seconds": trl_s, "right": measure(directory, peer)},
        "trl within": {**kept, "right": measure(directory, peer / "within")},
    }
    for place in (run, peer):
        shutil.rmtree(place)
    return figures


def train_with_trl(directory: Path, model: str, seed: int, within: float) -> None:
    """Train with TRL on our order of the problems, and keep the model of the last step that ended
    within so many of the processor's seconds (the start model if none did)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    from rlvr_cli.data.problems import ProblemOrder, load_problems

    problems = load_problems(str(directory / "train.jsonl"), "train").problems
    draws = ProblemOrder(len(problems), seed).draw(NEEDED)
    ordered = [problems[problem] for _, problem in draws]
    peer = directory / f"trl-{seed}"
    start = AutoModelForCausalLM.from_pretrained(model)
    start.save_pretrained(peer / "within")
    AutoTokenizer.from_pretrained(model).save_pretrained(peer / "within")
    kept = {"step": 0, "seconds": 0.0}

    class Keep(TrainerCallback):
        """Writes the model after each step within the time, whose own seconds do not count."""

        saving = 0.0

        def on_step_end(self, args: object, state, control, model, **_: object) -> None:
            busy = time.process_time() - self.saving
            if busy > within:
                return
            model.save_pretrained(peer / "within")
            kept.update(step=state.global_step, seconds=busy)
            self.saving += time.process_time() - busy - self.saving

    trl_real.train(peer, model, ordered, seed, shuffle=False, callbacks=[Keep()])
    (peer / "kept.json").write_text(json.dumps(kept), encoding="utf-8")


def table(directory: Path) -> None:
    """Print each seed, and the mean differences with their 95 % intervals over seeds."""
    from rlvr_cli.evaluation.estimators import student

    files = sorted(directory.glob("seed-*.json"), key=lambda path: int(path.stem[5:]))
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    print("| seed | ours | TRL | TRL within our seconds | seconds of a core: ours, TRL |")
    print("| --- | --- | --- | --- | --- |")
    shares: dict[str, list[float]] = {"ours": [], "trl": [], "trl within": []}
    for row in rows:
        for name, values in shares.items():
            values.append(sum(row[name]["right"]) / len(row[name]["right"]))
        print(
            f"| {row['seed']} | {shares['ours'][-1]:.3f} | {shares['trl'][-1]:.3f} | "
            f"{shares['trl within'][-1]:.3f} (step "
            f"{row['trl within']['step']}) | {row['ours']['seconds']:.0f}, "
            f"{row['trl']['seconds']:.0f} |"
        )
    for name, label in (("trl", "equal steps"), ("trl within", "equal seconds")):
        pairs = zip(shares["ours"], shares[name], strict=True)
        differences = [ours - trl for ours, trl in pairs]
        mean = statistics.mean(differences)
        line = f"\nours - TRL, {label}, {len(differences)} seeds: {mean:.3f}"
        if len(differences) > 1:
            half = student(len(differences) - 1) * statistics.stdev(differences)
            half /= math.sqrt(len(differences))
            line += f" [{mean - half:.3f}, {mean + half:.3f}], half-width {half:.3f}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--trl-python")
    parser.add_argument("--model", help="a directory")
    parser.add_argument("--problems", help="as rlvr train reads them; none: additions")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--trl-side", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--within", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if args.trl_side is not None:
        train_with_trl(args.directory, args.model, args.trl_side, args.within)
        return
    if not args.table:
        if not (args.directory / "train.jsonl").exists():
            write_problems(args.directory, args.problems)
        for seed in args.seeds:
            place = args.directory / f"seed-{seed}.json"
            if not place.exists():
                figures = compare(args.directory, args.trl_python, args.model, seed)
                place.write_text(json.dumps(figures), encoding="utf-8")
    table(args.directory)


if __name__ == "__main__":
    main()
