"""Estimate pass@k, cons@k, intervals and paired differences, exactly where possible.

The estimators take one `Tally` per problem: how many of its judged responses are right, and how
often each wrong answer was given.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

from rlvr_cli.core.figures import Bias, Estimate, LeftOut, PairedDifference

Z = 1.959963984540054
"""The normal quantile of 97.5 %, for a two-sided interval of 95 %."""
Z_80 = 0.8416212335729143
"""The normal quantile of 80 %."""
_TAIL = 0.025
"""The probability beyond each end of a 95 % interval."""
EXACT_UP_TO = 512
"""Responses per problem up to which cons@k is exact. Beyond, subsets are sampled."""
DRAWS = 4000
"""Subsets sampled for cons@k: a standard error of at most 0.008."""
OUTSIDE = 0.05
"""The p below which 0 is outside of a 95 % interval."""
ENUMERATED = 12
"""Problems up to which the sign-flip test takes all signs: 4,096 of them."""
FLIPS = 10_000
"""Signs drawn for the sign-flip test, after Davison & Hinkley 1997: p is a multiple of 1 / 10,001.
Its standard error at 0.05 is 0.002, and at most 0.003 where signs and their reverse agree."""
FEWEST_FLIPPED = 6
"""Problems from which on signs can tell a mean from 0: two of 2^6 signs are 0.03, of 2^5 0.06."""
_ROUNDING = 1e-12
"""How far apart two means may be that are equal but for rounding: sums of 10^5 errors of 1e-16."""


@dataclass(frozen=True)
class Tally:
    """The judged responses to one problem."""

    correct: int
    wrong: tuple[int, ...] = ()
    """How often each wrong answer was given, the most frequent first."""
    silent: int = 0
    """Responses without an answer: they count as wrong and do not vote."""

    @property
    def n(self) -> int:
        """Return the number of judged responses."""
        return self.correct + sum(self.wrong) + self.silent


class Chance(NamedTuple):
    """A chance estimated for one problem, and its standard error, which is 0 if it is exact."""

    value: float
    error: float = 0.0


def mean(values: Iterable[float]) -> float | None:
    """Compute the mean, or return None if there are no values."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def default_ks(n: int) -> list[int]:
    """Return 1, 2, 4, … and n itself."""
    return [*(1 << i for i in range((n - 1).bit_length())), n]


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Compute 1 - C(n-c, k) / C(n, k): the chance that k of the n responses include a right one.

    Unbiased (Chen et al. 2021, arXiv:2107.03374, eq. 1). Raises ValueError unless 1 <= k <= n.
    """
    _check(n, k)
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def pass_of_tally(tally: Tally, k: int) -> Chance:
    """Compute pass@k of a tally."""
    return Chance(pass_at_k(tally.n, tally.correct, k))


def cons_at_k(tally: Tally, k: int) -> Chance:
    """Compute the chance that the most frequent answer of k responses is right.

    Takes the mean over all subsets of k and, if answers tie, over a uniform choice among them. A
    subset without any vote is wrong. It is exact up to `EXACT_UP_TO` responses, then the mean of
    `DRAWS` seeded subsets with its standard error. Raises ValueError unless 1 <= k <= n.
    """
    _check(tally.n, k)
    if k == 1:
        return Chance(tally.correct / tally.n)
    if tally.n > EXACT_UP_TO:
        return _sampled_majority(tally, k)
    return Chance(min(1.0, _majority(tally)[k] / math.comb(tally.n, k)))


def interval(values: Sequence[float], responses: int = 1) -> tuple[float, float]:
    """Compute a 95 % interval for the mean of values in [0, 1], one per problem.

    It is Wilson's score interval at the effective number of problems P m (1-m) / s^2, at which
    yes-or-no values would have the variance s^2 of the values (Korn & Graubard 1998). That number
    is at most P times the `responses` per problem. It is 1 for one problem, whose variance is
    unknown. Since a kind of problem may exist that is not among these, the upper end is at least
    that of 0 right of P, and the lower end at most that of P right of P.
    """
    count = len(values)
    m = sum(values) / count
    variance = math.fsum((value - m) ** 2 for value in values) / max(1, count - 1)
    size: float = count
    if 0 < m < 1:  # rounding may move a sum of ones by its last bit
        if count > 1:
            size = count * responses
        if variance > 0:
            size = min(size, count * m * (1 - m) / variance)
    center = (m + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z / (1 + Z**2 / size) * math.sqrt(m * (1 - m) / size + Z**2 / (4 * size**2))
    unseen = Z**2 / (count + Z**2)  # Wilson's upper end of 0 right of P
    low = min(m, center - half, 1 - unseen)
    high = max(m, center + half, unseen)
    return max(0.0, low), min(1.0, high)


def estimate(
    values: Sequence[float], responses: int = 1, errors: Sequence[float] = ()
) -> Estimate | None:
    """Compute the mean over problems with its interval, or return None if there are no problems.
    `errors` are independent standard errors of parts of the sum."""
    if not values:
        return None
    return Estimate(
        value=fmean(values),
        interval=interval(values, responses),
        problems=len(values),
        error=math.sqrt(math.fsum(e**2 for e in errors)) / len(values),
    )


def pass_estimate(tallies: Sequence[Tally], k: int) -> Estimate | None:
    """Estimate pass@k over the problems that have k judged responses."""
    return _over_problems(tallies, k, pass_of_tally)


def cons_estimate(tallies: Sequence[Tally], k: int) -> Estimate | None:
    """Estimate cons@k over the problems that have k judged responses."""
    return _over_problems(tallies, k, cons_at_k)


def _over_problems(
    tallies: Sequence[Tally], k: int, estimator: Callable[[Tally, int], Chance]
) -> Estimate | None:
    enough = [tally for tally in tallies if tally.n >= k]
    # Problems of one tally have the same subsets, so that their errors do not average out.
    repeats = Counter(enough)
    return estimate(
        [estimator(tally, k).value for tally in enough],
        responses=min((tally.n for tally in enough), default=1),
        errors=[count * estimator(tally, k).error for tally, count in repeats.items()],
    )


def left_out(tallies: Sequence[Tally], k: int) -> LeftOut | None:
    """Compare the problems that lack k judged responses with those of which pass@k is the mean.

    The figure is biased up if they are harder: if the 95 % interval of the difference in pass@1 is
    above 0. It is Newcombe's, from the two intervals (1998, method 10). Return None if none is
    left out, or all are.
    """
    lacking = [tally for tally in tallies if tally.n < k]
    enough = [tally for tally in tallies if tally.n >= k]
    if not lacking or not enough:
        return None
    figure = pass_estimate(enough, 1)
    missing = pass_estimate(lacking, 1)
    assert figure is not None  # each has k responses
    bias: Bias = "cannot tell"
    if missing is not None:
        difference = figure.value - missing.value
        (low, high) = figure.interval
        (missing_low, missing_high) = missing.interval
        if difference > math.hypot(figure.value - low, missing_high - missing.value):
            bias = "up"
        elif -difference > math.hypot(high - figure.value, missing.value - missing_low):
            bias = "down"
    return LeftOut(
        problems=len(lacking),
        pass_at_1=None if missing is None else missing.value,
        others=figure.value,
        bias=bias,
    )


def paired_difference(ours: Sequence[float], baseline: Sequence[float]) -> PairedDifference:
    """Compute the mean difference, ours less the baseline on the same problems.

    `p` is that of a sign-flip test, the share of signs that give a mean as far from 0, and the
    interval holds 0 if and only if p is at least `OUTSIDE`, but always below `FEWEST_FLIPPED`
    problems. `better` and `worse` count the problems. Raises ValueError for unequal lengths.
    """
    differences = [a - b for a, b in zip(ours, baseline, strict=True)]
    flips = _sign_flips(differences)
    return PairedDifference(
        value=fmean(differences),
        interval=_interval_of_flips(differences, flips),
        p=flips.p(0.0),
        better=sum(d > _ROUNDING for d in differences),
        worse=sum(d < -_ROUNDING for d in differences),
        problems=len(differences),
    )


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for being several, by Holm's step-down method (1979, Scand. J. Stat. 6).

    Of m values in rising order the i-th is multiplied by m - i + 1. None is below one before it, or
    above 1. The chance of any false difference among them is then at most the level.
    """
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    corrected = [0.0] * len(ps)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = highest
    return corrected


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Compute the 95 % interval for the mean of differences, one per problem, as
    `paired_difference` does."""
    return _interval_of_flips(differences, _sign_flips(differences))


@dataclass(frozen=True)
class _SignFlips:
    """The sign-flip test of every mean that differences could have.

    The signs of a part of the problems are flipped after a supposed mean was taken from all of
    them. The sum is then as far from 0 as before if and only if the supposed mean is between the
    mean of the part and that of the other problems. So two numbers a part tell p at every mean.
    """

    lows: "NDArray[float64]"
    """The lower one of the two means of each part, -inf for none and for all of the problems."""
    highs: "NDArray[float64]"
    unflipped: int
    """How often the unflipped signs count in addition to the parts: once if parts are drawn."""

    def p(self, supposed: float) -> float:
        """Return the two-sided p of a supposed mean."""
        as_far = (self.lows <= supposed + _ROUNDING) & (self.highs >= supposed - _ROUNDING)
        return (self.unflipped + int(as_far.sum())) / (self.unflipped + len(self.lows))

    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest mean whose p is not below `OUTSIDE`."""
        import numpy

        parts = OUTSIDE * (self.unflipped + len(self.lows)) - self.unflipped
        place = max(1, math.ceil(parts - _ROUNDING)) - 1
        low = float(numpy.partition(self.lows, place)[place])
        high = -float(numpy.partition(-self.highs, place)[place])
        return low, high


def _sign_flips(differences: Sequence[float]) -> _SignFlips:
    """Test differences by all signs of up to `ENUMERATED` problems, beyond by seeded ones.

    Neither the order of the problems nor the direction of the difference matters: drawn parts are
    those of the sorted differences, and each is taken from either end.
    """
    import numpy

    ordered = numpy.sort(numpy.array(differences, dtype=float))
    count = len(ordered)
    if count <= ENUMERATED:
        sums = numpy.zeros(1)
        sizes = numpy.zeros(1)
        for difference in ordered:
            sums = numpy.concatenate([sums, sums + difference])
            sizes = numpy.concatenate([sizes, sizes + 1])
    else:
        rng = numpy.random.default_rng(0)
        columns = numpy.stack([ordered, ordered[::-1], numpy.ones(count)], axis=1)
        octets = numpy.arange(256, dtype=numpy.uint8)
        signs = numpy.unpackbits(octets[:, None], axis=1)  # those of eight problems, in all ways
        totals = numpy.zeros((FLIPS // 2, 3))
        for start in range(0, count, 8):
            eight = columns[start : start + 8]
            octet_sums = signs[:, : len(eight)] @ eight
            totals += octet_sums.take(rng.integers(0, 256, FLIPS // 2), axis=0)
        sums = numpy.concatenate([totals[:, 0], totals[:, 1]])
        sizes = numpy.concatenate([totals[:, 2], totals[:, 2]])
    is_part = (sizes > 0) & (sizes < count)
    part_means = sums[is_part] / sizes[is_part]
    rest_means = (math.fsum(differences) - sums[is_part]) / (count - sizes[is_part])
    lows = numpy.full(len(sums), -math.inf)
    highs = numpy.full(len(sums), math.inf)
    lows[is_part] = numpy.minimum(part_means, rest_means)
    highs[is_part] = numpy.maximum(part_means, rest_means)
    return _SignFlips(lows, highs, unflipped=0 if count <= ENUMERATED else 1)


def _interval_of_flips(differences: Sequence[float], flips: _SignFlips) -> tuple[float, float]:
    """Return the means that the test of signs does not tell from the actual one, and a floor.

    Signs of fewer than `FEWEST_FLIPPED` problems tell nothing, so that Student's interval
    replaces them. The floor is for what no problem here shows: P problems miss a share of
    1 - 0.025^(1/P) of all in 2.5 % of cases, which may differ as much as the largest difference
    here and in the other direction. Where p is below `OUTSIDE`, it does not reach beyond 0.
    """
    count = len(differences)
    value = fmean(differences)
    largest = max(abs(difference) for difference in differences)
    unseen = (1 - _TAIL ** (1 / count)) * (2 * largest if largest else 1.0)
    floor_low = value - unseen
    floor_high = value + unseen
    if count >= FEWEST_FLIPPED:
        low, high = flips.ends()
    else:
        half = _students_half(differences)
        low = value - half
        high = value + half
    if flips.p(0.0) >= OUTSIDE:  # an end that is 0 may be off by rounding
        low = min(low, 0.0)
        high = max(high, 0.0)
    elif value > 0 >= floor_low:
        floor_low = low
    elif value < 0 <= floor_high:
        floor_high = high
    return max(-1.0, min(low, floor_low)), min(1.0, max(high, floor_high))


def _students_half(differences: Sequence[float]) -> float:
    """Return half of Student's 95 % interval for the mean, which is inf for a single value."""
    count = len(differences)
    if count == 1:
        return math.inf
    value = fmean(differences)
    variance = math.fsum((difference - value) ** 2 for difference in differences) / (count - 1)
    return student(count - 1) * math.sqrt(variance / count)


@dataclass(frozen=True)
class CrossedDifference:
    """A mean difference over seeds and problems."""

    value: float
    interval: tuple[float, float]
    """Of 95 %, for other seeds and other problems alike, and within what shares can differ by."""
    error: float
    """The standard error that the interval is of."""
    seeds: int
    problems: int

    @property
    def seen(self) -> float:
        """Return the smallest true difference that as many seeds would show in 80 % of cases. None
        can be seen if it is 1."""
        return self.seen_with(self.seeds)

    def seen_with(self, seeds: int) -> float:
        """Return `seen` of another number of seeds that vary as these do."""
        return min(1.0, detectable(seeds) * self.error * math.sqrt(self.seeds / seeds))


def crossed_difference(
    differences: "Sequence[Sequence[float]] | Sequence[NDArray[float64]]",
) -> CrossedDifference:
    """Compute the mean of differences, a row per seed with a column per problem.

    Its 95 % interval is for other seeds and other problems alike. The variance of the mean is that
    of the seeds' means, plus what the problems' means vary beyond the noise of a single cell. Each
    part has its own quantile of Student's (Graybill & Wang 1980). With one column it is Student's
    interval over seeds. It ends at -1 and 1, beyond which shares of right answers cannot differ.
    Raises ValueError for fewer than two rows.
    """
    import numpy

    cells = numpy.array(differences, dtype=float)
    seeds, problems = cells.shape
    if seeds < 2:
        raise ValueError("one seed has no interval")
    value = float(cells.mean())
    by_seed = cells.mean(axis=1)
    by_problem = cells.mean(axis=0)
    square = student(seeds - 1) ** 2 * float(by_seed.var(ddof=1)) / seeds
    if problems > 1:
        noise = cells - by_seed[:, None] - by_problem + value
        freedom = (seeds - 1) * (problems - 1)
        noise_part = float((noise**2).sum()) / freedom / (seeds * problems)
        problem_part = max(0.0, float(by_problem.var(ddof=1)) / problems - noise_part)
        square += student(problems - 1) ** 2 * problem_part
    half = math.sqrt(square)
    return CrossedDifference(
        value=value,
        interval=(max(-1.0, value - half), min(1.0, value + half)),
        error=half / student(seeds - 1),
        seeds=seeds,
        problems=problems,
    )


def least_seen(shares: Sequence[float], answers: int, seeds: int) -> float:
    """Return the difference of two arms that the variance of answers hides in 80 % of cases, even
    if all seeds are alike.

    `shares` has the share of right ones of some `answers` to each problem, from which the variance
    of an answer is estimated without bias, as s (1 - s) answers / (answers - 1).
    """
    if answers < 2:
        return 0.0
    variance = fmean(share * (1 - share) for share in shares) / (answers - 1)
    return (Z + Z_80) * math.sqrt(2 * variance / (len(shares) * seeds))


def detectable(seeds: int) -> float:
    """Return the standard errors that a true difference must have to be seen by seeds. Then 0 is
    outside of its 95 % interval in 80 % of cases."""
    return student(seeds - 1) + student(seeds - 1, outside=0.4)


@cache
def student(freedom: int, outside: float = 0.05) -> float:
    """Return the two-sided quantile of Student's t distribution, by default of 95 %."""
    import mpmath

    def tail(t: float) -> object:  # a number of mpmath, which has no types
        x = freedom / (freedom + t * t)
        return mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True) - outside

    return float(mpmath.findroot(tail, (0.5, 13), solver="pegasus"))


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k {k} is not between 1 and the {n} responses")


@cache
def _majority(tally: Tally) -> list[float]:
    """Sum the right answer's share of the win over all subsets of k responses, for each k.

    Takes every count a of right answers in turn. Wrong answers given less than a times cannot win
    and fill up the subset like the silent ones. The others may be chosen at most a times each:
    `subsets[t, j]` counts the subsets of j of their responses in which t answers have exactly a.
    """
    import numpy

    won = numpy.zeros(tally.n + 1)
    for a in range(1, tally.correct + 1):
        rivals = [size for size in tally.wrong if size >= a]
        subsets = numpy.ones((1, 1))
        for size in rivals:
            rows, columns = subsets.shape
            grown = numpy.zeros((rows + 1, columns + a))
            for j in range(a + 1):
                t = 1 if j == a else 0
                grown[t : t + rows, j : j + columns] += subsets * float(math.comb(size, j))
            subsets = grown
        filling = tally.n - tally.correct - sum(rivals)
        fills = [float(math.comb(filling, rest)) for rest in range(filling + 1)]
        shares = (subsets / numpy.arange(1, len(subsets) + 1)[:, None]).sum(axis=0)
        total = float(math.comb(tally.correct, a)) * numpy.convolve(shares, fills)
        won[a : a + len(total)] += total
    return [float(value) for value in won]


@cache
def _sampled_majority(tally: Tally, k: int) -> Chance:
    """Estimate cons@k from seeded subsets of k responses, with its standard error."""
    import numpy

    rng = numpy.random.default_rng([tally.correct, *tally.wrong, tally.silent, k])
    sizes = [tally.correct, *tally.wrong, tally.silent]
    votes = rng.multivariate_hypergeometric(sizes, k, DRAWS, method="marginals")[:, :-1]
    most_votes = votes.max(axis=1)
    is_right = (votes[:, 0] == most_votes) & (most_votes > 0)
    shares = is_right / (votes == most_votes[:, None]).sum(axis=1)
    return Chance(float(shares.mean()), float(shares.std(ddof=1)) / math.sqrt(DRAWS))
