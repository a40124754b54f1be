"""Layers computed another way give the same numbers and gradients."""

from copy import deepcopy

import pytest
import torch
from conftest import double_model, random_model
from families import VOCAB

from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.model.policy import Policy
from rlvr_cli.model.units import AS_IT_STANDS, Way, computed, decoder_layers, in_units, outside
from rlvr_cli.training.batch import micro_batches

ROWS = [
    TrainingSample(
        prompt, response, torch.zeros(len(response)), 1.0, 0, is_fresh=True, is_cut_off=False
    )
    for prompt, response in [
        ([2, 3, 4], [5, 6, 7, 1]),
        ([2, 3, 4], [9, 9]),
        ([8], [9]),
        ([2, 3, 4, 5, 6], [1, 1, 1]),
    ]
]
FAMILIES = ["qwen2-tied", "qwen2-untied", "gpt2", "gpt-neox", "llama", "phi3"]


def loss_and_gradients(model, way: Way):
    policy = Policy(model, VOCAB, 0.7, way)
    (batch,) = micro_batches(ROWS, 10_000, policy.like)
    model.zero_grad()
    with policy.computed():
        found = policy.token_stats(batch.inputs)
    (found.logprobs.sum() + found.entropy.sum()).backward()
    return found, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "way",
    [
        Way(recomputes=True),
        Way(device=torch.device("cpu")),
        Way(dtype=torch.float64, device=torch.device("cpu"), recomputes=True),
    ],
)
def test_the_same_numbers_and_gradients(family, way):
    model = random_model(family).double()
    found, gradients = loss_and_gradients(deepcopy(model), AS_IT_STANDS)
    again, others = loss_and_gradients(model, way)
    torch.testing.assert_close(again.logprobs, found.logprobs, rtol=1e-12, atol=1e-12)
    assert gradients.keys() == others.keys()
    assert gradients
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, rtol=1e-9, atol=1e-9)


def test_in_another_type_the_weights_stay_and_their_gradients_have_theirs():
    model = double_model()
    found, gradients = loss_and_gradients(deepcopy(model), AS_IT_STANDS)
    near, others = loss_and_gradients(model, Way(dtype=torch.bfloat16, recomputes=True))
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    gap = (near.logprobs.double() - found.logprobs).abs()
    assert 0 < gap.max() < 0.5
    for name, gradient in gradients.items():
        assert others[name].dtype == torch.float64
        like = torch.nn.functional.cosine_similarity(others[name].flatten(), gradient.flatten(), 0)
        assert like > 0.98, name


def test_a_layer_keeps_its_input_alone():
    """What is kept for the backward pass, counted by autograd's own hooks."""

    def kept(way: Way) -> int:
        model, numbers = random_model(), [0]
        policy = Policy(model, VOCAB, 1.0, way)
        (batch,) = micro_batches(ROWS, 10_000, policy.like)
        weights = {p.data_ptr() for p in model.parameters()}

        def count(tensor: torch.Tensor) -> torch.Tensor:
            numbers[0] += 0 if tensor.data_ptr() in weights else tensor.numel()
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
        with hooks, policy.computed():
            policy.hidden(batch.inputs)
        return numbers[0]

    assert kept(Way(recomputes=True)) < kept(AS_IT_STANDS) / 5


def test_outside_of_the_context_nothing_changes():
    model, ids = random_model(), torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        in_units(model)
        assert torch.equal(model(input_ids=ids).logits, before)
        with computed(Way(dtype=torch.bfloat16)):
            assert model(input_ids=ids).logits.dtype == torch.bfloat16
    assert [type(layer).__name__ for layer in decoder_layers(model)] == ["Qwen2DecoderLayer"] * 2


def test_every_weight_is_in_a_layer_or_outside():
    model = random_model("qwen2-untied")
    inside = {p for layer in decoder_layers(model) for p in layer.parameters()}
    rest = {p for part in outside(model) for p in part.parameters(recurse=False)}
    assert inside | rest == set(model.parameters())
    assert not inside & rest
    assert len(rest) == 3  # embedding, last norm, output layer


def test_a_copy_computes_with_its_own_weights():
    model = random_model()
    in_units(model)
    other = deepcopy(model)
    with torch.no_grad(), computed(Way(dtype=torch.float64)):
        other.model.layers[0].mlp.down_proj.weight.zero_()
        ids = torch.tensor([[3, 4, 5]])
        assert not torch.equal(model(input_ids=ids).logits, other(input_ids=ids).logits)
