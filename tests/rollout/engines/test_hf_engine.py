"""What is the transformers engine's own: every model family, its memory budget, its sampling."""

from functools import partial

import pytest
import torch
from conftest import random_model
from families import FAMILIES, VOCAB

from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.model.forward import choose_forward
from rlvr_cli.model.policy import Policy
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.sampling import sample, uniform
from rlvr_cli.training.batch import micro_batches

STOP = 1
PROMPTS = [[5, 6, 7, 8], [9], [10, 11], [12, 13, 14, 15, 16, 17]]
TRIED = [([5, 6, 7], [8, 9, 2]), ([9], [3, 4])]
SEEDS = [100, 200, 300, 400]


def make_engine_of(model: torch.nn.Module, stop_ids: tuple[int, ...] = (STOP,), **kwargs) -> Engine:
    return TransformersEngine(model, VOCAB, stop_ids, **{"kv_budget_mb": 64, **kwargs})


make_engine = make_engine_of


def run(engine: Engine, params: SamplingParams, prompts=PROMPTS, seeds=SEEDS):
    return dict(engine.generate(prompts, params, seeds))


def ids(groups: dict[int, list[Completion]]) -> dict[int, list[list[int]]]:
    return {p: [list(c.token_ids) for c in group] for p, group in groups.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_sampled_logprobs_are_the_trainers(family, temperature):
    model = random_model(family)
    forward = choose_forward(model, VOCAB, TRIED, 128)
    params = SamplingParams(samples=3, max_tokens=12, temperature=temperature)
    groups = run(make_engine(model, forward=forward), params)
    rows = [
        TrainingSample(PROMPTS[p], c.token_ids, torch.tensor(c.logprobs), 0.0, p, True, False)
        for p in groups
        for c in groups[p]
    ]
    policy = Policy(model, VOCAB, temperature, forward=forward)
    for batch in micro_batches(rows, 40, policy.head.weight, forward.packed):
        with torch.no_grad():
            logprobs = policy.token_stats(batch.inputs).logprobs
        drawn = batch.column("rollout_logprobs")
        torch.testing.assert_close(logprobs, drawn, atol=1e-5 + forward.rounding, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_are_the_models_own(family):
    model = random_model(family)
    forward = choose_forward(model, VOCAB, TRIED, 128)
    params = SamplingParams(samples=1, max_tokens=8, temperature=0.0)
    groups = run(make_engine(model, forward=forward), params)
    model.set_attn_implementation("eager")
    for p, (completion,) in groups.items():
        tokens = list(PROMPTS[p])
        for token in completion.token_ids:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
            assert token == logits.argmax()
            tokens.append(token)


def test_settings_that_a_model_publishes_do_not_reach_the_distribution():
    model = random_model("mamba")
    forward = choose_forward(model, VOCAB, TRIED, 128)
    params = SamplingParams(samples=2, max_tokens=12)
    expected = ids(run(make_engine(model, forward=forward), params))
    model.generation_config.repetition_penalty = 5.0
    model.generation_config.top_k = 1
    assert ids(run(make_engine(model, forward=forward), params)) == expected
    assert model.generation_config.repetition_penalty == 5.0


@pytest.mark.parametrize("family", ["qwen2-tied", "falcon-h1"])
def test_a_small_memory_budget_changes_nothing(family):
    model, params = random_model(family), SamplingParams(samples=4, max_tokens=20)
    forward = choose_forward(model, VOCAB, TRIED, 128)
    make_engine = partial(make_engine_of, forward=forward)
    expected = ids(run(make_engine(model), params))
    for rows, longest in ((1, 1), (3, 26), (5, 26)):
        small = make_engine(model)
        small.kv_tokens = rows * longest
        heard: dict[tuple[int, int], list[int]] = {}

        def listener(p: int, sample: int, token: int, heard=heard) -> None:
            heard.setdefault((p, sample), []).append(token)

        assert ids(dict(small.generate(PROMPTS, params, SEEDS, listener))) == expected
        assert heard == {(p, i): found for p in expected for i, found in enumerate(expected[p])}


def test_prompts_of_any_length_are_decoded_together_where_rows_can_be_packed():
    engine, calls = make_engine(random_model()), []
    handle = engine.model.register_forward_hook(lambda *_: calls.append(1))
    run(engine, SamplingParams(samples=2, max_tokens=3, temperature=0), PROMPTS)
    handle.remove()
    assert len(calls) == 3  # a pass for each token, whatever the prompts


def test_a_group_is_decoded_in_parts_where_it_does_not_fit(monkeypatch):
    engine, sizes = make_engine(random_model()), []
    decode = engine._decode

    def counting(prompts, params, *rest):
        sizes.append(len(prompts) * params.samples)
        return decode(prompts, params, *rest)

    monkeypatch.setattr(engine, "_decode", counting)
    engine.kv_tokens = 3 * 26
    run(engine, SamplingParams(samples=4, max_tokens=20), [PROMPTS[3]], [0])
    assert sizes == [3, 1]


def test_uniform_numbers_are_uniform_and_repeatable():
    seeds = torch.arange(1000)
    numbers = torch.stack([uniform(seeds, step) for step in range(100)])
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.005)
    assert numbers.var().item() == pytest.approx(1 / 12, abs=0.002)
    assert torch.corrcoef(numbers[:, :2].T)[0, 1].abs() < 0.3
    assert torch.equal(uniform(seeds, 7), numbers[7])
    # splitmix64's published first output for seed 1234567: 6457827717110365317.
    first = uniform(torch.tensor([1234567]), 0).item()
    assert first == pytest.approx(6457827717110365317 / 2**64, abs=1e-15)


def test_sampling_follows_the_distribution():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    logits = probabilities.log().expand(20_000, 4)
    draws = uniform(torch.arange(20_000), 0)
    token, logprob = sample(logits, draws, temperature=1.0, top_p=1.0)
    shares = torch.bincount(token, minlength=4) / len(token)
    torch.testing.assert_close(shares, probabilities, atol=0.015, rtol=0)
    torch.testing.assert_close(logprob, probabilities.log()[token])


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    probabilities = torch.tensor([0.15, 0.5, 0.3, 0.05])
    draws = uniform(torch.arange(2000), 0)
    token, logprob = sample(probabilities.log().expand(2000, 4), draws, 1.0, top_p=0.79)
    assert set(token.tolist()) == {1, 2}
    expected = torch.where(token == 1, 0.5 / 0.8, 0.3 / 0.8).log()
    torch.testing.assert_close(logprob, expected)


def test_sampling_keeps_no_graph():
    model, seen = random_model(), []
    model.register_forward_hook(lambda *_: seen.append(torch.is_inference_mode_enabled()))
    model.base_model.register_forward_hook(
        lambda *_: seen.append(torch.is_inference_mode_enabled())
    )
    run(make_engine(model), SamplingParams(samples=2, max_tokens=3))
    assert seen
    assert all(seen)
