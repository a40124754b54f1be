"""Tokens that are collected row by row, two prompts of two samples."""

import pytest
import torch

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.drawn import Drawn

STOP = 1


def add(drawn: Drawn, tokens: dict[int, int], logprob: float = -0.5):
    rows = torch.tensor(list(tokens))
    logprobs = torch.full((len(tokens),), logprob)
    return list(drawn.add(rows, torch.tensor(list(tokens.values())), logprobs))


def make(max_tokens: int = 3, listener=None) -> Drawn:
    return Drawn(2, SamplingParams(samples=2, max_tokens=max_tokens), {STOP}, listener)


def test_a_group_comes_with_the_end_of_its_last_response():
    drawn = make()
    assert add(drawn, {0: 5, 1: STOP, 2: 6, 3: 7}) == []
    assert add(drawn, {0: 8, 2: STOP, 3: STOP}, -0.25) == [
        (
            1,
            [
                Completion([6, STOP], [-0.5, -0.25], "stop"),
                Completion([7, 1], [-0.5, -0.25], "stop"),
            ],
        )
    ]
    assert add(drawn, {0: 9}) == [
        (
            0,
            [
                Completion([5, 8, 9], [-0.5, -0.25, -0.5], "length"),
                Completion([STOP], [-0.5], "stop"),
            ],
        )
    ]


def test_an_end_at_the_last_token_is_no_cut():
    drawn = make(max_tokens=1)
    ((_, group), (_, other)) = add(drawn, {0: STOP, 1: 5, 2: 5, 3: 5})
    assert [one.finish_reason for one in group] == ["stop", "length"]
    assert [one.finish_reason for one in other] == ["length", "length"]


def test_the_listener_hears_prompt_sample_and_token():
    heard = []
    drawn = make(listener=lambda *token: heard.append(token))
    add(drawn, {3: 7, 0: 5})
    assert heard == [(1, 1, 7), (0, 0, 5)]


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), float("inf")])
def test_a_probability_that_is_none_ends_it(logprob):
    with pytest.raises(UserError, match="probabilities that are not finite"):
        add(make(), {0: 5}, logprob)
