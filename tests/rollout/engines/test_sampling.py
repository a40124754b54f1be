"""Drawing one token a row: the known stream of numbers, and the inverse of the distribution."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.sampling import (
    TokenCollector,
    TokenTransfer,
    _nucleus,
    sample_tokens,
    uniform,
)

LOGITS = torch.tensor([[0.5, 0.3, 0.2]]).log()


def sample_once(number: float, temperature: float = 1.0, top_p: float = 1.0, logits=LOGITS):
    token, logprob = sample_tokens(logits, torch.tensor([number]).double(), temperature, top_p)
    return token.item(), round(math.exp(logprob.item()), 5)


def test_the_stream_is_that_of_splitmix64():
    # The reference's first numbers of seed 0, and of seed 1234567 (Vigna's splitmix64.c).
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    for step, number in enumerate(expected):
        assert uniform(torch.tensor([0]), step).item() == (number >> 11) / 2**53
    assert uniform(torch.tensor([1234567]), 0).item() == (6457827717110365317 >> 11) / 2**53


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 10_000))
def test_a_number_depends_on_its_own_seed_alone(seed, step):
    alone = uniform(torch.tensor([seed]), step)
    beside = uniform(torch.tensor([3, seed, seed, 5]), step)
    assert 0.0 <= alone.item() < 1.0
    assert beside[1] == beside[2] == alone[0]


def test_numbers_are_spread_evenly():
    numbers = uniform(torch.arange(8000), 3)
    counts = torch.histc(numbers.float(), bins=8, min=0, max=1)
    assert counts.sum() == 8000
    assert (counts - 1000).abs().max() < 150  # five standard deviations


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.0, (0, 0.5)), (0.49, (0, 0.5)), (0.51, (1, 0.3)), (0.79, (1, 0.3)), (0.81, (2, 0.2))],
)
def test_the_token_is_where_the_cumulative_distribution_passes_the_number(number, expected):
    assert sample_once(number) == expected


def test_the_temperature_is_a_power_of_the_probabilities():
    # 0.25, 0.09, 0.04 of 0.38.
    assert sample_once(0.65, temperature=0.5) == (0, 0.65789)
    assert sample_once(0.67, temperature=0.5) == (1, 0.23684)
    assert sample_once(0.99, temperature=0) == (0, 1.0)


@pytest.mark.parametrize(
    ("top_p", "number", "expected"),
    [
        (0.49, 0.999, (0, 1.0)),
        (0.6, 0.62, (0, 0.625)),
        (0.6, 0.63, (1, 0.375)),
        (0.81, 0.999, (2, 0.2)),
    ],
)
def test_top_p_keeps_the_likeliest_that_reach_it_and_renormalizes(top_p, number, expected):
    assert sample_once(number, top_p=top_p) == expected
    turned = {0: 2, 1: 1, 2: 0}[expected[0]]  # the likeliest last: kept by likelihood, not place
    token, probability = sample_once(1 - number, top_p=top_p, logits=LOGITS.flip(1))
    assert (token, probability) == (turned, expected[1])


def test_without_top_p_log_probabilities_are_the_softmaxs_to_the_bit():
    torch.manual_seed(0)
    logits = 9 * torch.randn(4, 500)
    token, logprob = sample_tokens(logits, uniform(torch.arange(4), 0), 1.0, 1.0)
    assert torch.equal(logprob, logits.log_softmax(-1)[range(4), token])


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_rows_of_a_large_vocabulary_draw_what_each_draws_alone(top_p):
    torch.manual_seed(0)
    logits = 3 * torch.randn(7, 150_000)
    numbers = uniform(torch.arange(7), 0)
    tokens, logprobs = sample_tokens(logits, numbers, 0.7, top_p)
    alone = [sample_tokens(logits[row, None], numbers[row, None], 0.7, top_p) for row in range(7)]
    assert tokens.tolist() == [token.item() for token, _ in alone]
    assert logprobs.tolist() == [logprob.item() for _, logprob in alone]
    assert len(set(tokens.tolist())) == 7


@pytest.mark.parametrize("vocabulary", [3, 512, 513, 1024, 5000])
def test_many_ids_are_looked_through_by_blocks(vocabulary):
    """The token of each number is that of the cumulative distribution written out."""
    torch.manual_seed(0)
    logits = 4 * torch.randn(400, vocabulary)
    numbers = uniform(torch.arange(400), 0)
    numbers[:2] = torch.tensor([0.0, 1 - 2**-53])
    logits[:, vocabulary // 2 :: 2] = -torch.inf
    tokens, _ = sample_tokens(logits, numbers, 1.0, 1.0)
    running = logits.double().softmax(-1).cumsum(-1)
    for row in range(2, 400):
        assert running[row, tokens[row]] > numbers[row] - 1e-6
        assert tokens[row] == 0 or running[row, tokens[row] - 1] <= numbers[row] + 1e-6
    assert tokens[0] == 0
    assert running[1, tokens[1]] > 1 - 1e-6
    assert logits[range(400), tokens].isfinite().all()


@pytest.mark.parametrize("spread", [0.01, 1.0, 9.0])
def test_a_nucleus_of_any_size_is_that_of_the_sorted_probabilities(spread):
    """Of 20,000 ids: nearly all of them, thousands, a few."""
    torch.manual_seed(0)
    logits = spread * torch.randn(3, 20_000)
    nucleus = _nucleus(logits.log_softmax(-1), 0.9)
    p = logits.double().softmax(-1)
    for row in range(3):
        ordered = p[row].sort(descending=True).values
        count = int((ordered.cumsum(0) < 0.9 - 1e-6).sum()) + 1
        size = int(nucleus[row].isfinite().sum())
        assert abs(size - count) <= 1 + 1e-4 * count  # sums in float32
        assert torch.equal(nucleus[row].isfinite(), p[row] >= ordered[size - 1])
        total = ordered[:size].sum()
        expected = (p[row] / total).log()[nucleus[row].isfinite()]
        torch.testing.assert_close(
            nucleus[row][nucleus[row].isfinite()].double(), expected, atol=1e-4, rtol=0
        )


def test_without_top_p_even_the_rarest_token_can_be_drawn():
    token, _ = sample_once(1 - 1e-13, logits=torch.tensor([[0.0, -25.0]]))  # it has 1.4e-11
    assert token == 1


def test_greedy_notices_what_is_no_number():
    logits = torch.tensor([[0.0, 1.0], [math.nan, 1.0], [math.inf, 1.0]])
    token, logprob = sample_tokens(logits, uniform(torch.arange(3), 0), 0, 1.0)
    assert (token[0].item(), logprob.tolist()) == (1, [0.0, -math.inf, -math.inf])


@settings(max_examples=50)
@given(st.floats(0, 1, exclude_max=True), st.sampled_from([0.3, 1.0, 4.0]))
def test_what_has_no_probability_is_never_drawn(number, temperature):
    logits = torch.tensor([[-math.inf, 2.0, -math.inf, 1.0, -math.inf]])
    token, probability = sample_once(number, temperature, logits=logits)
    assert token in (1, 3)
    assert probability > 0


STOP = 1


def add(collector: TokenCollector, tokens: dict[int, int], logprob: float = -0.5):
    token_B = torch.tensor(list(tokens.values()))
    transfer = TokenTransfer(token_B, torch.full((len(tokens),), logprob))
    return list(collector.add(list(tokens), transfer))


def make(max_tokens: int = 3, listener=None) -> TokenCollector:
    return TokenCollector(2, SamplingParams(samples=2, max_tokens=max_tokens), {STOP}, listener)


def test_a_group_comes_with_the_end_of_its_last_response():
    collector = make()
    assert add(collector, {0: 5, 1: STOP, 2: 6, 3: 7}) == []
    assert add(collector, {0: 8, 2: STOP, 3: STOP}, -0.25) == [
        (
            1,
            [
                Completion([6, STOP], [-0.5, -0.25], "stop"),
                Completion([7, 1], [-0.5, -0.25], "stop"),
            ],
        )
    ]
    assert add(collector, {0: 9}) == [
        (
            0,
            [
                Completion([5, 8, 9], [-0.5, -0.25, -0.5], "length"),
                Completion([STOP], [-0.5], "stop"),
            ],
        )
    ]


def test_an_end_at_the_last_token_is_no_cut():
    collector = make(max_tokens=1)
    ((_, group), (_, other)) = add(collector, {0: STOP, 1: 5, 2: 5, 3: 5})
    assert [first.finish_reason for first in group] == ["stop", "length"]
    assert [first.finish_reason for first in other] == ["length", "length"]


def test_the_listener_hears_each_token():
    tokens_heard = []
    collector = make(listener=tokens_heard.append)
    add(collector, {3: 7, 0: 5})
    assert tokens_heard == [7, 5]


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), float("inf")])
def test_a_probability_that_is_none_ends_it(logprob):
    with pytest.raises(UserError, match="probabilities that are not finite"):
        add(make(), {0: 5}, logprob)
