r"""Count how often an answer that ignores the gold gets a reward, which must not be.

    python benchmarks/paid_without_knowing.py [--data DIR] [--problems N]

The constants and blind answers of `rlvr audit` (lists, sets, the question's own numbers and
formulas, many boxes, many statements) are given to problems of GSM8K and MATH-500 in each format.
None may be paid more often than the best constant of the same problems plus 0.5 %. The last steps
of GSM8K's solutions, left undone, may not be paid at all in the strict formats.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from rlvr_cli.core.types import Problem
from rlvr_cli.rewards.trials import ANSWER_FORMS, CONSTANTS, Case
from verifiers import Attempt, Format, Verdict, Verifier

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
THINK_ANSWER = "<think> </think> <answer>X</answer>"
STEP = re.compile(r"<<([^<>=]*[-+*/][^<>=]*)=[^<>]*>>")
ALLOWED = 0.005


def marked(answer: str, format: Format) -> str:
    """Return a response that states an answer in the place of a format."""
    if format == "think_answer":
        return f"<think>I guess.</think>\n<answer>{answer}</answer>"
    return f"I guess $\\boxed{{{answer}}}$." if format == "boxed" else f"The answer is {answer}."


def problems(data: Path, count: int) -> list[tuple[str, str]]:
    """Return (question, gold) of both files, as many of each, evenly spread."""
    pairs = []
    for name, question in (("gsm8k_test.jsonl", "question"), ("math500.jsonl", "problem")):
        rows = [json.loads(line) for line in (data / name).read_text("utf-8").splitlines()]
        pairs += [(row[question], str(row["answer"])) for row in evenly_spaced(rows, count // 2)]
    return pairs


def evenly_spaced(rows: list, count: int) -> list:
    """Return that many rows at even distances."""
    count = min(count, len(rows))
    return [rows[number * len(rows) // count] for number in range(count)]


def responses(question: str, gold: str, format: Format) -> Iterator[tuple[str, str]]:
    """Yield (name, response) of the constants and the blind answers that `rlvr audit` tries."""
    names = {"boxed": r"\boxed{X}", "any": "The answer is X."}
    answer_form = ANSWER_FORMS[names.get(format, THINK_ANSWER)]
    case = Case(Problem("", question, gold), gold, "", answer_form)
    # An audit leaves a constant out where it is right, and here it counts as luck.
    for answer in CONSTANTS:
        yield f"constant {answer}", case.text(answer)
    for trial in case.trials([]):
        if trial.check in ("blind", "echo"):
            yield f"{trial.check} {trial.row}", trial.response


def paid(tasks: list[tuple[str, str]], format: Format) -> Counter[str]:
    """Return how often each answer gets a reward."""
    times_paid: Counter[str] = Counter()
    with Verifier(format=format) as verifier:
        for question, gold in tasks:
            for name, response in responses(question, gold, format):
                attempt = Attempt(response, gold, problem=question)
                if verifier.verify(attempt).verdict is Verdict.CORRECT:
                    times_paid[name] += 1
    return times_paid


def too_often(times_paid: Counter[str], count: int) -> dict[str, int]:
    """Return the answers that are paid more often than the best constant allows."""
    best = max(times_paid[f"constant {answer}"] for answer in CONSTANTS)
    return {name: times for name, times in times_paid.items() if times > best + ALLOWED * count}


def undone(data: Path, count: int, spelled: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return (last step, gold) of GSM8K's solutions where the step comes to the gold."""
    lines = (data / "gsm8k_test.jsonl").read_text("utf-8").splitlines()
    steps = []
    for row in map(json.loads, lines):
        computations = STEP.findall(row["answer"])
        if computations:
            steps.append((spelled(computations[-1]), row["answer"]))
    return evenly_spaced(steps, count)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it stands": lambda step: step,
    "in LaTeX": lambda step: step.replace("*", r" \times ").replace("/", r" \div "),
    "as a fraction": lambda step: re.sub(r"([\d.]+)/([\d.]+)", r"\\frac{\1}{\2}", step),
    "with a unit": lambda step: f"{step} dollars",
    "as x": lambda step: f"x = {step}",
}


def undone_paid(data: Path, count: int, format: Format) -> list[tuple[str, str]]:
    """Return the last steps left undone that a format takes for right."""
    with Verifier(format=format) as verifier:
        rewarded = []
        for spelled in SPELLINGS.values():
            for step, gold in undone(data, count, spelled):
                attempt = Attempt(marked(step, format), gold)
                if verifier.verify(attempt).verdict is Verdict.CORRECT:
                    rewarded.append((step, gold))
        return rewarded


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--problems", type=int, default=900)
    options = parser.parse_args()
    tasks = problems(options.data, options.problems)
    failed = False
    for format in get_args(Format):
        times_paid = paid(tasks, format)
        blind = {
            name: times for name, times in times_paid.items() if not name.startswith("constant ")
        }
        best = max((times_paid[f"constant {answer}"], answer) for answer in CONSTANTS)
        print(f"{format}: {len(blind)} answers x {len(tasks)} problems, {sum(blind.values())} paid")
        print(f"  best constant: {best[1]} ({best[0]} times)")
        for name, times in sorted(blind.items(), key=lambda pair: -pair[1])[:5]:
            print(f"  {name}: {times}")
        over = too_often(times_paid, len(tasks))
        failed = failed or bool(over)
        print(f"  paid too often: {over or 'none'}")
        if format != "any":
            left = undone_paid(options.data, 10_000, format)
            failed = failed or bool(left)
            print(f"  last steps of GSM8K left undone, paid: {len(left)} {left[:5]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
