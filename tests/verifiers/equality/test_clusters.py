"""Which answers are one answer, in any order and in bounded time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.equality.clusters import MOST_COMPARED, PATIENCE, cluster
from verifiers.equality.compare import compare
from verifiers.types import Verdict

GROUPS = [["1/2", "0.5", r"\frac12"], ["2", "x = 2"], ["(1, 2)"], ["1, 2", "{2, 1}"], ["no", "No"]]


def equal(gold, answer):
    return Verdict.CORRECT if compare(gold, answer).equal else Verdict.WRONG


def partition(numbers, answers):
    return {
        frozenset(a for a, n in zip(answers, numbers, strict=True) if n == number)
        for number in numbers
    }


@settings(deadline=None)
@given(st.permutations([answer for group in GROUPS for answer in group]))
def test_equal_answers_share_a_number_in_any_order(answers):
    numbers = cluster(answers, equal)
    assert partition(numbers, answers) == {frozenset(group) for group in GROUPS}


def test_late_comparisons_leave_answers_alone_and_are_few():
    requested = []

    def never(gold, answer):
        requested.append((gold, answer))
        return Verdict.TIMEOUT

    answers = [f"{i + 2} - {i + 1}" for i in range(50)]
    assert sorted(cluster([*answers, *answers], never)) == sorted([*range(50), *range(50)])
    assert len(requested) == PATIENCE


def test_many_different_answers_ask_for_few_comparisons():
    requested = []

    def differ(gold, answer):
        requested.append((gold, answer))
        return Verdict.WRONG

    answers = [f"{i}/7" for i in range(300)] + [f"x^2 + {i}" for i in range(300)]
    answers += [f"y = {i}x + 1" for i in range(100)] + [f"({i}, {i + 1})" for i in range(100)]
    assert len(set(cluster(answers, differ))) == len(answers)
    assert len(requested) < 2 * len(answers)


def test_nothing_is_clustered_of_nothing():
    assert cluster([], equal) == []


def test_comparisons_a_spelling_are_bounded():
    requested = []

    def differ(gold, answer):
        requested.append((gold, answer))
        return Verdict.WRONG

    answers = [f"Eq(y, {i}*x)" for i in range(3 * MOST_COMPARED)]
    assert len(set(cluster(answers, differ))) == len(answers)
    assert len(answers) < len(requested) <= 2 * MOST_COMPARED * len(answers)
    requested.clear()
    assert len(set(cluster(answers, differ, odd=False))) == len(answers)
    assert requested == []
