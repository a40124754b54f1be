"""From completions to judged groups, and their seeds."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_groups import made_prompt
from small_trainer import Judge, Tokenizer

from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.types import Completion, Problem, Prompt, SamplingParams
from rlvr_cli.rollout.sampler import Sampler

PARAMS = SamplingParams(2, 5)
CUT = Completion([2, 3], [-1.0, -1.0], "length")
WHOLE = Completion([4], [-1.0], "stop")
SIX = [made_prompt(name) for name in "abcdef"]


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
    judge = Witness()
    engine = Engine()
    sampler = Sampler(engine, Tokenizer(), judge)
    stream = sampler.stream(prompts, PARAMS, [10, 20], print)
    finished = []
    groups = sampler.judge(prompts, stream, weight_version=3, on_group=finished.append)
    assert engine.asked == ([(5, 6, 7), (9,)], PARAMS, [10, 20], print)
    assert finished == groups[::-1]  # the second came first
    assert [group.prompt for group in groups] == prompts
    group = groups[1]
    assert group.weight_version == 3
    assert [(r.sample, r.text, r.reward) for r in group.rollouts] == [(0, "2 3", -1), (1, "4", 1)]
    assert [r.completion for r in group.rollouts] == [CUT, WHOLE]
    message = [(a.response, a.gold, a.think_open, a.truncated) for a in judge.seen]
    assert message[:2] == [("2 3", "7", True, True), ("4", "7", True, False)]
    assert message[2:] == [("2 3", "1", False, True), ("4", "1", False, False)]
    assert 0.02 <= sampler.seconds < 1


def test_an_error_ends_the_engines_work():
    ended = []

    def stream():
        try:
            yield from [(0, [WHOLE]), (1, [WHOLE])]
        finally:
            ended.append(True)

    def fail(group):
        raise ZeroDivisionError

    running = stream()
    with pytest.raises(ZeroDivisionError):
        Sampler(None, Tokenizer(), Witness()).judge(SIX, running, on_group=fail)
    assert ended == [True]


def test_without_a_gold_answer_nothing_is_judged():
    judge = Witness()
    prompts = [made_prompt("a", answer=None)]
    sampler = Sampler(Engine(), Tokenizer(), judge)
    (group,) = sampler.judge(prompts, sampler.stream(prompts, PARAMS, [1]))
    assert group.weight_version == 0
    assert [(r.sample, r.verification, r.reward) for r in group.rollouts] == [
        (0, None, None),
        (1, None, None),
    ]
    assert judge.seen == []


@given(st.integers(), st.text(), st.integers(0, 100))
def test_a_seed_has_room_for_its_samples_and_every_name_its_own(seed, text, number):
    actual = response_seed(seed, "train", text, number)
    assert 0 <= actual < 2**62
    assert actual == response_seed(seed, "train", text, number)
    other_seeds = {
        response_seed(seed + 1, "train", text, number),
        response_seed(seed, "eval", text, number),
        response_seed(seed, "train", text + "x", number),
        response_seed(seed, "train", text, number + 1),
    }
    assert len(other_seeds - {actual}) == 4


def test_a_known_seed():
    # sha256("0:train:1:2"), its first 64 bits less the last two.
    assert response_seed(0, "train", 1, 2) == 0x296F095564C44548 >> 2


@pytest.mark.parametrize("ids", [[], [2, 3]])
def test_a_response_is_decoded_as_a_whole(ids):
    class One(Tokenizer):
        def decode(self, ids, skip_special_tokens):
            assert skip_special_tokens
            return f"<{ids}>"

    assert Sampler(Engine(), One(), Judge(bool)).decode(ids) == f"<{ids}>"
