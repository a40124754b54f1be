r"""Count how often an answer that ignores the gold is paid, which a reward must not do.

    python benchmarks/paid_without_knowing.py [--data DIR] [--problems N]

About 70 answers (constants, lists, sets, the question's own numbers and formulas, many boxes, many
statements) are given to problems of GSM8K and MATH-500 in each format. None may be paid more often
than the best constant of the same problems plus 0.5 %. The last steps of GSM8K's solutions, left
undone, may not be paid at all in the strict formats.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from verifiers import Attempt, Format, Verdict, Verifier

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Between dollars of money stand words, and no formula.
FORMULA = re.compile(r"\$((?![^$]*[a-z]{2,} [a-z]{2,})[^$]+)\$")
STEP = re.compile(r"<<([^<>=]*[-+*/][^<>=]*)=[^<>]*>>")
ALLOWED = 0.005
CONSTANTS = [
    *map(str, range(21)),
    *map(str, (-1, 25, 30, 36, 50, 60, 72, 100, 1000)),
    r"\frac{1}{2}",
    r"\frac{1}{3}",
    r"\pi",
    r"\sqrt{2}",
    "A",
    "B",
    "C",
    "D",
    "yes",
]
GUESSES = [str(number) for number in range(21)]
BLIND = [
    "x",
    "n",
    "y = x",
    "0/0",
    "1/0",
    r"\infty",
    r"(-\infty, \infty)",
    r"\mathbb{R}",
    "all real numbers",
    "no solution",
    r"\emptyset",
    "?",
    "...",
    "the answer",
    "unknown",
    ", ".join(GUESSES),
    r"\{" + ", ".join(GUESSES) + r"\}",
    " or ".join(GUESSES),
    "1 or 2",
    "[0, 100]",
    r"0 \le x \le 100",
    r"\{x : x \in \mathbb{R}\}",
    "1, 2, 3, ...",
    r"\pm 1",
    "x = x",
    "0 = 0",
    r"x \text{ for some } x",
    r"\text{any number}",
]
"""Answers that are the same for each problem, beside the constants."""


def answers_to(question: str) -> dict[str, str]:
    """Return the answers that repeat the question: its numbers, sums of them, its formulas."""
    numbers = NUMBER.findall(question) or ["0"]
    formulas = FORMULA.findall(question) or ["x"]
    return {
        "its first number": numbers[0],
        "its last number": numbers[-1],
        "its numbers": ", ".join(numbers),
        "their sum": " + ".join(numbers),
        "their product": r" \times ".join(numbers),
        "their quotient": "/".join(numbers[-2:]),
        "its first formula": formulas[0],
        "its last formula": formulas[-1],
        "its formulas": ", ".join(formulas),
        "the question": question,
    }


def marked(answer: str, format: Format) -> str:
    """Return a response that states an answer in the place of a format."""
    if format == "think_answer":
        return f"<think>I guess.</think>\n<answer>{answer}</answer>"
    return f"I guess $\\boxed{{{answer}}}$." if format == "boxed" else f"The answer is {answer}."


def many_marks() -> dict[str, str]:
    """Return responses that mark each of 21 guesses."""
    return {
        "21 boxes": " ".join(rf"Perhaps $\boxed{{{guess}}}$." for guess in GUESSES),
        "21 boxes in a row": " ".join(rf"$\boxed{{{guess}}}$" for guess in GUESSES),
        "21 statements": " ".join(f"The answer is {guess}." for guess in GUESSES),
        "21 lines": "\n".join(GUESSES),
        "21 ####": "\n".join(f"#### {guess}" for guess in GUESSES),
    }


def problems(data: Path, count: int) -> list[tuple[str, str]]:
    """Return (question, gold) of both files, as many of each, evenly spread."""
    pairs = []
    for name, question in (("gsm8k_test.jsonl", "question"), ("math500.jsonl", "problem")):
        rows = [json.loads(line) for line in (data / name).read_text("utf-8").splitlines()]
        pairs += [(row[question], str(row["answer"])) for row in spread(rows, count // 2)]
    return pairs


def spread(rows: list, count: int) -> list:
    """Return that many rows at even distances."""
    count = min(count, len(rows))
    return [rows[number * len(rows) // count] for number in range(count)]


def responses(question: str, format: Format) -> Iterator[tuple[str, str]]:
    """Yield (name, response) of all that is tried on a problem."""
    for answer in CONSTANTS:
        yield f"constant {answer}", marked(answer, format)
    for answer in BLIND:
        yield answer[:40], marked(answer, format)
    for name, answer in answers_to(question).items():
        yield name, marked(answer, format)
    for name, answer in many_marks().items():
        is_strict = format == "think_answer"
        yield name, f"<think>t</think><answer>{answer}</answer>" if is_strict else answer


def paid(tasks: list[tuple[str, str]], format: Format) -> Counter[str]:
    """Return how often each answer is paid."""
    times_paid: Counter[str] = Counter()
    with Verifier(format=format) as verifier:
        for question, gold in tasks:
            for name, response in responses(question, format):
                times_paid[name] += (
                    verifier.verify(Attempt(response, gold)).verdict is Verdict.CORRECT
                )
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
        if computations := STEP.findall(row["answer"]):
            steps.append((spelled(computations[-1]), row["answer"]))
    return spread(steps, count)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it stands": lambda step: step,
    "in LaTeX": lambda step: step.replace("*", r" \times ").replace("/", r" \div "),
    "as a fraction": lambda step: re.sub(r"([\d.]+)/([\d.]+)", r"\\frac{\1}{\2}", step),
    "with a unit": lambda step: f"{step} dollars",
    "as x": lambda step: f"x = {step}",
}


def undone_paid(data: Path, count: int, format: Format) -> list[tuple[str, str]]:
    """Return the last steps left undone that a format pays."""
    with Verifier(format=format) as verifier:
        return [
            (step, gold)
            for spelled in SPELLINGS.values()
            for step, gold in undone(data, count, spelled)
            if verifier.verify(Attempt(marked(step, format), gold)).verdict is Verdict.CORRECT
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--problems", type=int, default=900)
    options = parser.parse_args()
    tasks = problems(options.data, options.problems)
    failed = False
    for format in get_args(Format):
        times_paid = paid(tasks, format)
        others = {
            name: times for name, times in times_paid.items() if not name.startswith("constant ")
        }
        best = max((times_paid[f"constant {answer}"], answer) for answer in CONSTANTS)
        print(
            f"{format}: {len(others)} answers x {len(tasks)} problems, {sum(others.values())} paid"
        )
        print(f"  best constant: {best[1]} ({best[0]} times)")
        for name, times in sorted(others.items(), key=lambda pair: -pair[1])[:5]:
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
