"""The majority of a group as its reward: votes by hand, without and with gold answers, and runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import invoke, jsonl, refused
from small_groups import made_prompt

from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.core.types import Completion
from rlvr_cli.data import chains
from rlvr_cli.rewards.majority import votes
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rollout.sampler import Sampler
from verifiers import Verdict, Verifier

RUN = (
    *("--algo", "dapo", "--prompts", 4, "-n", 4, "--max-tokens", 40, "--seed", 1),
    *("--reward", "majority", "--set", "eval.limit=0"),
)


def same_text(answers):
    return [sorted(set(answers)).index(answer) for answer in answers]


@pytest.mark.parametrize(
    ("answers", "wins", "share"),
    [
        (["7", "7", "8", None], [True, True, False, False], 0.5),
        (["7", "8"], [False, False], 0.5),  # a tie
        (["7", "7", "8", "8", "9"], [False] * 5, 0.4),
        (["7", "7", "8", "8", "8"], [False, False, True, True, True], 0.6),
        (["7", None, None, None], [True, False, False, False], 0.25),
        ([None, None], [False, False], 0.0),
        (["7"] * 3, [True] * 3, 1.0),
    ],
)
def test_votes(answers, wins, share):
    assert votes(answers, same_text) == (wins, share)
    assert votes(answers[::-1], same_text) == (wins[::-1], share)


class Texts:
    """A tokenizer whose ids are the numbers of texts."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def batch_decode(self, batch, skip_special_tokens):
        return [self.texts[ids[0]] for ids in batch]


def judged(gold: str | None, *texts: str, problem: str = "p", **settings):
    completions = [Completion([number], [-1.0], "stop") for number in range(len(texts))]
    rewarder = Rewarder(RewardConfig(functions=("majority",), **settings))
    prompt = made_prompt("a", gold)
    prompt = replace(prompt, problem=replace(prompt.problem, problem=problem))
    with Verifier(format="any") as verifier:
        sampler = Sampler(None, Texts(*texts), verifier)
        prompts = [prompt]
        (group,) = sampler.judge(prompts, (x for x in [(0, completions)]), rewarder)
    return group.rollouts


def test_a_formula_of_the_problem_casts_no_vote_and_earns_nothing():
    echo = r"\boxed{(x^2 + 1 > 5)}"
    texts = (echo, echo, echo, r"\boxed{|x| > 2}")
    rollouts = judged(None, *texts, problem="Solve $x^2+1>5$.")
    assert [rollout.reward for rollout in rollouts] == [-1.0, -1.0, -1.0, 1.0]
    assert rollouts[0].rewards["majority/share"] == 0.25
    assert judged(None, *texts, problem="Solve it.")[0].reward == 1.0


FORMS = (r"\boxed{\frac{1}{2}}", "The answer is 0.5.", r"So it is \boxed{3}", "I do not know.")


def test_equal_answers_of_different_forms_are_one_majority_without_a_gold_answer():
    rollouts = judged(None, *FORMS)
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0, -1.0, -1.0]
    assert [rollout.verification for rollout in rollouts] == [None] * 4
    for rollout in rollouts:
        assert rollout.rewards == {"majority": rollout.reward, "majority/share": 0.5}


def test_a_computation_that_is_left_undone_casts_no_vote():
    texts = (r"\boxed{3+4}", r"\boxed{3 + 4}", r"\boxed{7}", r"\boxed{28+35=x}")
    assert [rollout.reward for rollout in judged(None, *texts)] == [-1.0, -1.0, 1.0, -1.0]
    values = (r"\boxed{\ln 2}", r"\boxed{\ln 2}", r"\boxed{\frac{1}{2}}", r"\boxed{10^6}")
    assert [rollout.reward for rollout in judged(None, *values)] == [1.0, 1.0, -1.0, -1.0]


@pytest.mark.parametrize(("gold", "right"), [("1/2", 1.0), ("3", 0.0), ("12", 0.0)])
def test_a_gold_answer_is_measured_and_decides_nothing(gold, right):
    rollouts = judged(gold, *FORMS)
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0, -1.0, -1.0]
    assert {rollout.rewards["majority/right"] for rollout in rollouts} == {right}


def test_a_gold_answer_that_cannot_be_read_is_not_measured():
    rollouts = judged(r"\frac{1}{", *FORMS)
    assert rollouts[0].verification.verdict is Verdict.UNPARSEABLE_GOLD
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0, -1.0, -1.0]
    assert "majority/right" not in rollouts[0].rewards


def test_a_group_below_the_share_does_not_train():
    assert [r.reward for r in judged(None, *FORMS, majority_share=0.5)] == [1.0, 1.0, -1.0, -1.0]
    rollouts = judged(None, *FORMS, majority_share=0.51)
    assert [rollout.reward for rollout in rollouts] == [None] * 4
    assert rollouts[0].rewards == {"majority/share": 0.5}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(*args):
    result = invoke("train", *args, "-q")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_rows_without_answers_train_as_rows_whose_answers_nobody_reads(here):
    rows = list(chains.problems("train", 8, seed=chains.SEED))
    Path("golds.jsonl").write_text(jsonl(*rows))
    bare = [{key: value for key, value in row.items() if key != "answer"} for row in rows]
    Path("bare.jsonl").write_text(jsonl(*bare))
    result = invoke("train", "bare.jsonl", *RUN, "--steps", 2)
    assert (result.exit_code, "answer" in result.stderr) == (2, True)
    metrics = trained("bare.jsonl", *RUN, "--answers", "none", "--steps", 2, "--out", "bare")
    others = trained("golds.jsonl", *RUN, "--steps", 2, "--out", "golds")
    weights = [Path(run, "checkpoints/step-2/model.safetensors") for run in ("bare", "golds")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert [row["no_update"] for row in metrics] == [None, None]
    first = metrics[0]
    other = others[0]
    assert first["pass@1"] is None
    assert "reward/majority/right" not in first
    assert 0 <= other["reward/majority/right"] <= 1
    for name in ("reward", "reward/majority", "reward/majority/share"):
        assert first[name] == other[name]


def test_the_figures_of_a_step_are_those_of_its_rows(here):
    (metrics,) = trained("chains", "--limit", 16, *RUN, "--steps", 1, "--out", "a")
    groups: dict[str, list[dict]] = {}
    for line in Path("a/rollouts/step-000001.jsonl").read_text().splitlines():
        row = json.loads(line)
        groups.setdefault(row["id"], []).append(row)
    shares, right = [], []
    for rows in groups.values():
        answers = [row["extracted"] for row in rows if row["extracted"]]
        sizes = sorted((answers.count(answer) for answer in set(answers)), reverse=True)
        is_tie = len(sizes) > 1 and sizes[0] == sizes[1]
        winner = None if is_tie else max(set(answers), key=answers.count, default=None)
        shares.append((sizes or [0])[0] / len(rows))
        right.append(
            any(row["verdict"] == "correct" and row["extracted"] == winner for row in rows)
        )
        for row in rows:
            is_paid = winner is not None and row["extracted"] == winner
            assert row["reward"] == (1.0 if is_paid else -1.0)
    assert metrics["reward/majority/share"] == pytest.approx(sum(shares) / len(shares))
    assert metrics["reward/majority/right"] == pytest.approx(sum(right) / len(right))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--reward", "majority", "-n", 1, "--algo", "reinforce"), "--reward majority with"),
        (("--reward", "majority", "--algo", "ppo"), "--reward majority with rollout.samples"),
        (("--answers", "none"), "--answers none with a reward or an algorithm that compares"),
        (
            ("--answers", "none", "--reward", "majority", "--reward", "format"),
            "--answers none with",
        ),
        (("--answers", "none", "--reward", "majority", "--algo", "raft"), "--answers none with"),
        (
            (
                "--answers",
                "some",
            ),
            "data.answers",
        ),
    ],
)
def test_what_cannot_vote_is_refused(here, options, reason):
    assert reason in refused("train", *options)
