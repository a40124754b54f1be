"""Figures of a step, by hand."""

from rlvr_cli.console import tables
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from rlvr_cli.evaluation.metrics import by_level
from verifiers import Verdict, Verification


def group(level: object, *verdicts: Verdict) -> Group:
    problem = Problem("p", "?", "1", {} if level is None else {"level": level})
    prompt = Prompt(problem, "?", (1,), False)
    done = Completion((1,), (0.0,), "stop")
    rollouts = (
        Rollout(
            *(prompt, number, done, ""),
            Verification(verdict, None, True, ""),
            None if verdict is Verdict.TIMEOUT else 1.0,
        )
        for number, verdict in enumerate(verdicts)
    )
    return Group(prompt, tuple(rollouts), 0)


RIGHT, WRONG, LATE = Verdict.CORRECT, Verdict.WRONG, Verdict.TIMEOUT


def test_pass_at_1_by_level_is_a_mean_over_problems_numbers_in_order():
    groups = [
        group(10, RIGHT, RIGHT),
        group(2, WRONG, RIGHT, LATE, LATE),
        group(2, RIGHT),
        group(9, LATE),
    ]
    found = by_level(groups)
    assert list(found.items()) == [("2", 0.75), ("9", None), ("10", 1.0)]
    assert tables.by_level(found, {"2": 1.0, "9": None, "10": 1.0}) == [
        "level      2  9    10",
        "before  0.75  -  1.00",
        "after   1.00  -  1.00",
    ]


def test_problems_without_levels_or_with_a_level_each_have_no_table():
    assert by_level([group(None, RIGHT)]) == {}
    assert by_level([group(1, RIGHT), group(None, RIGHT)]) == {}
    assert by_level([group(n, RIGHT) for n in range(13)]) == {}
    assert len(by_level([group(n, RIGHT) for n in range(12)])) == 12
    assert by_level([]) == {}
