"""What is the transformers engine's own: every model family, its memory budget, its sampling."""

import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from families import FAMILIES, VOCAB
from small_models import random_model
from small_samples import Row, samples_of

from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.model.forward import PACKED, choose_forward
from rlvr_cli.model.policy import Policy
from rlvr_cli.rollout.engines import hf_engine
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.decoding import compacted
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.sampling import sample_tokens, uniform
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
        Row(PROMPTS[p], c.token_ids, torch.tensor(c.logprobs), group=p)
        for p in groups
        for c in groups[p]
    ]
    policy = Policy(model, VOCAB, temperature, chosen_forward=forward)
    for batch in micro_batches(policy, samples_of(rows), range(len(rows)), 40):
        with torch.no_grad():
            logprobs = policy(batch.inputs).logprobs
        sampled = batch.column("rollout_logprobs")
        # Processors add up in orders of their own: a few roundings are none of the engine's.
        torch.testing.assert_close(logprobs, sampled, atol=1e-5 + 10 * forward.rounding, rtol=0)


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
    model = random_model(family)
    params = SamplingParams(samples=4, max_tokens=20)
    forward = choose_forward(model, VOCAB, TRIED, 128)
    make_engine = partial(make_engine_of, forward=forward)
    expected = ids(run(make_engine(model), params))
    for rows, longest in ((1, 1), (3, 26), (5, 26)):
        small = make_engine(model)
        small.kv_tokens = rows * longest
        assert ids(run(small, params)) == expected


def test_prompts_of_any_length_are_decoded_together_where_rows_can_be_packed():
    engine = make_engine(random_model())
    calls = []
    handle = engine.model.base_model.rotary_emb.register_forward_hook(lambda *_: calls.append(1))
    run(engine, SamplingParams(samples=2, max_tokens=3, temperature=0), PROMPTS)
    handle.remove()
    calls.pop()  # that of the prompts
    assert len(calls) == 3  # a pass for each token, whatever the prompts


def test_a_group_is_decoded_in_parts_where_it_does_not_fit(monkeypatch):
    engine = make_engine(random_model())
    sizes = []
    decode = engine._decode

    def counting(prompts, params, *rest):
        sizes.append(len(prompts) * params.samples)
        return decode(prompts, params, *rest)

    monkeypatch.setattr(engine, "_decode", counting)
    engine.kv_tokens = 3 * 26
    run(engine, SamplingParams(samples=4, max_tokens=20), [PROMPTS[3]], [0])
    assert sizes == [3, 1]


@pytest.mark.parametrize("prefilled", [1, 3])
def test_prompts_that_are_passed_in_parts_are_decoded_as_one(monkeypatch, prefilled):
    engine = make_engine(random_model("qwen2-tied"))
    params = SamplingParams(samples=3, max_tokens=12)
    expected_groups = run(engine, params)
    monkeypatch.setattr(hf_engine, "_PREFILLED", prefilled)
    parts = run(engine, params)
    assert ids(parts) == ids(expected_groups)
    for p, group in parts.items():
        for completion, expected in zip(group, expected_groups[p], strict=True):
            assert completion.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


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
    token, logprob = sample_tokens(logits, draws, temperature=1.0, top_p=1.0)
    shares = torch.bincount(token, minlength=4) / len(token)
    torch.testing.assert_close(shares, probabilities, atol=0.015, rtol=0)
    torch.testing.assert_close(logprob, probabilities.log()[token])


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    probabilities = torch.tensor([0.15, 0.5, 0.3, 0.05])
    draws = uniform(torch.arange(2000), 0)
    token, logprob = sample_tokens(probabilities.log().expand(2000, 4), draws, 1.0, top_p=0.79)
    assert set(token.tolist()) == {1, 2}
    expected = torch.where(token == 1, 0.5 / 0.8, 0.3 / 0.8).log()
    torch.testing.assert_close(logprob, expected)


def test_sampling_keeps_no_graph():
    model = random_model()
    modes = []
    model.register_forward_hook(lambda *_: modes.append(torch.is_inference_mode_enabled()))
    model.base_model.register_forward_hook(
        lambda *_: modes.append(torch.is_inference_mode_enabled())
    )
    run(make_engine(model), SamplingParams(samples=2, max_tokens=3))
    assert modes
    assert all(modes)


def test_the_budget_in_tokens_and_the_context_by_hand():
    engine = make_engine(random_model(), kv_budget_mb=3)
    # Keys and values in 2 layers of 2 heads of 8 numbers of 4 bytes.
    assert engine.kv_tokens == 3 * 1024 * 1024 // (2 * 2 * 2 * 8 * 4)
    assert engine.context == 128
    model = random_model().bfloat16()
    model.config.max_position_embeddings = 0
    engine = make_engine(model, kv_budget_mb=3)
    assert engine.kv_tokens == 3 * 1024 * 1024 // (2 * 2 * 2 * 8 * 2)
    assert engine.context == sys.maxsize


@pytest.mark.parametrize(
    ("packed", "kv_tokens", "expected"),
    [
        # Prompts 1, 2, 0 and 3 by length; the longest that is left has 6 (then 2) + 4 tokens.
        (True, 10 * 8, [[9, 10, 5, 12]]),
        (True, 10 * 8 - 1, [[9, 10, 5], [12]]),
        (True, 10 * 4, [[9, 10], [5, 12]]),
        (True, 10 * 2 - 1, [[9], [9], [10], [10], [5], [5], [12], [12]]),
        (True, 0, [[9], [9], [10], [10], [5], [5], [12], [12]]),
        (False, 10 * 8, [[9], [10], [5], [12]]),
    ],
)
def test_prompts_are_decoded_together_as_far_as_they_fit(monkeypatch, packed, kv_tokens, expected):
    engine = make_engine(random_model(), forward=replace(PACKED, packed=packed))
    engine.kv_tokens = kv_tokens
    calls = []
    sampled = []

    def decode(prompts, params, seeds, listener):
        calls.append([prompt[0] for prompt in prompts])
        sampled.append((params.samples, list(seeds)))
        for p in range(len(prompts)):
            yield p, [f"{prompts[p][0]}:{params.samples}"] * params.samples

    monkeypatch.setattr(engine, "_decode", decode)
    params = SamplingParams(samples=2, max_tokens=4)
    actual = dict(engine.generate(PROMPTS, params, SEEDS))
    assert calls == expected
    if len(calls) == 8:
        assert sampled[:2] == [(1, [200]), (1, [201])]
    assert {p: group[0].split(":")[0] for p, group in actual.items()} == {
        p: str(prompt[0]) for p, prompt in enumerate(PROMPTS)
    }


@pytest.mark.parametrize(("packed", "expected"), [(False, [[3], [1, 4]]), (True, [[3, 1, 4]])])
def test_prompts_of_one_length_are_decoded_together_where_rows_cannot_be_packed(
    monkeypatch, packed, expected
):
    engine = make_engine(random_model(), forward=replace(PACKED, packed=packed))
    calls = []

    def decode(prompts, *_):
        calls.append([prompt[0] for prompt in prompts])
        yield from ((p, []) for p in range(len(prompts)))

    monkeypatch.setattr(engine, "_decode", decode)
    list(engine.generate([[1, 2], [3], [4, 5]], SamplingParams(1, 4), [1, 2, 3]))
    assert calls == expected


def test_weights_are_copied_unless_they_are_the_engines_own():
    engine = make_engine(random_model())
    other = random_model(seed=1)
    parameters = dict(engine.model.named_parameters())
    versions = [parameter._version for parameter in parameters.values()]
    engine.sync_weights(parameters.items())
    assert [parameter._version for parameter in parameters.values()] == versions
    engine.sync_weights(other.named_parameters())
    pushed = dict(other.named_parameters())
    assert all(torch.equal(parameters[name], pushed[name]) for name in pushed)


def scripted(monkeypatch, ends: dict[int, int], prompts, samples: int, max_tokens: int = 5):
    """Decode scripted tokens: row r ends at step ends[r]. Return them and the rows of each pass."""
    model = random_model()
    passes = []
    rows = list(range(len(prompts) * samples))
    model.config.use_cache = False  # as a model's directory may say
    engine = make_engine(model)

    def scripted_sample(logits, *rest):
        step = len(passes)
        if len(logits) < len(rows):
            result = torch.tensor([ends.get(row, 99) < step for row in rows])
            rows[:] = [rows[place] for place in compacted(result, len(logits))]
        passes.append(len(logits))
        tokens = [STOP if ends.get(row) == step else 2 + row for row in rows]
        return torch.tensor(tokens), torch.zeros(len(tokens))

    monkeypatch.setattr(hf_engine, "sample_tokens", scripted_sample)
    params = SamplingParams(samples=samples, max_tokens=max_tokens)
    return ids(run(engine, params, prompts, SEEDS)), passes


def test_rows_that_have_ended_leave_once_they_are_a_tenth(monkeypatch):
    actual, passes = scripted(monkeypatch, {0: 0, 1: 1, 2: 1}, [[5, 6]], samples=10)
    assert passes == [10, 10, 7, 7, 7]  # 9 of 10 are not fewer than 0.9
    lengths = [len(tokens) for tokens in actual[0]]
    assert lengths == [1, 2, 2, *[5] * 7]
    assert [tokens[0] for tokens in actual[0]] == [STOP, *range(3, 12)]


@pytest.mark.parametrize("prompts", [[[5, 6], [7, 8]], [[5, 6], [7, 8, 9]], [[5], [7]]])
def test_decoding_ends_with_the_last_row(monkeypatch, prompts):
    assert scripted(monkeypatch, dict.fromkeys(range(4), 2), prompts, 2)[1] == [4] * 3
