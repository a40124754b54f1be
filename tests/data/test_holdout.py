"""Problems that are held out by a hash of their texts."""

from dataclasses import replace

import pytest
from conftest import invoke, jsonl, refused

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.holdout import hold_out
from rlvr_cli.data.problems import ProblemSet

TEXTS = [f"What is {n} + 1?" for n in range(200)]


def problem_set(texts):
    problems = tuple(Problem(str(n), text, "1") for n, text in enumerate(texts))
    return ProblemSet("p", problems, "plain")


def texts_of(part):
    return [problem.problem for problem in part.problems]


@pytest.mark.parametrize("holdout", [0.15, 0.5, 1, 30])
def test_both_sides_are_all_problems_in_their_order(holdout):
    training, held_out = hold_out(problem_set(TEXTS), holdout, seed=0)
    assert sorted([*texts_of(training), *texts_of(held_out)]) == sorted(TEXTS)
    assert texts_of(training) == [text for text in TEXTS if text in set(texts_of(training))]
    count = len(held_out.problems)
    if holdout >= 1:
        assert count == holdout
    else:  # four deviations of a binomial: 4 * (0.25 / 200) ** 0.5
        assert abs(count / 200 - holdout) < 0.142


def test_a_share_stays_held_out_when_rows_are_added_or_moved():
    _, before = hold_out(problem_set(TEXTS[50:]), 0.15, seed=0)
    _, after = hold_out(problem_set(reversed(TEXTS)), 0.15, seed=0)
    assert set(texts_of(before)) == set(texts_of(after)) & set(TEXTS[50:])
    _, other = hold_out(problem_set(TEXTS), 0.15, seed=1)
    assert set(texts_of(other)) != set(texts_of(after))


@pytest.mark.parametrize("holdout", [0.5, 20])
def test_equal_texts_stay_on_one_side(holdout):
    texts = [*TEXTS[:40], *(f"{text}  " for text in TEXTS[:40])]  # spaces make no other text
    training, held_out = hold_out(problem_set(texts), holdout, seed=3)
    assert held_out.problems
    sides = [{text.strip() for text in texts_of(part)} for part in (training, held_out)]
    assert not sides[0] & sides[1]


@pytest.mark.parametrize("holdout", [0.001, 3])
def test_a_side_without_a_problem_is_refused(holdout):
    with pytest.raises(UserError, match="which leaves one side empty"):
        hold_out(replace(problem_set(TEXTS[:3])), holdout, seed=0)


def test_a_run_names_its_held_out_problems(tmp_path):
    rows = [
        {"problem": f"Start at {n % 10}, keep last digits: (a) +{n // 10 + 1}", "answer": n % 9}
        for n in range(40)
    ]
    path = tmp_path / "p.jsonl"
    path.write_text(jsonl(*rows))
    flags = ("--steps", 1, "--prompts", 2, "--samples", 2, "--max-tokens", 4, "--check")
    said = invoke("train", path, *flags, "--holdout", 10).stderr
    assert "30 of " in said
    assert "10 held out by --holdout 10;" in said
    assert "0 held out (--holdout 0.1 holds out a tenth)" in invoke("train", path, *flags).stderr
    share = ("--holdout", 0.2)
    both = refused("train", path, *flags, *share, "--set", "eval.source=chains")
    assert "--holdout and eval.source both name what to measure" in both
    assert "or a whole number of problems" in refused("train", path, "--holdout", 2.5)
