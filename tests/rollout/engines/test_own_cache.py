"""Decoding with a model's own cache: its own distribution, whatever its settings ask for."""

from dataclasses import replace

import pytest
import torch
from small_models import random_model
from transformers import GenerationConfig

from rlvr_cli.core.types import SamplingParams
from rlvr_cli.model.forward import PACKED
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

PROMPTS = [[5, 6, 7], [8, 9, 10]]


def decode(model, params, vocab_size=50, listener=None):
    engine = TransformersEngine(model, vocab_size, [1], 1, replace(PACKED, packed=False))
    return dict(engine.generate(PROMPTS, params, [100, 200], listener))


@pytest.mark.parametrize("family", ["mamba", "mistral-sliding"])
def test_every_log_probability_is_the_models_own(family):
    model = random_model(family)
    actual = decode(model, SamplingParams(2, 8, temperature=0.7))
    assert sorted(actual) == [0, 1]
    for p, group in actual.items():
        assert len({tuple(item.token_ids) for item in group}) == 2  # a seed each
        for item in group:
            ids = list(item.token_ids)
            with torch.no_grad():
                logits = model(torch.tensor([[*PROMPTS[p], *ids]])).logits[0, 2:-1] / 0.7
            expected = logits.log_softmax(-1)[range(len(ids)), ids]
            torch.testing.assert_close(torch.tensor(item.logprobs), expected, atol=1e-4, rtol=0)
            assert (item.finish_reason == "stop") == (ids[-1] == 1)
            assert 1 not in ids[:-1]


def test_published_settings_neither_matter_nor_change():
    model = random_model()
    state = torch.get_rng_state()
    plain = decode(model, SamplingParams(2, 8))
    assert torch.equal(torch.get_rng_state(), state)  # chance comes from the seeds alone
    published = GenerationConfig(top_k=1, repetition_penalty=9.0, eos_token_id=[7], min_length=5)
    model.generation_config = published
    assert decode(model, SamplingParams(2, 8)) == plain
    assert model.generation_config is published


def test_a_failure_leaves_the_published_settings():
    model = random_model()
    published = model.generation_config

    def fail(*token):
        raise KeyError("heard enough")

    with pytest.raises(KeyError):
        decode(model, SamplingParams(2, 8), listener=fail)
    assert model.generation_config is published


def test_greedy_takes_the_likeliest_id_that_the_tokenizer_knows():
    model = random_model()
    expected = 20
    for group in decode(model, SamplingParams(2, 4, temperature=0), vocab_size=expected).values():
        assert group[0] == group[1]
        assert max(group[0].token_ids) < expected
        assert set(group[0].logprobs) == {0.0}
    with torch.no_grad():
        first = model(torch.tensor([PROMPTS[0]])).logits[0, -1, :expected].argmax()
    actual = decode(model, SamplingParams(2, 4, temperature=0), vocab_size=expected)
    assert actual[0][0].token_ids[0] == first
