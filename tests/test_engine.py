"""The contract of a rollout engine, on several model families."""

import pytest
import torch
from conftest import FAMILIES, VOCAB, random_model

from rlvr_cli.batch import Row, micro_batches
from rlvr_cli.engines.base import Engine
from rlvr_cli.engines.sampling import sample, uniform
from rlvr_cli.engines.transformers import TransformersEngine
from rlvr_cli.policy import Policy
from rlvr_cli.types import Completion, SamplingParams, UserError

STOP = 1
PROMPTS = [[5, 6, 7, 8], [9], [10, 11], [12, 13, 14, 15, 16, 17]]
SEEDS = [100, 200, 300, 400]


def make_engine(model: torch.nn.Module, stop_ids: tuple[int, ...] = (STOP,), **kwargs) -> Engine:
    return TransformersEngine(model, VOCAB, stop_ids, **{"kv_budget_mb": 64, **kwargs})


def run(engine: Engine, params: SamplingParams, prompts=PROMPTS, seeds=SEEDS):
    return dict(engine.generate(prompts, params, seeds))


def ids(groups: dict[int, list[Completion]]) -> dict[int, list[list[int]]]:
    return {p: [list(c.token_ids) for c in group] for p, group in groups.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
def test_sampled_logprobs_are_the_trainers(family, temperature):
    model = random_model(family)
    params = SamplingParams(samples=3, max_tokens=12, temperature=temperature)
    groups = run(make_engine(model), params)
    rows = [
        Row(PROMPTS[p], c.token_ids, torch.tensor(c.logprobs), 0.0, p, True, False)
        for p in groups
        for c in groups[p]
    ]
    policy = Policy(model, VOCAB, temperature)
    for batch in micro_batches(rows, 40, model.get_output_embeddings().weight):
        with torch.no_grad():
            logprobs = policy.token_stats(batch).logprobs
        torch.testing.assert_close(logprobs, batch.column("rollout_logprobs"), atol=1e-5, rtol=0)


def test_every_prompt_gets_its_samples_and_their_finish_reasons():
    groups = run(make_engine(random_model()), SamplingParams(samples=5, max_tokens=40))
    assert sorted(groups) == [0, 1, 2, 3]
    for completion in (c for group in groups.values() for c in group):
        assert len(completion.token_ids) == len(completion.logprobs) <= 40
        assert STOP not in completion.token_ids[:-1]
        stopped = completion.token_ids[-1] == STOP
        assert completion.finish_reason == ("stop" if stopped else "length")
        assert stopped or len(completion.token_ids) == 40
    assert all(len(group) == 5 for group in groups.values())
    reasons = {c.finish_reason for group in groups.values() for c in group}
    assert reasons == {"stop", "length"}


def test_a_response_does_not_depend_on_its_company():
    engine, params = make_engine(random_model()), SamplingParams(samples=4, max_tokens=20)
    together = ids(run(engine, params))
    for p, prompt in enumerate(PROMPTS):
        alone = ids(run(engine, params, [prompt], [SEEDS[p]]))[0]
        assert alone == together[p]
        fewer = ids(run(engine, SamplingParams(2, 20), [prompt], [SEEDS[p]]))[0]
        assert fewer == together[p][:2]


def test_a_small_memory_budget_changes_nothing():
    model, params = random_model(), SamplingParams(samples=4, max_tokens=20)
    small = make_engine(model)
    small._kv_tokens = 1
    assert ids(run(small, params)) == ids(run(make_engine(model), params))


def test_seeds_choose_the_responses():
    engine, params = make_engine(random_model()), SamplingParams(samples=4, max_tokens=20)
    same = [[5, 6]] * 2
    first, second = ids(run(engine, params, same, [1, 1])).values()
    assert first == second
    first, second = ids(run(engine, params, same, [1, 50])).values()
    assert first != second
    assert len({tuple(response) for response in first}) > 1


def test_temperature_zero_is_greedy():
    model = random_model()
    groups = run(make_engine(model), SamplingParams(2, 8, temperature=0))
    for p, prompt in enumerate(PROMPTS):
        expected = list(prompt)
        for _ in range(8):
            with torch.no_grad():
                expected.append(int(model(torch.tensor([expected])).logits[0, -1].argmax()))
            if expected[-1] == STOP:
                break
        for completion in groups[p]:
            assert list(completion.token_ids) == expected[len(prompt) :]


def test_every_stop_token_stops():
    engine = make_engine(random_model(), stop_ids=tuple(range(VOCAB // 2)))
    groups = run(engine, SamplingParams(samples=8, max_tokens=30))
    for completion in (c for group in groups.values() for c in group):
        assert all(token >= VOCAB // 2 for token in completion.token_ids[:-1])


def test_ids_beyond_the_tokenizer_are_never_sampled():
    engine = TransformersEngine(random_model(), 10, (STOP,), kv_budget_mb=64)
    groups = run(engine, SamplingParams(samples=16, max_tokens=20), [[5]], [0])
    assert max(max(c.token_ids) for c in groups[0]) < 10


def test_new_weights_are_taken_over():
    engine, newer = make_engine(random_model(seed=0)), random_model(seed=1)
    params = SamplingParams(samples=4, max_tokens=10)
    before = ids(run(engine, params))
    engine.sync_weights(newer.named_parameters())
    assert ids(run(engine, params)) == ids(run(make_engine(newer), params)) != before


def test_weights_that_are_not_numbers_are_an_error():
    model = random_model()
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite"):
        run(make_engine(model), SamplingParams(samples=2, max_tokens=3))


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
