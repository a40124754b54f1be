"""From completions to judged groups of all processes, their seeds, and the rows written of them."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from side_by_side import side_by_side
from small_groups import made_prompt
from small_trainer import Judge, Tokenizer

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.signals import Interrupts
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout, SamplingParams
from rlvr_cli.model.loading import LoadedModel
from rlvr_cli.ranks.launch import rank
from rlvr_cli.rollout import sampler as module
from rlvr_cli.rollout.sampler import (
    Sampler,
    exchanged,
    given_completions,
    response_seed,
)
from verifiers import Verdict, Verification

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
    drawn, seen = sampler.rollout(prompts, PARAMS, [10, 20], print), []
    groups = sampler.verify(prompts, drawn, weight_version=3, on_group=seen.append)
    assert engine.asked == ([(5, 6, 7), (9,)], PARAMS, [10, 20], print)
    assert seen == groups[::-1]  # the second came first
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

    def drawn():
        try:
            yield from [(0, [WHOLE]), (1, [WHOLE])]
        finally:
            ended.append(True)

    def fail(group):
        raise ZeroDivisionError

    running = drawn()
    with pytest.raises(ZeroDivisionError):
        Sampler(None, Tokenizer(), Witness()).verify(SIX, running, on_group=fail)
    assert ended == [True]


def test_without_a_gold_answer_nothing_is_judged():
    judge = Witness()
    prompts = [made_prompt("a", answer=None)]
    sampler = Sampler(Engine(), Tokenizer(), judge)
    (group,) = sampler.verify(prompts, sampler.rollout(prompts, PARAMS, [1]))
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
    others = {
        response_seed(seed + 1, "train", text, number),
        response_seed(seed, "eval", text, number),
        response_seed(seed, "train", text + "x", number),
        response_seed(seed, "train", text, number + 1),
    }
    assert len(others - {actual}) == 4


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


SIX = [made_prompt(name) for name in "abcdef"]


class Letters:
    """One token a character; the end is 0."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


def given_prompt(think_open: bool = False, **row: str) -> Prompt:
    return Prompt(Problem("1", "?", None, row), "?", (5,), think_open)


def tokens(*prompts: Prompt, stop_ids: tuple[int, ...] = (9, 0)) -> list[list[int]]:
    policy = LoadedModel(None, Letters(), stop_ids, 128, "")
    return [list(item.token_ids) for item in given_completions(prompts, policy, 20)]


def test_a_response_ends_unless_it_was_cut_off():
    whole, cut = given_prompt(response="ab"), given_prompt(response="ab", finish_reason="length")
    assert tokens(whole, cut) == [[97, 98, 0], [97, 98]]
    assert tokens(whole, stop_ids=(9, 7)) == [[97, 98, 9]]  # the model has another end token


def test_a_thought_that_the_template_has_opened_is_not_opened_again():
    text = "<think>a"
    assert tokens(given_prompt(think_open=True, response=text)) == [[97, 0]]
    assert len(tokens(given_prompt(response=text))[0]) == len(text) + 1


def test_a_response_says_why_it_ended_and_has_no_log_probabilities():
    policy = LoadedModel(None, Letters(), (0,), 128, "")
    rows = [given_prompt(response="a"), given_prompt(response="a", finish_reason="length")]
    whole, cut = given_completions(rows, policy, 2)
    assert whole == Completion([97, 0], (), "stop")
    assert cut == Completion([97], (), "length")


def test_responses_that_are_too_long_are_named_with_their_tokens():
    policy = LoadedModel(None, Letters(), (0,), 128, "")
    rows = [
        Prompt(Problem(f"{n}", "?", None, {"response": "a" * n}), "?", (5,), False)
        for n in range(7)
    ]
    with pytest.raises(UserError) as raised:
        given_completions(rows, policy, 2)
    named = "; ".join(f"{n}: its response has {n + 1} tokens" for n in (2, 3, 4))
    assert str(raised.value) == (
        f"5 responses longer than --max-tokens 2, first {named}: raise it, or leave them out"
    )


FIVE = [Prompt(Problem(str(n), "?", "1"), "?", (n, 7), False) for n in range(5)]


def judged(upto: int = 5) -> Iterator[tuple[int, Group]]:
    """This process's groups, the last prompt first."""
    for index in reversed(range(rank(), upto, 2)):
        verdict = Verification(Verdict.CORRECT, "1", True, "")
        completion = Completion([index, 1], [-0.1 * index, -1e-300], "stop")
        item = Rollout(FIVE[index], 0, completion, f"text {index}", verdict, 1.0)
        yield index, Group(FIVE[index], (item,), 3)


def together(every: float) -> None:
    module._MEET_EVERY_S = every
    actual = list(exchanged(FIVE, judged()))
    order = [4, 2, 0, 3, 1] if every else [4, 3, 2, 1, 0]
    assert [index for index, _ in actual] == order
    for index, group in actual:
        assert group.prompt is FIVE[index]
        assert group.rollouts[0].completion.logprobs == [-0.1 * index, -1e-300]
        assert (group.weight_version, group.rollouts[0].is_correct) == (3, True)


@pytest.mark.parametrize("every", [60.0, 0.0])
def test_all_get_all_groups_in_one_order(tmp_path, every):
    side_by_side(2, lambda: together(every), tmp_path)


def failing() -> None:
    def fails() -> Iterator[tuple[int, Group]]:
        yield from judged(2)
        if rank():
            raise UserError("the prompt is too long")

    expected = UserError if rank() else EngineError
    with pytest.raises(expected, match=r"^the prompt is too long$"):
        list(exchanged(FIVE, fails()))


def interrupted() -> None:
    def stops() -> Iterator[tuple[int, Group]]:
        yield from judged(2)
        if rank():
            os.kill(os.getpid(), signal.SIGTERM)
        yield from judged(2)

    with (
        Interrupts(alone=False) as interrupts,
        interrupts.interruptible(),
        pytest.raises(KeyboardInterrupt),
    ):
        list(exchanged(FIVE, stops()))


@pytest.mark.parametrize("work", [failing, interrupted])
def test_an_error_or_a_signal_in_one_ends_all(tmp_path, work):
    side_by_side(2, work, tmp_path)
