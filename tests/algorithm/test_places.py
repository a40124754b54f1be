"""Rewards in places: from characters of a text to sampled tokens, and their advantages by hand."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoTokenizer

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import is_uniform, with_signal
from rlvr_cli.algorithm.kinds import SoftOverlong
from rlvr_cli.algorithm.samples import characters_after, to_samples, token_at
from rlvr_cli.algorithm.token_advantage import Gae, Return
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from rlvr_cli.model.loading import load_model

PROMPT = Prompt(Problem("1", "?", "1"), "?", (5, 6), False)
TEXT = "2 😀."


@pytest.fixture(scope="module")
def smollm_tokenizer(real_model):
    return AutoTokenizer.from_pretrained(real_model)


def made(tokenizer, token_ids, reward=1.0, places=(), finish_reason="stop", sample=0) -> Rollout:
    text = tokenizer.decode(token_ids, skip_special_tokens=True)
    completion = Completion(token_ids, [-0.5] * len(token_ids), finish_reason)
    return Rollout.of(PROMPT, sample, completion, text, None, reward, places=places)


@pytest.fixture
def rollouts(smollm_tokenizer):
    """`2`, ` ` with half of the emoji, its other half, `.` and the end token, with 1.75 in three
    places, and a response of one token and the end."""
    ids = smollm_tokenizer.encode(TEXT, add_special_tokens=False)
    assert len(ids) == 4
    end = smollm_tokenizer.eos_token_id
    placed = made(smollm_tokenizer, [*ids, end], 1.75, ((1, 0.5), (3, 0.25)))
    return [placed, made(smollm_tokenizer, [ids[0], end], 1.0, sample=1)]


def at(rollout, characters, tokenizer) -> int:
    """The token that completes so many characters."""
    return token_at(rollout, characters, characters_after(rollout, tokenizer))


def test_a_place_is_at_the_token_that_completes_its_last_character(rollouts, smollm_tokenizer):
    placed = rollouts[0]
    assert placed.text == TEXT
    # Characters: none, `2`, ` `, the emoji (of two tokens), `.`.
    tokens = [at(placed, characters, smollm_tokenizer) for characters in range(5)]
    assert tokens == [0, 0, 1, 2, 3]


def test_the_sampled_ids_count_and_not_those_of_the_text(smollm_tokenizer):
    ids = [smollm_tokenizer.convert_tokens_to_ids(token) for token in ("t", "h", "e", "n")]
    assert len(smollm_tokenizer.encode("then", add_special_tokens=False)) == 1
    spelled = made(smollm_tokenizer, ids)
    assert [at(spelled, n, smollm_tokenizer) for n in range(1, 5)] == [0, 1, 2, 3]
    emoji = smollm_tokenizer.encode(TEXT, add_special_tokens=False)[1:2]
    cut = made(smollm_tokenizer, [*ids, *emoji], finish_reason="length")
    assert cut.text == "then \N{REPLACEMENT CHARACTER}"  # the emoji's first half
    assert [at(cut, n, smollm_tokenizer) for n in (4, 5, 6)] == [
        3,
        4,
        4,
    ]


def test_special_tokens_have_no_characters_and_a_tag_may_be_one_token():
    tokenizer = load_model("tiny").tokenizer
    ids = tokenizer.encode("<think>7+5=12</think>", add_special_tokens=False)
    rollout = made(tokenizer, [*ids, tokenizer.eos_token_id])
    ends = [len(tokenizer.decode(ids[:n])) for n in range(1, len(ids) + 1)]
    assert ends == [7, 8, 9, 10, 11, 12, 13, 21]
    assert [at(rollout, end, tokenizer) for end in ends] == list(range(8))
    assert at(rollout, 14, tokenizer) == 7  # inside the tag


def advantages(rollouts, tokenizer, advantage, **settings):
    algo = Algorithm(advantage=advantage, **settings)
    samples = to_samples([Group(PROMPT, tuple(rollouts), 0)], algo, 10, 0, tokenizer=tokenizer)
    values = [[0.1, 0.2, 0.3, 0.4, 0.5], [0.5, 0.25, 0, 0, 0]]
    samples.old_values = torch.tensor(values, dtype=torch.float64)[: len(rollouts)]
    samples.end_value = torch.zeros(len(rollouts), dtype=torch.float64)
    trained = with_advantages(samples, algo, 0.0)
    assert not (trained.advantages * (1 - trained.mask)).any()
    rows = zip(trained.advantages.tolist(), samples.response_ids, strict=True)
    return [row[: len(ids)] for row, ids in rows]


BY_HAND = {
    # Rewards 0.5, 0, 0.25, 0, 1 and 0, 1.
    "return": (Return(kind="return"), [1.75, 1.25, 1.25, 1.0, 1.0], [1.0, 1.0]),
    "return, 0.5": (Return(kind="return", gamma=0.5), [0.625, 0.25, 0.5, 0.5, 1.0], [0.5, 1.0]),
    # Less their mean, 4.375 / 7.
    "batch_baseline, 0.5": (
        Return(kind="batch_baseline", gamma=0.5),
        [0.0, -0.375, -0.125, -0.125, 0.375],
        [-0.125, 0.375],
    ),
    # The return less the value.
    "gae, 1, 1": (Gae(gamma=1.0, lam=1.0), [1.65, 1.05, 0.95, 0.6, 0.5], [0.5, 0.75]),
    # Deltas 0.5, -0.05, 0.15, -0.15, 0.5 and -0.375, 0.75, each with a quarter of what follows.
    "gae, 0.5, 0.5": (
        Gae(gamma=0.5, lam=0.5),
        [0.496484375, -0.0140625, 0.14375, -0.025, 0.5],
        [-0.1875, 0.75],
    ),
}


@pytest.mark.parametrize(("advantage", "first", "second"), BY_HAND.values(), ids=BY_HAND)
def test_advantages_by_hand(rollouts, smollm_tokenizer, advantage, first, second):
    actual = advantages(rollouts, smollm_tokenizer, advantage)
    assert actual[0] == pytest.approx(first, abs=1e-12)
    assert actual[1] == pytest.approx(second, abs=1e-12)


def test_the_penalty_of_the_length_stays_on_the_last_token(rollouts, smollm_tokenizer):
    # Of 10 tokens at most, 5 cost half a cache of 10: 1.75 - 0.5 in all.
    soft = SoftOverlong(cache=1.0)
    (actual,) = advantages(rollouts[:1], smollm_tokenizer, Return(kind="return"), overlong=soft)
    assert actual == pytest.approx([1.25, 0.75, 0.75, 0.5, 0.5])


def test_places_in_one_response_change_no_other_by_a_bit(rollouts, smollm_tokenizer):
    plain = [replace(rollout, places=()) for rollout in rollouts]
    gae = Gae(gamma=0.9, lam=0.7)
    placed = advantages(rollouts, smollm_tokenizer, gae)
    unplaced = advantages(plain, None, gae)
    assert placed[1] == unplaced[1]
    assert placed[0] != unplaced[0]


def test_equal_sums_in_different_places_are_a_signal(rollouts):
    algo = Algorithm(advantage=Return(kind="batch_baseline"))
    same = [replace(rollout, reward=1.0) for rollout in rollouts]
    plain = [replace(rollout, places=()) for rollout in same]
    for members, is_same in ((same, False), (plain, True)):
        group = Group(PROMPT, tuple(members), 0)
        assert is_uniform(group, algo, 10) is is_same
        assert bool(with_signal([group], algo, 10)) is not is_same
