"""Problems of reasoning-gym: right answers are paid, others are not, and no answer ever runs."""

import json
import sys
from importlib import metadata

import pytest
from conftest import small_run
from small_runs import repeatable

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.errors import UserError
from rlvr_cli.data import gym
from rlvr_cli.data.problems import load_problems
from verifiers import Attempt, Verdict, Verification, Verifier
from verifiers import gym as scoring

pytest.importorskip(
    "reasoning_gym", reason="the extra gym is not installed", exc_type=ModuleNotFoundError
)
SLOW = {"futoshiki": 4, "knight_swap": 2, "sokoban": 2, "zebra_puzzles": 3}
"""Generators that take about a second for a problem make fewer than ten."""


@pytest.fixture(scope="module")
def answer():
    return scoring.answering()


@pytest.fixture(scope="module")
def verifier():
    with Verifier() as opened:
        yield opened


def test_every_generator_of_the_version_is_accepted_or_refused_with_a_reason():
    from reasoning_gym.factory import DATASETS

    assert metadata.version("reasoning-gym") == scoring.VERSION
    assert set(DATASETS) == {*scoring.ACCEPTED, *scoring.REFUSED}
    assert not set(scoring.ACCEPTED) & scoring.REFUSED.keys()
    assert len(DATASETS) == 106
    assert len(scoring.ACCEPTED) == 90


@pytest.mark.parametrize("name", scoring.ACCEPTED)
def test_right_answers_are_paid_others_are_not_and_code_does_not_run(
    name, answer, verifier, tmp_path
):
    mark = tmp_path / "code ran"
    code = f"__import__('os').system('touch {mark!s}')"
    hostile = (code, f"[{code}]", json.dumps([code]), json.dumps({"a": code}), f"1,{code}")
    wrong = ("xyzzy", "nan", "[NaN]", "-1e99", "{}", "=")
    count = SLOW.get(name, 10)
    rows = answer({"generator": name, "first": 0, "count": count})["rows"]
    assert len({row["problem"] for row in rows}) > 0.8 * count  # few settings give a problem twice
    assert json.dumps(rows)
    others = [row["answer"] for row in rows[1:]] + [rows[0]["answer"]]
    for row, other in zip(rows, others, strict=True):
        for text in (row["answer"], other, *hostile, *wrong):
            if text == other == row["answer"]:
                continue
            if name in scoring.VALUES:
                judged = verifier.verify(Attempt(f"<answer>{text}</answer>", row["answer"]))
                is_right = judged.verdict is Verdict.CORRECT
            else:
                score = answer({"place": row["place"], "answer": text})["score"]
                assert score == 0 or 0.1 < score <= 1
                is_right = score == 1
            assert is_right == (text == row["answer"]), (row, text)
    assert not mark.exists()


@pytest.mark.parametrize("name", scoring.REFUSED)
def test_no_question_reaches_a_refused_generator(name, answer):
    created = answer({"generator": name, "first": 0, "count": 1})
    scored = answer({"place": f"{name}#1.01234567", "answer": "1"})
    for reply in (created, scored):
        assert reply == {"error": f"ValueError: {scoring.REFUSED[name]}"}
    with pytest.raises(UserError, match=f"gym:{name}: {scoring.REFUSED[name][:20]}"):
        rows(f"gym:gcd+{name}", "train", 1)


@pytest.mark.parametrize(
    ("expression", "is_right"),
    [
        ("(25 - 3) * 4", True),
        ("4 × (25-3)", True),
        ("4*25 - 4*3", False),  # a number twice
        ("88", False),
        ("25 - 3 + 4", False),
        ("(25 - 3) * 4 = 88", False),
        ("(25 - 3)! * 4", False),
        ("(25 - 3) * 4 / 1", False),
        ("25 3 4", False),
    ],
)
def test_an_expression_has_the_numbers_and_then_the_value(expression, is_right):
    assert scoring.makes(expression, [3, 4, 25], 88) is is_right
    assert scoring.makes("2**3", [2, 3], 8) is False
    assert scoring.makes("3/(1-2/2)", [1, 2, 2, 3], 24) is False


def rows(source, split, count):
    return list(load_problems(source, split, limit=count).problems)


def test_splits_share_no_problem_and_every_process_makes_the_same_ones():
    source = "gym:gcd+ransom_note?seed=3&size=40"  # the latter's problems depend on a set's order
    train, repeated, test = (rows(source, split, 80) for split in ("train", "train", "test"))
    assert train == repeated
    assert [p.extra["generator"] for p in train] == ["gcd", "ransom_note"] * 40
    assert len({p.problem for p in train}) == len({p.id for p in train}) == 80
    other_seed = rows("gym:gcd+ransom_note?seed=7", "test", 200)
    assert len(test) == 80
    assert not {p.problem for p in train} & {p.problem for p in test + other_seed}
    assert {"gym" in p.extra for p in train if p.extra["generator"] == "gcd"} == {False}
    assert train[0].extra["difficulty"] == {"num_terms": [2, 2], "value": [1, 1000]}


def test_a_generator_with_few_problems_ends_by_itself():
    few = rows("gym:gcd?min_value=1&max_value=2", "train", None)
    assert 1 < len(few) < 50
    assert len(few) == len({p.problem for p in few})


@pytest.mark.parametrize(("score", "expected"), [(1.0, 1.0), (0.75, 0.5), (0.5, 0.0), (0.0, -1.0)])
def test_a_score_is_mapped_to_the_range_of_rewards(score, expected):
    verdict = Verdict.CORRECT if score == 1 else Verdict.WRONG
    assert reward(Verification(verdict, "a", True, "", score=score)) == expected


def test_a_response_is_scored_by_its_place_and_only_a_score_of_one_is_correct(rlvr, tmp_path):
    (problem,) = rows("gym:sudoku", "test", 1)
    grid = problem.answer.replace("9", "8", 1)
    lines = [
        {
            "id": problem.id,
            "problem": problem.problem,
            "answer": problem.answer,
            **problem.extra,
            "response": f"<think>a</think><answer>{text}</answer>",
        }
        for text in (problem.answer, grid, "none")
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = rlvr("eval", "--responses", "r.jsonl", "--out", "o", "--by", "generator")
    assert result.returncode == 0, result.stderr
    (file,) = (tmp_path / "o").glob("**/*.jsonl")
    judged = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["verdict"] for row in judged] == ["correct", "wrong", "wrong"]
    # 80 of 81 cells, of which the scorer pays 0.9
    assert [row["reward"] for row in judged] == pytest.approx([1, 2 * 0.9 * 80 / 81 - 1, -1])


def test_a_place_that_names_another_problem_gives_no_verdict():
    with Verifier() as verifier:
        (judged,) = verifier.verify_many(
            [Attempt("<answer>1</answer>", "1", place="ab#1.00000000")]
        )
    assert judged.verdict is Verdict.TIMEOUT
    assert "makes another problem 1 here" in judged.reason


def test_a_place_is_no_place_of_a_problem_with_another_text(answer):
    (row,) = answer({"generator": "ab", "first": 3, "count": 1})["rows"]
    named = {"problem": row["problem"], scoring.FIELD: row["place"]}
    assert scoring.place_of(named) == row["place"]
    assert scoring.place_of({**named, "problem": "2 + 2?"}) is None
    (value,) = answer({"generator": "gcd", "first": 3, "count": 1})["rows"]
    reply = answer({"place": value["place"], "answer": value["answer"]})
    assert reply == {"error": "ValueError: answers to gcd are compared, and not scored"}


def test_a_resume_with_generated_problems_is_exact(rlvr, tmp_path):
    command = ["train", "gym:ab+gcd?size=8", *small_run("--set", "eval.source=chains")[1:]]
    result = rlvr(*command, "--steps", "2", "--out", "run")
    assert result.returncode == 0, result.stderr
    unbroken = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    result = rlvr(*command, "--steps", "1", "--out", "part")
    assert result.returncode == 0, result.stderr
    result = rlvr("train", "--resume", "part", "--steps", "2")
    assert result.returncode == 0, result.stderr
    parts = (tmp_path / "part" / "metrics.jsonl").read_text().splitlines()
    assert [repeatable(json.loads(line)) for line in unbroken] == [
        repeatable(json.loads(line)) for line in parts
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gym:countdwn", "gym:countdwn: no such generator; near are countdown"),
        ("gym:", "gym:: no such generator"),
        ("gym:gcd?max_valu=3", "gym:gcd?max_valu=3: ValueError: no setting max_valu; it has"),
        ("gym:gcd?max_value", "max_value: give NAME=VALUE"),
        ("gym:gcd?size=few", "size 'few' is no number of problems"),
        ("gym:gcd?min_value=9&max_value=3", "AssertionError: max_value must be > min_value"),
        ("gym:n_queens", "gym:n_queens: its scorer evaluates an answer as code"),
    ],
)
def test_bad_sources_are_one_line(rlvr, source, message):
    result = rlvr("eval", source, "--model", "tiny")
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_generator_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(gym, "_BATCH_S", 0.5)
    with pytest.raises(UserError, match=r"gym:count_primes.*within its limits"):
        rows("gym:count_primes?max_n=900000000", "train", 1)


def test_a_missing_package_is_named_with_the_line_for_pip(monkeypatch, answer):
    scoring._data_set.cache_clear()
    monkeypatch.setattr(scoring.metadata, "version", lambda name: "0.1.26")
    reply = answer({"generator": "gcd", "first": 10**6, "count": 1})
    assert reply == {"error": "pip install 'reasoning-gym==0.1.25'"}
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    assert scoring.answering()({"generator": "gcd", "first": 10**6, "count": 1}) == reply
