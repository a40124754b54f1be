"""Simulate how often the 95 % intervals hold the truth.

    python benchmarks/interval_coverage.py [--trials 1000] [--seed 0]

A trial draws P problems, each with a rate from a Beta distribution, and k responses to each, and
asks whether the interval of `rlvr eval` holds the mean rate over all problems there could be. A
paired trial draws a second model on the same problems, better by `lift`; a column each for none,
for a tenth of the way to 1 on all problems, and for all of the way on a twentieth of them. A
crossed trial is an ablation's: some seeds, each of which lifts the problems another far, and
problems of which each takes another share of that. Printed is the share of trials that hold the
truth, a line a law and P, and the lowest and highest of all.
"""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from rlvr_cli.console.display import Display
from rlvr_cli.evaluation.estimators import crossed_difference, interval, paired_interval

LAWS = ((0.02, 0.5), (0.05, 1.0), (0.1, 0.4), (0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (1.0, 0.05))
PROBLEMS, SAMPLES = (30, 100, 500), (1, 4, 16, 64)
LIFTS = ((0.0, 1.0), (0.1, 1.0), (1.0, 0.05))
"""How far towards 1 a problem is lifted, and on which share of the problems."""

SEEDS = (2, 3, 5, 10)
FARS = (0.0, 0.1, 0.3)
"""How far towards 1 the seeds lift a problem on average, each between nothing and twice as far."""


def single(law: Sequence[float], size: int, k: int, trials: int, rng: np.random.Generator) -> float:
    """Return the share of trials whose interval of pass@1 holds the law's mean."""
    a, b = law
    rights = rng.binomial(k, rng.beta(a, b, (trials, size))) / k
    intervals = np.array([interval(values, k) for values in rights.tolist()])
    return float(np.mean((intervals[:, 0] <= a / (a + b)) & (a / (a + b) <= intervals[:, 1])))


def paired(
    law: Sequence[float],
    lift: Sequence[float],
    size: int,
    k: int,
    trials: int,
    rng: np.random.Generator,
) -> float:
    """Return the share of trials whose interval of the difference holds the true one."""
    (a, b) = law
    (far, share) = lift
    rates = rng.beta(a, b, (trials, size))
    lifted = rates + far * (1 - rates) * (rng.random((trials, size)) < share)
    differences = (rng.binomial(k, lifted) - rng.binomial(k, rates)) / k
    intervals = np.array([paired_interval(values) for values in differences.tolist()])
    truth = far * share * b / (a + b)
    return float(np.mean((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])))


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


def lines(trials: int, seed: int) -> Iterator[tuple[list[str], list[float], list[float]]]:
    """Yield a line of each law and number of problems: as text, and its shares of both kinds."""
    for law in LAWS:
        for size in PROBLEMS:
            rng = np.random.default_rng([seed, LAWS.index(law), size])
            alone = [single(law, size, k, trials, rng) for k in SAMPLES]
            pairs = [paired(law, lift, size, k, trials, rng) for lift in LIFTS for k in SAMPLES]
            cells = [f"{share:.3f}" for share in alone]
            for at in range(0, len(pairs), len(SAMPLES)):
                cells.append(" ".join(f"{share:.3f}" for share in pairs[at : at + len(SAMPLES)]))
            yield [f"{law[0]:g}, {law[1]:g}", str(size), *cells], alone, pairs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = list(lines(args.trials, args.seed))
    header = ["Beta", "problems", *(f"k {k}" for k in SAMPLES)]
    header += [f"lift {far:g} on {share:g}" for far, share in LIFTS]
    Display(stderr=False).table([header, *(cells for cells, _, _ in rows)])
    for name, place in (("pass@1", 1), ("difference", 2)):
        shares = sorted(share for row in rows for share in row[place])
        middle, least, most = shares[len(shares) // 2], shares[0], shares[-1]
        inside = sum(0.93 <= share <= 0.98 for share in shares)
        print(
            f"{name}: {len(shares)} situations, {least:.3f} to {most:.3f}, median {middle:.3f}, "
            f"{inside} of them in 0.93 to 0.98"
        )
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
