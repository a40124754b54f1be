"""Estimate pass@k, cons@k, intervals and paired differences, exactly where possible.

Everything here works on `Tally`s, one a problem: how many of its judged responses are right, and
how the wrong ones share out over different answers.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Z = 1.959963984540054  # 97.5 % of a normal distribution lie below
EXACT_UP_TO = 512
"""Responses a problem up to which cons@k is exact; beyond, subsets are drawn."""
DRAWS = 4000
EXACT_FLIPS = 12
_FINEST, _MOST_FLIPS = 10**6, 10**8
"""The largest denominator of a difference that is looked for, and additions of the exact p."""


@dataclass(frozen=True)
class Tally:
    """The judged responses to one problem."""

    correct: int
    wrong: tuple[int, ...] = ()
    """How often each different wrong answer was given, most often first."""
    silent: int = 0
    """Responses without an answer: they are wrong, and do not vote."""

    @property
    def n(self) -> int:
        """Return the number of judged responses."""
        return self.correct + sum(self.wrong) + self.silent


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its 95 % interval; `error` is that of drawing subsets."""

    value: float
    low: float
    high: float
    problems: int
    error: float = 0.0


def default_ks(n: int) -> list[int]:
    """Return 1, 2, 4, … and n itself."""
    return [*itertools.takewhile(lambda k: k < n, (2**i for i in itertools.count())), n]


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Compute 1 - C(n-c, k) / C(n, k): the chance that k of the n responses hold a right one.

    Unbiased (Chen et al. 2021, arXiv:2107.03374, eq. 1). Raises ValueError unless 1 <= k <= n.
    """
    _check(n, k)
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def cons_at_k(tally: Tally, k: int) -> tuple[float, float]:
    """Compute the chance that the most frequent answer of k responses is right, and its error.

    The mean over all subsets of k; where answers tie, over a uniform choice among them; a subset
    in which nobody votes is wrong. Exact (error 0) up to `EXACT_UP_TO` responses, then the mean of
    `DRAWS` seeded draws with its standard error. Raises ValueError unless 1 <= k <= n.
    """
    _check(tally.n, k)
    if k == 1:
        return tally.correct / tally.n, 0.0
    if tally.n > EXACT_UP_TO:
        return _drawn_majority(tally, k)
    return _majority(tally)[k] / math.comb(tally.n, k), 0.0


def interval(values: Sequence[float], responses: int = 1) -> tuple[float, float]:
    """Compute a 95 % interval for the mean of values in [0, 1], one per problem.

    Wilson's score interval at the effective number of problems, which is that of yes-or-no values
    with the spread seen, P m (1-m) / s^2 (Korn & Graubard 1998); `responses` a problem bound what
    a value can tell, and the spread of one problem is unknown. A kind of problem that is not among
    these may exist: the upper end is never below that of 0 right of P, nor the lower end above that
    of P right of P.
    """
    count, mean = len(values), sum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values) / max(1, count - 1)
    most = count * responses if 0 < mean < 1 and count > 1 else count
    size = min(most, count * mean * (1 - mean) / spread) if spread > 0 else most
    center = (mean + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z / (1 + Z**2 / size) * math.sqrt(mean * (1 - mean) / size + Z**2 / (4 * size**2))
    unseen = _unseen(count)
    low, high = min(mean, center - half, 1 - unseen), max(mean, center + half, unseen)
    return max(0.0, low), min(1.0, high)


def estimate(
    values: Sequence[float], responses: int = 1, errors: Sequence[float] = ()
) -> Estimate | None:
    """Compute the mean over problems with its interval; None if there are none."""
    if not values:
        return None
    low, high = interval(values, responses)
    error = math.sqrt(math.fsum(error**2 for error in errors)) / len(values)
    return Estimate(math.fsum(values) / len(values), low, high, len(values), error)


def pass_estimate(tallies: Sequence[Tally], k: int) -> Estimate | None:
    """Estimate pass@k over the problems that have k judged responses."""
    enough = [tally for tally in tallies if tally.n >= k]
    responses = min((tally.n for tally in enough), default=1)
    return estimate([pass_at_k(t.n, t.correct, k) for t in enough], responses)


def cons_estimate(tallies: Sequence[Tally], k: int) -> Estimate | None:
    """Estimate cons@k over the problems that have k judged responses."""
    enough = [tally for tally in tallies if tally.n >= k]
    responses = min((tally.n for tally in enough), default=1)
    found = [cons_at_k(tally, k) for tally in enough]
    return estimate([value for value, _ in found], responses, [error for _, error in found])


@dataclass(frozen=True)
class Difference:
    """The paired difference, ours less the baseline's, on the same problems."""

    value: float
    low: float
    high: float
    p: float
    """How often signs drawn at random give a mean as far from 0 (two-sided)."""
    better: int
    worse: int
    problems: int


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Compute the mean difference, with Student's 95 % interval and a sign-flip test. Raises
    ValueError if the two are not of one length."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    count, value = len(differences), math.fsum(differences) / len(differences)
    low, high = paired_interval(differences)
    better = sum(d > 0 for d in differences)
    worse = sum(d < 0 for d in differences)
    return Difference(value, low, high, _sign_flips(differences), better, worse, count)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Compute Student's 95 % interval for the mean of differences, one a problem.

    It reaches at least as far as problems that are not among these may move the mean, if they
    differ by as much as the one here that differs most: equal differences do not make it certain.
    """
    count, value = len(differences), math.fsum(differences) / len(differences)
    half = math.inf
    if count > 1:
        spread = math.fsum((d - value) ** 2 for d in differences) / (count - 1)
        largest = max(map(abs, differences)) or 1.0
        half = max(student(count - 1) * math.sqrt(spread / count), _unseen(count) * largest)
    return max(-1.0, value - half), min(1.0, value + half)


@cache
def student(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t distribution."""
    import mpmath

    def tail(t: float) -> float:
        x = freedom / (freedom + t * t)
        return mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True) - 0.05

    return float(mpmath.findroot(tail, (1.5, 13), solver="anderson"))


def _unseen(count: int) -> float:
    """Return Wilson's upper end of 0 of `count`: the share of problems that these may not show."""
    return Z**2 / (count + Z**2)


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k {k} is not between 1 and the {n} responses")


@cache
def _majority(tally: Tally) -> list[float]:
    """Sum the right answer's share of the win over all subsets of k responses, for each k.

    For every count a of right answers: wrong answers given less than a times can only fill up, so
    they join the silent; the others are chosen at most a times, and `ways[t][j]` counts the ways
    to choose j responses from them with t answers at exactly a.
    """
    n = tally.n
    won = [0.0] * (n + 1)
    for a in range(1, tally.correct + 1):
        rivals = [size for size in tally.wrong if size >= a]
        filling = n - tally.correct - sum(rivals)
        ways = _tied_ways(tuple(rivals), a, n)
        for t, by_picked in enumerate(ways):
            for j, count in enumerate(by_picked):
                if count:
                    scale = math.comb(tally.correct, a) * count / (1 + t)
                    for rest in range(filling + 1):
                        won[a + j + rest] += scale * math.comb(filling, rest)
    return won


def _tied_ways(rivals: tuple[int, ...], a: int, n: int) -> list[list[int]]:
    """Count `ways[t][j]`: j responses of these answers, none more than a times, t exactly a."""
    ways = [[1]]
    for size in rivals:
        grown = [[0] * min(n + 1, len(ways[0]) + a) for _ in range(len(ways) + 1)]
        for t, by_picked in enumerate(ways):
            for j, count in enumerate(by_picked):
                if count:
                    for picked in range(min(a, size, n - j) + 1):
                        grown[t + (picked == a)][j + picked] += count * math.comb(size, picked)
        ways = grown
    return ways


@cache
def _drawn_majority(tally: Tally, k: int) -> tuple[float, float]:
    """Estimate cons@k from seeded draws of k responses, with its standard error."""
    votes = [0] * tally.correct + [-1] * tally.silent
    for answer, size in enumerate(tally.wrong, 1):
        votes += [answer] * size
    rng = random.Random(f"{tally}:{k}")
    shares = []
    for _ in range(DRAWS):
        counts = Counter(vote for vote in rng.sample(votes, k) if vote >= 0)
        top = max(counts.values(), default=0)
        winners = [vote for vote, count in counts.items() if count == top]
        shares.append((0 in winners) / len(winners) if winners else 0.0)
    mean = math.fsum(shares) / DRAWS
    variance = math.fsum((share - mean) ** 2 for share in shares) / (DRAWS - 1)
    return mean, math.sqrt(variance / DRAWS)


def _sign_flips(differences: Sequence[float]) -> float:
    """Compute the two-sided p of the sign-flip test: exact where few problems differ, or by
    multiples of one fraction; else from seeded draws."""
    sizes = sorted(abs(d) for d in differences if d)
    seen = abs(math.fsum(differences)) - 1e-9
    if len(sizes) <= EXACT_FLIPS:
        flips = list(itertools.product((1, -1), repeat=len(sizes)))
        as_far = sum(
            abs(math.fsum(map(math.prod, zip(f, sizes, strict=True)))) >= seen for f in flips
        )
        return as_far / len(flips)
    if found := _multiples(sizes):
        return _sign_flips_of_multiples(*found, seen)
    rng = random.Random("sign flips")
    as_far = sum(
        abs(sum(size if rng.random() < 0.5 else -size for size in sizes)) >= seen
        for _ in range(DRAWS)
    )
    return (1 + as_far) / (1 + DRAWS)


def _multiples(sizes: Sequence[float]) -> tuple[list[int], int] | None:
    """Return the whole numbers and the denominator that give the sizes, None if those are large."""
    parts = [Fraction(size).limit_denominator(_FINEST) for size in sizes]
    whole = math.lcm(*(part.denominator for part in parts))
    counts = [int(part * whole) for part in parts]
    is_exact = all(abs(c / whole - s) < 1e-12 for c, s in zip(counts, sizes, strict=True))
    return (counts, whole) if is_exact and len(counts) * sum(counts) <= _MOST_FLIPS else None


def _sign_flips_of_multiples(counts: Sequence[int], whole: int, seen: float) -> float:
    """Compute the share of all signs whose sum is as far from 0 as `seen`, sum by sum."""
    import numpy

    total = sum(counts)
    chances = numpy.zeros(2 * total + 1)
    chances[total] = 1.0
    for count in counts:
        chances = (numpy.roll(chances, count) + numpy.roll(chances, -count)) / 2
    far = numpy.abs(numpy.arange(-total, total + 1)) / whole >= seen
    return float(chances[far].sum())
