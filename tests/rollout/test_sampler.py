"""From completions to judged groups, their seeds, and the rows that are written of them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_groups import RIGHT, made_prompt, made_rollout
from small_trainer import Judge, Tokenizer

from rlvr_cli.core.types import Completion, Problem, Prompt, Rollout, SamplingParams
from rlvr_cli.rollout.sampler import Sampler, response_row, response_seed

PARAMS = SamplingParams(2, 5)
CUT, WHOLE = Completion([2, 3], [-1.0, -1.0], "length"), Completion([4], [-1.0], "stop")


class Engine:
    """Gives the second prompt's group first, and keeps what it was asked for."""

    def generate(self, prompts, params, seeds, listener=None):
        self.asked = (prompts, params, seeds, listener)
        for p in reversed(range(len(prompts))):
            yield p, [CUT, WHOLE]


class Witness(Judge):
    """Keeps the attempts."""

    def __init__(self) -> None:
        super().__init__(lambda text: text == "4")
        self.seen = []

    def verify_many(self, attempts):
        self.seen += attempts
        time.sleep(0.01)
        return super().verify_many(attempts)


def test_groups_come_as_they_finish_with_verdicts_and_rewards():
    prompts = [made_prompt("a"), Prompt(Problem("b", "?", "7"), "?", (9,), True)]
    judge, engine = Witness(), Engine()
    sampler = Sampler(engine, Tokenizer(), judge)
    found = list(sampler.groups(prompts, PARAMS, [10, 20], weight_version=3, listener=print))
    assert engine.asked == ([(5, 6, 7), (9,)], PARAMS, [10, 20], print)
    assert [index for index, _ in found] == [1, 0]
    group = found[0][1]
    assert (group.prompt, group.weight_version) == (prompts[1], 3)
    assert [(r.sample, r.text, r.reward) for r in group.rollouts] == [(0, "2 3", -1), (1, "4", 1)]
    assert [r.completion for r in group.rollouts] == [CUT, WHOLE]
    said = [(a.response, a.gold, a.think_open, a.truncated) for a in judge.seen]
    assert said[:2] == [("2 3", "7", True, True), ("4", "7", True, False)]
    assert said[2:] == [("2 3", "1", False, True), ("4", "1", False, False)]
    assert 0.02 <= sampler.seconds < 1


def test_without_a_gold_answer_nothing_is_judged():
    judge = Witness()
    prompts = [made_prompt("a", answer=None)]
    sampler = Sampler(Engine(), Tokenizer(), judge)
    ((_, group),) = sampler.groups(prompts, PARAMS, [1])
    ((_, again),) = sampler.verify(prompts, sampler.rollout(prompts, PARAMS, [1]))
    assert group.weight_version == again.weight_version == 0
    assert [(r.sample, r.verification, r.reward) for r in group.rollouts] == [
        (0, None, None),
        (1, None, None),
    ]
    assert judge.seen == []


@given(st.integers(), st.text(), st.integers(0, 100))
def test_a_seed_has_room_for_its_samples_and_every_name_its_own(seed, text, number):
    found = response_seed(seed, "train", text, number)
    assert 0 <= found < 2**62
    assert found == response_seed(seed, "train", text, number)
    others = {
        response_seed(seed + 1, "train", text, number),
        response_seed(seed, "eval", text, number),
        response_seed(seed, "train", text + "x", number),
        response_seed(seed, "train", text, number + 1),
    }
    assert len(others - {found}) == 4


def test_a_known_seed():
    # sha256("0:train:1:2"), its first 64 bits less the last two.
    assert response_seed(0, "train", 1, 2) == 0x296F095564C44548 >> 2


def test_a_row_says_it_all_and_a_problems_own_fields_replace_nothing():
    problem = Problem("p", "?", "1", {"level": 3, "reward": "mine", "id": 7})
    prompt = Prompt(problem, "<?>", (1,), False)
    row = response_row(made_rollout(RIGHT, 4, "length", prompt=prompt, sample=2))
    assert row == {
        "id": "p",
        "sample": 2,
        "problem": "?",
        "prompt": "<?>",
        "response": "text",
        "finish_reason": "length",
        "n_tokens": 4,
        "answer": "1",
        "extracted": "1",
        "verdict": "correct",
        "format_ok": True,
        "reward": 1.0,
        "verifier": row["verifier"],
        "level": 3,
    }
    bare = response_row(Rollout(prompt, 0, WHOLE, "x", None, None))
    assert "verdict" not in bare
    assert "reward" not in bare


@pytest.mark.parametrize("ids", [[], [2, 3]])
def test_a_response_is_decoded_as_a_whole(ids):
    class One(Tokenizer):
        def decode(self, ids, skip_special_tokens):
            assert skip_special_tokens
            return f"<{ids}>"

    assert Sampler(Engine(), One(), Judge(bool)).decode(ids) == f"<{ids}>"


SIX = [made_prompt(name) for name in "abcdef"]
