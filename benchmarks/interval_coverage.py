"""Simulate how often the 95 % intervals hold the truth, and how often they tell a difference.

    python benchmarks/interval_coverage.py [--trials 1000] [--seed 0]

A trial draws P problems, each with a rate from a Beta distribution, and k responses to each, and
asks whether the interval of `rlvr eval` holds the mean rate over all problems there could be.
Printed is the share of trials that hold the truth, a line a law and P, and the lowest and highest
of all.

A paired trial draws a second model on the same problems. It is better by `lift`: nothing, a tenth
of the way to 1 on all problems, all of the way on a twentieth of them. Printed are the shares of
trials whose interval holds the true difference (coverage) and is without 0 (power), and the same of
Student's interval on the same draws. A trial whose interval and p contradict each other is counted.

A crossed trial is an ablation's: some seeds, each of which lifts the problems another far, and
problems of which each takes another share of that.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.console.display import Display
from rlvr_cli.evaluation.estimators import (
    FEWEST_FLIPPED,
    OUTSIDE,
    crossed_difference,
    interval,
    paired_difference,
    student,
)

LAWS = ((0.02, 0.5), (0.05, 1.0), (0.1, 0.4), (0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (1.0, 0.05))
PROBLEMS, SAMPLES = (30, 100, 500), (1, 4, 16, 64)
LIFTS = ((0.0, 1.0), (0.1, 1.0), (1.0, 0.05))
"""How far towards 1 a problem is lifted, and on which share of the problems."""
PAIRED = ((30, 16), (100, 4), (500, 4), (1319, 1))
"""Problems and responses to each: AIME, AMC, MATH-500 and GSM8K as they are measured."""

SEEDS = (2, 3, 5, 10)
FARS = (0.0, 0.1, 0.3)
"""How far towards 1 the seeds lift a problem on average, each between nothing and twice as far."""


def single(law: Sequence[float], size: int, k: int, trials: int, rng: np.random.Generator) -> float:
    """Return the share of trials whose interval of pass@1 holds the law's mean."""
    a, b = law
    rights = rng.binomial(k, rng.beta(a, b, (trials, size))) / k
    intervals = np.array([interval(values, k) for values in rights.tolist()])
    return float(np.mean((intervals[:, 0] <= a / (a + b)) & (a / (a + b) <= intervals[:, 1])))


@dataclass(frozen=True)
class Shares:
    """Of the paired trials of a cell."""

    covered: float
    """The interval holds the true difference."""
    told: float
    """It is without 0."""
    covered_by_student: float
    told_by_student: float
    contradictions: int
    """Trials, not their share: 0 is outside of the interval, or p is below 0.05, but not both."""


def paired(
    law: Sequence[float],
    lift: Sequence[float],
    size: int,
    k: int,
    trials: int,
    rng: np.random.Generator,
) -> Shares:
    """Return what the trials of a second model show."""
    (a, b) = law
    (far, share) = lift
    rates = rng.beta(a, b, (trials, size))
    lifted = rates + far * (1 - rates) * (rng.random((trials, size)) < share)
    differences = (rng.binomial(k, lifted) - rng.binomial(k, rates)) / k
    pairs = [paired_difference(values, [0.0] * size) for values in differences.tolist()]
    intervals = np.array([pair.interval for pair in pairs])
    means = differences.mean(axis=1)
    half = student(size - 1) * differences.std(axis=1, ddof=1) / size**0.5
    students = np.stack([means - half, means + half], axis=1)
    truth = far * share * b / (a + b)
    is_told = without(intervals, 0.0)
    is_refused = np.array([pair.p < OUTSIDE for pair in pairs]) & (size >= FEWEST_FLIPPED)
    return Shares(
        covered=1 - float(np.mean(without(intervals, truth))),
        told=float(np.mean(is_told)),
        covered_by_student=1 - float(np.mean(without(students, truth))),
        told_by_student=float(np.mean(without(students, 0.0))),
        contradictions=int(np.sum(is_told != is_refused)),
    )


def without(intervals: np.ndarray, value: float) -> np.ndarray:
    """Return of each interval whether it does not hold a value."""
    return (intervals[:, 0] > value) | (intervals[:, 1] < value)


def crossed(
    law: Sequence[float],
    far: float,
    seeds: int,
    size: int,
    k: int,
    trials: int,
    rng: np.random.Generator,
) -> float:
    """Return the share of trials whose interval of an ablation's difference holds the truth."""
    (a, b) = law
    rates = rng.beta(a, b, (trials, 1, size))
    shares = rng.random((trials, 1, size))
    lifts = rng.uniform(0, 2 * far, (trials, seeds, 1)) * shares
    lifted = rates + lifts * (1 - rates)
    before = rng.binomial(k, rates, (trials, seeds, size))
    differences = (rng.binomial(k, lifted, (trials, seeds, size)) - before) / k
    truth = far * 0.5 * b / (a + b)
    intervals = [crossed_difference(cells).interval for cells in differences]
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def lines(trials: int, seed: int) -> Iterator[tuple[list[str], list[float]]]:
    """Yield a line of each law and number of problems: as text, and its shares."""
    for law in LAWS:
        for size in PROBLEMS:
            rng = np.random.default_rng([seed, LAWS.index(law), size])
            shares = [single(law, size, k, trials, rng) for k in SAMPLES]
            cells = [f"{share:.3f}" for share in shares]
            yield [f"{law[0]:g}, {law[1]:g}", str(size), *cells], shares


def paired_lines(trials: int, seed: int) -> Iterator[list[str]]:
    """Yield a line of each lift and each number of problems and responses, over all laws."""
    for far, share in LIFTS:
        for size, k in PAIRED:
            rng = np.random.default_rng([seed, LIFTS.index((far, share)), size])
            cells = [paired(law, (far, share), size, k, trials, rng) for law in LAWS]
            lowest = min(cells, key=lambda cell: cell.covered)
            less = [cell.told_by_student - cell.told for cell in cells]
            yield [
                f"{far:g} on {share:g}",
                f"{size} x {k}",
                f"{lowest.covered:.3f} to {max(cell.covered for cell in cells):.3f}",
                f"{min(cell.covered_by_student for cell in cells):.3f}",
                " ".join(f"{cell.told:.2f}" for cell in cells),
                f"{max(less):.3f}",
                str(sum(cell.contradictions for cell in cells)),
            ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = list(lines(args.trials, args.seed))
    header = ["Beta", "problems", *(f"k {k}" for k in SAMPLES)]
    Display(stderr=False).table([header, *(cells for cells, _ in rows)])
    shares = sorted(share for _, shares_of_line in rows for share in shares_of_line)
    middle = shares[len(shares) // 2]
    lowest = shares[0]
    highest = shares[-1]
    n_near = sum(0.93 <= share <= 0.98 for share in shares)
    print(
        f"pass@1: {len(shares)} situations, {lowest:.3f} to {highest:.3f}, median {middle:.3f}, "
        f"{n_near} of them in 0.93 to 0.98"
    )
    header = [
        "lift",
        "P x k",
        "coverage",
        "Student's lowest",
        "power by law",
        "below Student's at most",
        "contradictions",
    ]
    Display(stderr=False).table([header, *paired_lines(args.trials, args.seed)])
    for seeds in SEEDS:
        rng = np.random.default_rng([args.seed, seeds])
        shares = [
            crossed(law, far, seeds, size, 4, args.trials, rng)
            for law in LAWS
            for far in FARS
            for size in PROBLEMS
        ]
        middle = float(np.median(shares))
        print(
            f"ablation, {seeds} seeds: {len(shares)} situations, {min(shares):.3f} to "
            f"{max(shares):.3f}, median {middle:.3f}"
        )


if __name__ == "__main__":
    main()
