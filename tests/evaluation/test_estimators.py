"""pass@k, cons@k, ties, intervals and pairs against every subset, every outcome, every sign."""

import itertools
import math
import random
from collections import Counter

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.evaluation import estimators as statistics
from rlvr_cli.evaluation.estimators import (
    Tally,
    cons_at_k,
    cons_estimate,
    default_ks,
    interval,
    left_out,
    paired_difference,
    paired_interval,
    pass_at_k,
    pass_estimate,
    student,
)

TALLIES = st.builds(
    lambda correct, wrong, silent: Tally(correct, tuple(sorted(wrong, reverse=True)), silent),
    st.integers(0, 4),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(0, 3),
).filter(lambda tally: 1 <= tally.n <= 9)


def votes(tally):
    """The responses one by one: `right`, a number for each wrong answer, None for silence."""
    listing = ["right"] * tally.correct + [None] * tally.silent
    for answer, size in enumerate(tally.wrong):
        listing += [answer] * size
    return listing


def majority(subset):
    counts = Counter(vote for vote in subset if vote is not None)
    winners = [vote for vote in counts if counts[vote] == max(counts.values())]
    return winners.count("right") / len(winners) if winners else 0.0


def mean_over_subsets(tally, k, value):
    actual = [value(subset) for subset in itertools.combinations(votes(tally), k)]
    return sum(actual) / len(actual)


@given(TALLIES, st.data())
def test_pass_and_cons_are_the_means_over_all_subsets(tally, data):
    k = data.draw(st.integers(1, tally.n))
    assert pass_at_k(tally.n, tally.correct, k) == pytest.approx(
        mean_over_subsets(tally, k, lambda subset: "right" in subset)
    )
    value, error = cons_at_k(tally, k)
    assert value == pytest.approx(mean_over_subsets(tally, k, majority))
    assert error == 0


@pytest.mark.parametrize(
    ("tally", "k", "expected"),
    [
        (Tally(2, (2,)), 4, 1 / 2),  # a tie of two
        (Tally(1, (1, 1), 5), 8, 1 / 3),  # a tie of three; silence does not vote
        (Tally(3, (2,)), 5, 1.0),
        (Tally(2, (3,)), 5, 0.0),
        (Tally(0, (), 4), 4, 0.0),  # nobody votes
        (Tally(1, (), 3), 4, 1.0),
        (Tally(1, (2,)), 2, 1 / 3),  # {r,w} twice at 1/2, {w,w} at 0
    ],
)
def test_cons_by_hand(tally, k, expected):
    assert cons_at_k(tally, k)[0] == pytest.approx(expected)


@given(TALLIES)
def test_k_of_one_is_the_share_of_right_responses(tally):
    assert cons_at_k(tally, 1)[0] == pytest.approx(tally.correct / tally.n)
    assert pass_at_k(tally.n, tally.correct, 1) == pytest.approx(tally.correct / tally.n)


@pytest.mark.parametrize("k", [0, 5])
def test_k_beyond_the_responses_is_an_error(k):
    with pytest.raises(ValueError, match=f"k {k} is not between 1 and the 4 responses"):
        pass_at_k(4, 2, k)
    with pytest.raises(ValueError, match=f"k {k} "):
        cons_at_k(Tally(2, (2,)), k)


def test_drawn_subsets_agree_with_exact_ones_within_their_error(monkeypatch):
    tally = Tally(20, (15, 9, 4), 12)
    for k in (2, 8, 31, 60):
        exact, _ = cons_at_k(tally, k)
        with monkeypatch.context() as patch:
            patch.setattr(statistics, "EXACT_UP_TO", 10)
            drawn, error = cons_at_k(tally, k)
            assert (drawn, error) == cons_at_k(tally, k)
        assert abs(drawn - exact) <= 4 * error + 1e-12
        assert error <= 0.5 / math.sqrt(statistics.DRAWS - 1)


def test_cons_of_64_is_exact():
    assert cons_at_k(Tally(30, (20, 14)), 64) == (1.0, 0.0)
    singles = Tally(2, (1,) * 62)
    # Of k = 2 the pair of right ones wins, a mixed pair ties, of 64 * 63 / 2 = 2016 pairs.
    assert cons_at_k(singles, 2)[0] == pytest.approx((1 + 2 * 62 / 2) / 2016)


def test_problems_with_too_few_judged_responses_do_not_enter():
    tallies = [Tally(1, (1,)), Tally(4)]
    assert pass_estimate(tallies, 4).problems == 1
    assert cons_estimate(tallies, 2).value == pytest.approx((0.5 + 1) / 2)
    assert pass_estimate(tallies, 8) is None


def test_ks_are_powers_of_two_and_n():
    assert [default_ks(n) for n in (1, 4, 6, 16)] == [
        [1],
        [1, 2, 4],
        [1, 2, 4, 6],
        [1, 2, 4, 8, 16],
    ]


UNIT = st.integers(0, 16).map(lambda sixteenths: sixteenths / 16)


@given(st.lists(UNIT, min_size=1, max_size=20), st.integers(1, 16))
def test_an_interval_holds_the_mean_and_mirrors(values, responses):
    low, high = interval(values, responses)
    mean = sum(values) / len(values)
    assert 0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1
    assert high > low
    assert interval(values[::-1], responses) == pytest.approx((low, high), abs=1e-9)
    mirrored = interval([1 - value for value in values], responses)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_an_interval_by_hand():
    # Ten of ten: Wilson's lower end is n / (n + z^2) = 10 / 13.8415.
    assert interval([1.0] * 10) == pytest.approx((10 / (10 + 1.959964**2), 1.0))
    # Yes-or-no values: s^2 = m (1-m) P / (P-1), so Wilson's interval of P - 1 = 10 with m = 6/11.
    z2, m = 1.959964**2, 6 / 11
    center, half = m + z2 / 20, 1.959964 * math.sqrt(m * (1 - m) / 10 + z2 / 400)
    expected = ((center - half) / (1 + z2 / 10), (center + half) / (1 + z2 / 10))
    assert interval([1.0] * 6 + [0.0] * 5) == pytest.approx(expected)
    # Problems that all stand at 1/2 tell as much as their responses, not infinitely much.
    assert interval([0.5] * 4, responses=4) == pytest.approx(
        interval([1.0, 0.0] * 8 + [0.5], responses=1), abs=0.03
    )


def test_one_right_response_is_no_surer_than_none():
    # 0 of 30 ends at z^2 / (30 + z^2) = 3.8415 / 33.8415; 1 of 480 responses cannot end below it.
    none, item = interval([0.0] * 30, 16), interval([1 / 16] + [0.0] * 29, 16)
    assert none == pytest.approx((0, 0.113514), abs=1e-6)
    assert item[0] <= 1 / 480
    assert item[1] == pytest.approx(none[1])
    highs = [interval([hits / 16] * 2 + [0.0] * 28, 16)[1] for hits in range(17)]
    assert all(high <= more + 1e-9 for high, more in itertools.pairwise(highs))


def test_one_problem_tells_as_much_as_one_problem():
    # Wilson's interval of n = 1 with m = 1/2: 1/2 +- z / (1 + z^2) sqrt(1/4 + z^2 / 4).
    half = 1.959964 / (1 + 1.959964**2) * math.sqrt((1 + 1.959964**2) / 4)
    assert interval([0.5], 64) == pytest.approx((0.5 - half, 0.5 + half))


@pytest.mark.parametrize(("a", "b"), [(0.02, 0.5), (0.5, 0.02), (0.05, 0.5), (0.3, 0.7)])
def test_an_interval_covers_where_few_problems_hold_the_mean(a, b):
    """30 problems x 64 samples, each problem's rate drawn from a Beta distribution."""
    rng = random.Random(0)
    covered = 0
    for _ in range(400):
        rates = [rng.betavariate(a, b) for _ in range(30)]
        values = [sum(rng.random() < rate for _ in range(64)) / 64 for rate in rates]
        low, high = interval(values, 64)
        covered += low <= a / (a + b) <= high
    assert covered / 400 >= 0.92


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("problems", [10, 30])
def test_an_interval_covers_over_all_outcomes(rate, problems):
    """Exact coverage: every possible number of right problems, weighted by its chance."""
    covered = 0.0
    for right in range(problems + 1):
        low, high = interval([1.0] * right + [0.0] * (problems - right))
        chance = math.comb(problems, right) * rate**right * (1 - rate) ** (problems - right)
        covered += chance * (low <= rate <= high)
    assert covered >= 0.9


def test_students_quantiles():
    assert student(1) == pytest.approx(12.7062, abs=1e-4)
    assert student(9) == pytest.approx(2.2622, abs=1e-4)
    assert student(499) == pytest.approx(1.9647, abs=1e-4)


def test_a_paired_difference_by_hand():
    actual = paired_difference([1, 1, 0.5, 1], [0, 1, 0.5, 0.5])
    # Differences 1, 0, 0, 1/2: mean 3/8, s^2 = (25 + 9 + 9 + 1) / 64 / 3, t(3) = 3.1824.
    # Student's half is 0.7617; a share of 1 - 0.025^(1/4) at -1 in place of 1 moves it further.
    half = 2 * (1 - 0.025**0.25)
    assert 3.1824 * math.sqrt(44 / 64 / 3 / 4) == pytest.approx(0.7617, abs=1e-4)
    assert (actual.value, actual.better, actual.worse, actual.problems) == (0.375, 2, 0, 4)
    assert actual.interval == pytest.approx((0.375 - half, 1.0), abs=1e-4)
    assert actual.p == 0.5  # of +-1 +-1/2, two of four reach 3/2


def test_a_problem_is_not_worse_by_a_rounding():
    """Of six of seven responses both answers are right in 1/3: 0.3333333333333333 and ...337."""
    ours = [cons_at_k(tally, 6).value for tally in (Tally(1, (1, 1), 4), Tally(2, (2, 2), 1))]
    assert ours[0] != ours[1]
    actual = paired_difference(ours, ours[::-1])
    assert (actual.better, actual.worse, actual.p) == (0, 0, 1.0)


def test_equal_differences_are_not_certain():
    # 0.025^(1/30) = 0.884297: a share of 0.115703 at -1/8 in place of 1/8, or at +-1 in place of 0.
    eighths = paired_difference([0.5] * 30, [0.375] * 30)
    assert eighths.interval == pytest.approx((0.125 * 0.768593, 0.125 * 1.231407), abs=1e-6)
    thirty = paired_difference([0.5] * 30, [0.5] * 30)
    assert thirty.interval == pytest.approx((-0.115703, 0.115703), abs=1e-6)


@pytest.mark.parametrize("problems", range(2, 13))
def test_the_interval_of_equal_differences_agrees_with_the_test_of_signs(problems):
    # All signs alike: 2 of 2^P. 0 is outside from six problems on, where p is 1/32.
    actual = paired_difference([1] * problems, [0] * problems)
    assert actual.p == 2.0 ** (1 - problems)
    assert (actual.interval[0] > 0) == (actual.p < 0.05) == (problems >= 6)


@pytest.mark.parametrize("problems", range(2, 13))
def test_a_paired_interval_covers_a_difference_of_equal_odds(problems):
    """Exact coverage of the truth 0, where each problem differs by +1 or -1 at equal odds."""
    covered = 0.0
    for better in range(problems + 1):
        low, high = paired_interval([1.0] * better + [-1.0] * (problems - better))
        covered += math.comb(problems, better) / 2**problems * (low <= 0 <= high)
    assert covered >= 0.92  # those of 2 to 5 problems had 0.50, 0.75, 0.875 and 0.938


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=10))
def test_a_paired_difference_turns_round(pairs):
    ours, reference = zip(*pairs, strict=True)
    first, other = paired_difference(ours, reference), paired_difference(reference, ours)
    (low, high), (theirs_low, theirs_high) = first.interval, other.interval
    assert (first.value, low, high) == pytest.approx((-other.value, -theirs_high, -theirs_low))
    assert first.p == other.p
    assert 0 < first.p <= 1
    assert low <= first.value <= high


def test_many_pairs_are_tested_by_drawn_signs():
    clear = paired_difference([1.0] * 40, [0.0] * 40)
    assert clear.p < 0.001
    even = paired_difference([1.0, 0.0] * 20, [0.0, 1.0] * 20)
    assert even.value == 0
    assert even.p == 1


def test_the_p_of_drawn_signs_is_near_that_of_all_signs():
    # 17 better and 7 worse by 1: 2 x sum of C(24, k) up to 7; draws have a standard error of 0.002.
    actual = paired_difference([1.0] * 17 + [0.0] * 31, [0.0] * 17 + [1.0] * 7 + [0.0] * 24)
    exact = 2 * sum(math.comb(24, k) for k in range(8)) / 2**24
    assert actual.p == pytest.approx(exact, abs=0.01)
    assert paired_difference([1.0] * 3000, [0.0] * 3000).p == 1 / 10_001  # in several parts


def test_the_p_of_few_differences_is_exact():
    # 12 differences of 1 and 2 quarters, as the sum over all 2^12 signs has it.
    sizes = [1, 2] * 6
    sums = [sum(signed) for signed in itertools.product(*((-s, s) for s in sizes))]
    actual = paired_difference([s / 4 for s in sizes[:-4]] + [0.0] * 4, [0.0] * 8 + [0.25, 0.5] * 2)
    assert actual.p == sum(abs(total) >= 12 - 6 for total in sums) / 2**12
    # 9 better and 3 worse: 2 x (1 + 12 + 66 + 220) / 2^12; 3 better and 0 worse: 2 / 2^3.
    actual = paired_difference([1.0] * 9 + [0.0] * 3, [0.0] * 9 + [1.0] * 3)
    assert actual.p == 2 * (1 + 12 + 66 + 220) / 2**12
    assert paired_difference([1.0] * 3 + [0.5] * 9, [0.0] * 3 + [0.5] * 9).p == 0.25
    # Of more problems signs are drawn: 9 better and 4 worse of 40 have a p of 0.2668.
    actual = paired_difference([1.0] * 9 + [0.0] * 31, [0.0] * 9 + [1.0] * 4 + [0.0] * 27)
    exact = 2 * (1 + 13 + 78 + 286 + 715) / 2**13
    assert actual.p == pytest.approx(exact, abs=3 * math.sqrt(exact * (1 - exact) / 5000))


EIGHTHS = st.integers(-8, 8).map(lambda eighths: eighths / 8)


@settings(max_examples=50)
@given(st.lists(EIGHTHS, min_size=6, max_size=8), st.integers(-80, 80))
def test_an_interval_holds_the_means_that_all_signs_do_not_refuse(differences, supposed):
    """Against the definition: the signs of what differs from a supposed mean, all flipped."""
    mean = supposed / 80
    rest = [difference - mean for difference in differences]
    signs = itertools.product((-1, 1), repeat=len(rest))
    sums = [abs(sum(s * r for s, r in zip(signed, rest, strict=True))) for signed in signs]
    p = sum(total >= abs(sum(rest)) - 1e-9 for total in sums) / len(sums)
    low, high = paired_interval(differences)
    if p >= 0.05:
        assert low - 1e-9 <= mean <= high + 1e-9


@settings(max_examples=50)
@given(st.lists(EIGHTHS, min_size=13, max_size=40), st.randoms(use_true_random=False))
def test_neither_order_nor_direction_changes_a_pair_whose_signs_are_drawn(differences, rng):
    zeros = [0.0] * len(differences)
    first, turned = paired_difference(differences, zeros), paired_difference(zeros, differences)
    rng.shuffle(differences)
    assert (turned.p, [-end for end in turned.interval[::-1]]) == (
        first.p,
        pytest.approx(list(first.interval)),
    )
    repeated = paired_difference(differences, zeros)
    assert (repeated.p, repeated.interval) == (first.p, pytest.approx(first.interval))


def random_differences(rng):
    """Those of a result: problems of one law, responses of some number, on a few sizes of sets."""
    size, k = rng.choice([5, 6, 9, 12, 13, 30, 100, 500]), rng.choice([1, 4, 16])
    far, share = rng.choice([0.0, 0.05, 0.1, 0.3]), rng.choice([0.05, 0.3, 1.0])
    a, b = rng.choice([(0.05, 1.0), (0.5, 0.5), (2.0, 5.0)])
    rates = rng.beta(a, b, size)
    lifted = rates + far * (1 - rates) * (rng.random(size) < share)
    return ((rng.binomial(k, lifted) - rng.binomial(k, rates)) / k).tolist()


def test_interval_and_p_of_a_pair_never_contradict_each_other():
    rng = numpy.random.default_rng(0)
    outside = 0
    for _ in range(300):
        differences = random_differences(rng)
        actual = paired_difference(differences, [0.0] * len(differences))
        low, high = actual.interval
        assert low <= actual.value <= high
        assert (low > 0 or high < 0) == (actual.p < 0.05)
        outside += actual.p < 0.05
    assert 30 < outside < 270  # both happen


def test_the_floor_of_an_interval_gives_way_where_signs_tell_a_difference():
    # 30 problems: 0.231 x 1 is the floor. 10 better, 20 alike: 1/3, p = 2 / 2^10.
    better = paired_difference([1.0] * 10 + [0.0] * 20, [0.0] * 30)
    assert better.p < 0.01
    assert better.interval[0] == pytest.approx(1 / 3 - 0.231406, abs=1e-5)  # does not cross 0
    # 7 better: 7/30 - 0.231 is above 0 by a hair. 6 better: p = 2 / 2^6, and the floor crosses 0.
    six = paired_difference([1.0] * 6 + [0.0] * 24, [0.0] * 30)
    assert six.p == pytest.approx(2 / 2**6, abs=0.006)
    assert 0 < six.interval[0] < 6 / 30 - 0.1
    assert six.interval[1] == pytest.approx(6 / 30 + 0.231406, abs=1e-5)  # the other end keeps it
    five = paired_difference([1.0] * 5 + [0.0] * 25, [0.0] * 30)
    assert five.p == pytest.approx(2 / 2**5, abs=0.008)
    assert five.interval[0] == pytest.approx(5 / 30 - 0.231406, abs=1e-5)


@pytest.mark.parametrize(("size", "k"), [(30, 16), (100, 4)])
def test_a_paired_interval_covers_the_truth_and_is_as_narrow_as_students(size, k):
    """A second model a tenth of the way to 1 better, problems as of Beta(2, 5)."""
    rng = numpy.random.default_rng([size, k])
    draws = 300
    truth = 0.1 * 5 / 7
    covered = observed = seen_by_student = 0
    for _ in range(draws):
        rates = rng.beta(2, 5, size)
        differences = (rng.binomial(k, rates + 0.1 * (1 - rates)) - rng.binomial(k, rates)) / k
        low, high = paired_interval(differences.tolist())
        covered += low <= truth <= high
        observed += low > 0
        half = student(size - 1) * differences.std(ddof=1) / math.sqrt(size)
        seen_by_student += differences.mean() > half
    assert covered / draws >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / draws)
    # The same draws: 0.06 below, and three standard errors where a tenth of the trials differ.
    assert (seen_by_student - observed) / draws <= 0.06 + 3 * math.sqrt(0.1 / draws)
    assert 0.4 < observed / draws < 1


def test_values_that_are_ones_but_for_a_last_bit_have_an_interval():
    low, high = interval([1.0] * 39 + [1 - 2**-53])
    assert (low, high) == (pytest.approx(interval([1.0] * 40)[0]), 1.0)


def test_a_drawn_p_does_not_depend_on_the_order_of_problems():
    ours = [math.sqrt(n) / 7 for n in range(1, 40)]
    reference = [1 / math.sqrt(n) for n in range(1, 40)]
    turned = paired_difference(ours[::-1], reference[::-1])
    assert paired_difference(ours, reference).p == turned.p


def test_a_vote_of_one_is_pass_at_1_however_many_responses():
    assert cons_at_k(Tally(330, (200, 70)), 1) == (0.55, 0.0)


def test_values_of_little_spread_tell_no_more_than_their_responses():
    # Nine problems at 8 of 16 and one at 9: Wilson's interval of 160 responses, not of thousands.
    z2, m = 1.959964**2, (9 * 8 + 9) / 160
    center, half = m + z2 / 320, 1.959964 * math.sqrt(m * (1 - m) / 160 + z2 / (4 * 160**2))
    expected = ((center - half) / (1 + z2 / 160), (center + half) / (1 + z2 / 160))
    assert interval([8 / 16] * 9 + [9 / 16], responses=16) == pytest.approx(expected)


def test_a_drawn_error_is_that_of_problems_that_share_their_subsets(monkeypatch):
    """30 problems of one tally are drawn once, so that their mean errs as far as each."""
    alike = Tally(400, (300,), 300)
    (value, error) = cons_at_k(alike, 8)
    assert 0 < error < 0.008
    mean = cons_estimate([alike] * 30, 8)
    assert (mean.value, mean.error) == (pytest.approx(value), pytest.approx(error))
    # Another tally is drawn by itself: the root of (20 e1)^2 + (10 e2)^2, over 30.
    other = Tally(400, (299, 1), 300)
    both = cons_estimate([alike] * 20 + [other] * 10, 8)
    assert both.error == pytest.approx(math.hypot(20 * error, 10 * cons_at_k(other, 8).error) / 30)
    # And the exact value is as near as that says.
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 2000)
    exact = cons_estimate([alike] * 30, 8)
    assert exact.error == 0
    assert abs(mean.value - exact.value) < 3 * mean.error


def test_tallies_that_differ_in_wrong_answers_alone_have_other_subsets():
    """The same counts of right and of all: their draws must not err together."""
    values = {cons_at_k(Tally(300, (300, many), 300 - many), 2).value for many in (0, 1, 2, 3)}
    assert len(values) == 4


@pytest.mark.parametrize(
    ("lacking", "enough", "bias", "shares"),
    [
        ([Tally(0, (3,))] * 4, [Tally(6, (2,))] * 26, "up", (0.0, 0.75)),
        ([Tally(4)] * 9, [Tally(1, (7,))] * 20, "down", (1.0, 0.125)),
        ([Tally(1, (1,))] * 4, [Tally(5, (3,))] * 26, "cannot tell", (0.5, 0.625)),
        ([Tally(0, (4,))], [Tally(2, (6,))] * 10, "cannot tell", (0.0, 0.25)),  # one tells little
        ([Tally(0)] * 2, [Tally(2, (6,))] * 10, "cannot tell", (None, 0.25)),
    ],
)
def test_problems_that_lack_k_responses_tell_the_bias_of_the_others(lacking, enough, bias, shares):
    result = left_out([*lacking, *enough], 8)
    assert (result.problems, result.bias) == (len(lacking), bias)
    assert (result.pass_at_1, result.others) == shares


def test_the_bias_is_that_of_newcombes_interval():
    """By hand, of 30 right of 40 and 2 of 10: Wilson's ends 0.598, 0.858 and 0.057, 0.510. The
    difference of 0.55 has the interval 0.55 - hypot(0.152, 0.310) = 0.205 to above."""
    enough = [Tally(8)] * 30 + [Tally(0, (8,))] * 10
    for right, bias in ((2, "up"), (4, "up"), (5, "cannot tell"), (9, "cannot tell")):
        lacking = [Tally(1)] * right + [Tally(0, (1,))] * (10 - right)
        assert left_out([*lacking, *enough], 8).bias == bias


def test_nothing_is_left_out_if_all_have_k_responses_or_none():
    assert left_out([Tally(1, (7,))] * 3, 8) is None
    assert left_out([Tally(1, (6,))] * 3, 8) is None
