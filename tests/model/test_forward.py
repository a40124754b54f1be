"""Every family of models is run so that its numbers are its own, or refused."""

from copy import deepcopy

import pytest
import torch
from families import FAMILIES, VOCAB
from small_models import random_model
from small_samples import Row, samples_of

from rlvr_cli.core.errors import UserError
from rlvr_cli.model.forward import EAGER, Forward, choose_forward, float32_logprobs
from rlvr_cli.model.loading import cast
from rlvr_cli.model.policy import Policy
from rlvr_cli.training.batch import micro_batches

PADDED = {
    "qwen3-next",
    "falcon-h1",
    "lfm2",
    "mamba",  # recurrent layers and convolutions
    "mistral-sliding",
    "gemma2",
    "gemma3",
    "olmo3",
    "cohere2",
    "gpt-oss",  # sliding windows
    "stablelm",
    "nemotron",  # their attention does not hear of the layout
}
OWN_HEAD = {"gemma2", "granite", "minicpm3", "cohere", "cohere2"}
CONTEXT = 128
PROMPT = list(range(2, 12))
SAMPLES = [
    (PROMPT, list(range(20, 29))),
    ([7, 8, 9], [10, 11, 12, 1]),
    (PROMPT, [3, 4]),
    (list(range(30, 48)), [4, 4, 5, 1]),
    (PROMPT, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1]),
    ([7, 8, 9], [2]),
]
ROWS = [Row(p, r) for p, r in SAMPLES]


def forward_of(model: torch.nn.Module, context: int = CONTEXT) -> Forward:
    return choose_forward(model, VOCAB, SAMPLES[:4], context)


def own_logprobs(model: torch.nn.Module, row: Row) -> torch.Tensor:
    """Of a response, one unpadded row, attention as the model's code writes it out."""
    ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(row.prompt_ids) - 1 : -1]
    targets = torch.tensor(row.response_ids)
    return logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]


def weighted(logprobs: torch.Tensor, row: Row) -> torch.Tensor:
    """A loss in which every token has a weight of its own."""
    weights = torch.sin(torch.arange(len(logprobs)) + len(row.prompt_ids))
    return (weights * logprobs).sum()


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    actual = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return actual


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_and_gradients_are_the_models_own(family):
    model = random_model(family)
    forward = forward_of(model)
    assert forward.packed == (family not in PADDED)
    assert forward.plain_head == (family not in OWN_HEAD)
    policy = Policy(model, VOCAB, 1.0, chosen_forward=forward)
    actual = {}
    for batch in micro_batches(policy, samples_of(ROWS), range(len(ROWS)), 60):
        logprobs = policy(batch.inputs).logprobs
        rows = [ROWS[row] for row in batch.rows]
        for row, line in zip(rows, logprobs, strict=True):
            assert not line[len(row.response_ids) :].any()
            actual[id(row)] = line[: len(row.response_ids)]
        loss = sum(weighted(actual[id(row)], row) for row in rows)
        loss.backward()
    gradient = gradients(model)
    model.set_attn_implementation("eager")
    for row in ROWS:
        expected = own_logprobs(model, row)
        weighted(expected, row).backward()
        torch.testing.assert_close(actual[id(row)], expected, atol=1e-4, rtol=0)
    expected_gradient = gradients(model)
    assert gradient.keys() == expected_gradient.keys()
    for name, expected in expected_gradient.items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(gradient[name], expected, atol=2e-3 * scale + 1e-6, rtol=0)


@pytest.mark.parametrize("family", sorted(PADDED))
def test_packing_these_would_be_wrong(family):
    model = random_model(family)
    forward = Forward(packed=True, attention="", plain_head=family not in OWN_HEAD)
    policy = Policy(model, VOCAB, 1.0, chosen_forward=forward)
    (batch,) = micro_batches(policy, samples_of(ROWS), range(len(ROWS)), 1000)
    try:
        with torch.no_grad():
            actual = policy(batch.inputs).logprobs
    except ValueError:  # Mamba's code refuses the mask
        return
    own = [own_logprobs(model, ROWS[row]).detach() for row in batch.rows]
    gaps = [(f[: len(o)] - o).abs().max() for f, o in zip(actual, own, strict=True)]
    assert max(gaps) > 0.1


def test_a_window_longer_than_the_context_does_not_stand_in_the_way():
    assert not forward_of(random_model("mistral-sliding"), context=7).packed
    assert "sees 6 tokens only" in forward_of(random_model("mistral-sliding"), context=7).rejections
    model = random_model("mistral-sliding")
    for module in [model, *model.modules()]:
        if hasattr(module, "sliding_window"):
            module.sliding_window = 64
    model.config.sliding_window = 64
    assert forward_of(model, context=64).packed
    assert not forward_of(model, context=65).packed


def test_logits_changed_behind_the_head_take_the_models_own_way():
    model = random_model()
    forward = model.forward

    def capped(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = 3 * torch.tanh(output.logits / 3)
        return output

    model.forward = capped
    actual = forward_of(model)
    assert (actual.packed, actual.plain_head) == (True, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_its_own_numbers_are_those_of_its_present_weights_in_float32(dtype):
    """Of rounded weights too. The model is left as it was."""
    model = cast(random_model("llama"), dtype)
    exact = deepcopy(model).float()
    attention = model.config._attn_implementation
    actual = float32_logprobs(model, VOCAB, SAMPLES)
    assert model.config._attn_implementation == attention != EAGER
    for parameter, same in zip(model.parameters(), exact.parameters(), strict=True):
        assert parameter.dtype == dtype
        assert torch.equal(parameter.float(), same)
    exact.set_attn_implementation(EAGER)
    expected = torch.cat([own_logprobs(exact, row) for row in ROWS])
    torch.testing.assert_close(actual.float(), expected, atol=1e-5, rtol=0)


def test_a_model_that_no_way_computes_rightly_is_refused():
    model = random_model()
    forward = model.forward

    def moody(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits * kwargs["input_ids"].shape[-1]
        return output

    model.forward = moody
    with pytest.raises(UserError, match=r"Qwen2ForCausalLM cannot be trained: .* nats off"):
        forward_of(model)


def test_weights_that_are_not_finite_are_refused():
    model = random_model()
    with torch.no_grad():
        model.get_output_embeddings().weight[3] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        forward_of(model)


def test_the_tolerance_follows_the_models_rounding():
    """Embeddings a thousand times larger round a thousand times more; float64 hardly rounds."""
    assert forward_of(random_model().double()).rounding < 1e-12
    assert 1e-8 < forward_of(random_model()).rounding < 1e-4
