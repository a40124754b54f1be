"""Layers of Llama's build give the model's own logits. Every other build keeps its modules."""

import pytest
import torch
from families import FAMILIES, VOCAB
from small_models import random_model

from rlvr_cli.core.types import SamplingParams
from rlvr_cli.model.loading import cast
from rlvr_cli.rollout.engines.decoding import GroupCache, QuickLayers, quick_layers
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

PROMPTS = [[5, 6, 7, 8], [9], [10, 11]]
QUICK = ["llama", "qwen2-tied", "qwen2-untied"]
HALVES = [torch.bfloat16, torch.float16]


def test_which_families_are_of_llamas_build():
    actual = {family for family in FAMILIES if quick_layers(random_model(family)) is not None}
    assert actual == {*QUICK, "mistral-sliding"}  # a window as long as the context is none


@pytest.mark.parametrize("family", QUICK)
def test_it_draws_what_the_modules_draw(family):
    sampled = []
    for is_quick in (True, False):
        engine = TransformersEngine(random_model(family), VOCAB, (1,), 64)
        engine.quick = engine.quick if is_quick else None
        groups = dict(engine.generate(PROMPTS, SamplingParams(6, 40), [100, 200, 300]))
        sampled.append([first for p in sorted(groups) for first in groups[p]])
    by_layers, by_modules = sampled
    for actual, expected in zip(by_layers, by_modules, strict=True):
        assert list(actual.token_ids) == list(expected.token_ids)
        assert actual.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


@pytest.mark.parametrize("family", QUICK)
def test_in_16_bits_they_are_as_near_to_float32_as_the_modules_are(family):
    full_precision = random_model(family)
    half = cast(random_model(family), torch.bfloat16)
    ids, rows = torch.randint(VOCAB, (16, 30), generator=torch.manual_seed(0)), torch.arange(16)
    cache = GroupCache()
    lengths = torch.full((16,), 29)
    with torch.inference_mode():
        half.base_model(input_ids=ids[:, :-1], past_key_values=cache, use_cache=True)
        cache.start(rows, lengths)
        by_layers = QuickLayers(half).logits(ids[:, -1], lengths, cache)
        by_modules = half(input_ids=ids).logits[:, -1]
        expected = full_precision(input_ids=ids).logits[:, -1]
    errors = [float((logits - expected).abs().mean()) for logits in (by_layers, by_modules)]
    assert by_layers.dtype == torch.bfloat16
    assert 0 < errors[0] < 1.2 * errors[1]


def without_positions(model, monkeypatch):
    logits = QuickLayers.logits
    monkeypatch.setattr(
        QuickLayers,
        "logits",
        lambda layers, token_B, position_B, cache: logits(layers, token_B, 0 * position_B, cache),
    )


def with_a_norm_that_is_a_fifth_larger(model, monkeypatch):
    norm = model.base_model.layers[0].post_attention_layernorm
    norm.register_forward_hook(lambda module, inputs, output: 1.2 * output)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("family", QUICK)
@pytest.mark.parametrize("plant", [without_positions, with_a_norm_that_is_a_fifth_larger])
def test_in_16_bits_they_are_taken_and_with_a_fault_refused(family, plant, dtype, monkeypatch):
    model = cast(random_model(family), dtype)
    assert quick_layers(model) is not None
    plant(model, monkeypatch)
    assert quick_layers(model) is None


def test_in_16_bits_a_row_that_amplifies_roundings_is_no_fault(monkeypatch):
    """One row of eight may be off. Half of them, or one in float32, may not."""
    logits = QuickLayers.logits

    def is_quick(dtype, rows_off):
        def changed(layers, *given):
            result = logits(layers, *given)
            result[:rows_off] *= 2
            return result

        monkeypatch.setattr(QuickLayers, "logits", changed)
        return quick_layers(cast(random_model(), dtype)) is not None

    assert is_quick(torch.bfloat16, 1)
    assert not is_quick(torch.bfloat16, 4)
    assert not is_quick(torch.float32, 1)


def test_a_model_that_computes_something_else_keeps_its_modules():
    model = random_model("qwen2-tied")
    model.base_model.layers[0].mlp.register_forward_hook(lambda *given: given[-1] * 1.5)
    assert quick_layers(model) is None
    model = random_model("qwen2-tied")
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    assert quick_layers(model) is None


def test_weights_are_read_where_they_are():
    model = random_model("qwen2-tied")
    engine = TransformersEngine(model, VOCAB, (1,), 64)
    params = SamplingParams(2, 12)
    first = dict(engine.generate(PROMPTS, params, [1, 10, 20]))
    engine.sync_weights((name, 1.5 * item) for name, item in model.named_parameters())
    assert dict(engine.generate(PROMPTS, params, [1, 10, 20])) != first
