"""Log-probabilities and entropy against the model's own logits, chunked or not."""

import hashlib
from dataclasses import replace

import pytest
import torch
from families import VOCAB
from small_models import double_model, random_model
from small_samples import Row, samples_of
from torch.distributed.tensor import DTensor

import rlvr_cli.model.policy
from rlvr_cli.core.errors import UserError
from rlvr_cli.model import head, packing
from rlvr_cli.model.adapter import add_adapter, switched_off
from rlvr_cli.model.forward import PACKED, choose_forward, float32_logprobs
from rlvr_cli.model.policy import (
    Critic,
    Policy,
    check_as_trained,
    keeps_full_weights,
    recompute,
    shard_module,
    weights_digest,
)
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.ranks.group import local_shard
from rlvr_cli.training.batch import micro_batches

ROWS = [
    Row(prompt, response)
    for prompt, response in [
        ([2, 3, 4], [5, 6, 7, 1]),
        ([8], [9]),
        ([2, 3, 4, 5, 6], [1, 1, 1]),
    ]
]


def stats(policy: Policy, rows=ROWS):
    (batch,) = micro_batches(policy, samples_of(rows), range(len(rows)), 10_000)
    return batch, policy(batch.inputs)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "qwen3", "llama", "gpt-neox"])
def test_equal_to_the_models_own_logits(family):
    policy = Policy(random_model(family).double(), VOCAB, temperature=0.7)
    batch, actual = stats(policy)
    for index, row in enumerate(ROWS[row] for row in batch.rows):
        ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
        logits = policy.model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / 0.7
        distribution = torch.distributions.Categorical(logits=logits)
        length = len(row.response_ids)
        logprobs = distribution.log_prob(torch.tensor(row.response_ids))
        torch.testing.assert_close(actual.logprobs[index, :length], logprobs)
        torch.testing.assert_close(actual.entropy[index, :length], distribution.entropy())
        assert not actual.logprobs[index, length:].any()


def test_chunks_give_the_same_values_and_gradients(monkeypatch):
    policy = Policy(random_model().double(), VOCAB, temperature=1.0)
    results = []
    for chunk_logits in (1 << 24, 2 * VOCAB):
        monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", chunk_logits)
        _, actual = stats(policy)
        (gradient,) = torch.autograd.grad(
            actual.logprobs.sum(), policy.model.get_output_embeddings().weight
        )
        results.append((actual.logprobs.detach(), actual.entropy, gradient))
    for unchunked, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, unchunked)


def test_ids_beyond_the_tokenizer_have_no_probability():
    policy = Policy(random_model().double(), 10, temperature=1.0)
    rows = [Row([2], [token]) for token in range(10)]
    _, actual = stats(policy, rows)
    assert actual.logprobs.exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("chunk_logits", [1 << 24, VOCAB * 2])
def test_the_entropy_has_its_gradient_where_asked(monkeypatch, chunk_logits):
    monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", chunk_logits)
    policy = Policy(random_model().double(), VOCAB, temperature=0.7)
    (batch,) = micro_batches(policy, samples_of(ROWS), range(3), 10_000)
    weight = policy.model.get_output_embeddings().weight
    actual = policy(batch.inputs, entropy_gradient=True).entropy.sum()
    logits = policy(batch.inputs, with_head=False) @ weight.T / 0.7
    entropy = torch.distributions.Categorical(logits=logits).entropy().sum()
    gradients = [torch.autograd.grad(item, weight)[0] for item in (actual, entropy)]
    torch.testing.assert_close(*gradients)
    assert not policy(batch.inputs).entropy.requires_grad


def test_rows_of_logits_at_once_by_hand():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert rlvr_cli.model.policy.chunk_rows(1 << 14, cpu) == 1024
    assert rlvr_cli.model.policy.chunk_rows(1 << 20, cpu) == 16
    assert rlvr_cli.model.policy.chunk_rows(1 << 20, gpu) == 1024
    assert rlvr_cli.model.policy.chunk_rows(1 << 10, gpu) == 1 << 14
    assert rlvr_cli.model.policy.chunk_rows(1 << 25, cpu) == 1


@pytest.mark.parametrize(("rows", "chunks"), [(8, []), (7, [7, 1])])
def test_rows_of_logits_that_fit_are_not_computed_again(monkeypatch, rows, chunks):
    """Of 4 + 1 + 3 tokens, a chunk's logits are computed once forward and once backward."""
    policy = Policy(random_model(), VOCAB, 1.0)
    chunk_lengths = []
    compute = head.compute_logits

    def spy(states, *args):
        chunk_lengths.append(len(states))
        return compute(states, *args)

    monkeypatch.setattr(head, "compute_logits", spy)
    monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", rows * VOCAB)
    _, actual = stats(policy)
    assert chunk_lengths == chunks
    actual.logprobs.sum().backward()
    assert chunk_lengths == 2 * chunks


def test_without_entropy_it_is_0_and_all_else_the_same():
    policy = Policy(random_model(), VOCAB, 1.0)
    batch, expected = stats(policy)
    actual = policy(batch.inputs, entropy=False)
    assert torch.equal(actual.logprobs, expected.logprobs)
    assert expected.entropy.any()
    assert not actual.entropy.any()
    assert not policy(batch.inputs, False, True).entropy.any()


def test_an_output_layer_with_more_than_weights_is_the_models_own():
    model = random_model("cohere").double()  # it scales its logits by 0.25
    scaled = Policy(model, VOCAB, 1.0, chosen_forward=replace(PACKED, plain_head=False))
    _, actual = stats(scaled)
    _, expected = stats(Policy(model, VOCAB, 4.0))
    torch.testing.assert_close(actual.logprobs, expected.logprobs)


def test_the_policy_is_with_its_adapter_unless_asked_for_without():
    model = random_model().double()
    _, before = stats(Policy(model, VOCAB, 1.0))
    add_adapter(model, 2, 4, "all-linear", seed=0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(parameter)
    batch, actual = stats(Policy(model, VOCAB, 1.0))
    with switched_off(model):
        without = Policy(model, VOCAB, 1.0)(batch.inputs)
    assert torch.equal(without.logprobs, before.logprobs)
    assert not torch.equal(actual.logprobs, before.logprobs)


def test_sums_are_in_float32_at_least_and_where_the_model_is():
    for dtype, summed in (("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")):
        policy = Policy(random_model().to(getattr(torch, dtype)), VOCAB, 1.0)
        assert policy.sum_dtype == getattr(torch, summed)
    assert Policy(random_model().to("meta"), VOCAB, 1.0).device.type == "meta"


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "gpt2", "gpt-neox", "phi3"])
def test_layers_that_are_computed_again_give_the_same_and_keep_their_input_alone(family):
    """What is kept for the backward pass is counted by autograd's own hooks."""
    actual = []
    for recomputes in (False, True):
        policy = Policy(random_model(family).double(), VOCAB, 0.7)
        weights = {p.data_ptr() for p in policy.parameters()}
        saved_numbers = [0]
        if recomputes:
            recompute(policy)

        def count(tensor, weights=weights, saved_numbers=saved_numbers):
            saved_numbers[0] += 0 if tensor.data_ptr() in weights else tensor.numel()
            return tensor

        (batch,) = micro_batches(policy, samples_of(ROWS), range(3), 10_000)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            policy(batch.inputs, with_head=False)
        _, figures = stats(policy)
        figures.logprobs.sum().backward()
        gradients = [p.grad for p in policy.parameters() if p.grad is not None]
        actual.append((saved_numbers[0], [figures.logprobs, figures.entropy, *gradients]))
        with torch.no_grad():
            assert torch.equal(stats(policy)[1].logprobs, figures.logprobs)
    (stored_numbers, stored), (input_numbers, recomputed) = actual
    assert input_numbers < stored_numbers / 3
    assert all(map(torch.equal, stored, recomputed))


@pytest.fixture
def _one_process():
    """A group of one process, as on one GPU."""
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize("offload", ["none", "all"])
def test_shared_out_over_one_process_it_computes_in_another_type(offload):
    """The weights and their gradients keep theirs, and the critic's head computes in float32."""
    policy = Policy(double_model(), VOCAB, 1.0)
    critic = Critic(policy.model, True)
    torch.nn.init.normal_(critic.head.weight)
    (batch,) = micro_batches(policy, samples_of(ROWS), range(3), 10_000)
    _, reference = stats(policy)
    reference.logprobs.sum().backward()
    gradients = [p.grad.clone() for p in policy.parameters()]
    policy.zero_grad()
    values = critic(batch.inputs, None).detach()
    for module in (policy, critic):
        shard_module(module, OptimConfig(precision="bfloat16", offload=offload))
    _, rounded = stats(policy)
    assert rounded.states.dtype == torch.bfloat16
    rounded.logprobs.sum().backward()
    assert 0 < (rounded.logprobs - reference.logprobs).abs().max() < 0.5
    for parameter, gradient in zip(policy.parameters(), gradients, strict=True):
        assert parameter.dtype == parameter.grad.dtype == torch.float64
        ours = local_shard(parameter.grad).flatten()
        assert torch.nn.functional.cosine_similarity(ours, gradient.flatten(), 0) > 0.98
    actual = critic(batch.inputs, None)
    assert actual.dtype == torch.float64
    assert 0 < (actual - values).abs().max() < 0.5


@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize("spares", [{}, {"checkpointing": "on"}, {"offload": "all"}])
def test_weights_stay_whole_until_they_were_passed_backward(spares):
    """And after no pass that has no backward: there the next update would be missed."""
    settings = {"precision": "bfloat16", "weights": "float32", "checkpointing": "off"}
    optim = OptimConfig(**settings | spares)
    policy = Policy(double_model(), VOCAB, 1.0)
    shard_module(policy, optim)

    def has_full_weights():
        return not any(isinstance(parameter, DTensor) for parameter in policy.parameters())

    with torch.no_grad():
        stats(policy)
    assert not has_full_weights()
    _, actual = stats(policy)
    assert has_full_weights() == keeps_full_weights(optim) == (not spares)
    actual.logprobs.sum().backward()
    assert not has_full_weights()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    _, shifted = stats(policy)
    assert (shifted.logprobs - actual.logprobs).abs().max() > 1e-3


@pytest.mark.usefixtures("_one_process")
def test_what_trains_is_held_against_the_models_own_numbers(monkeypatch):
    """In bfloat16 they are near, unless a response does not see its prompt."""
    model = random_model("llama")
    samples = [(row.prompt_ids, row.response_ids) for row in ROWS]
    policy = Policy(model, VOCAB, 0.5, choose_forward(model, VOCAB, samples, 128))
    own = float32_logprobs(model, VOCAB, samples)
    check_as_trained(policy, own, 1e-5)
    shard_module(policy, OptimConfig(precision="bfloat16"))
    check_as_trained(policy, own, 0.1)
    assert policy.temperature == 0.5
    with pytest.raises(UserError, match=r"LlamaForCausalLM cannot be trained as set: .* nats off"):
        check_as_trained(policy, own, 1e-5)
    monkeypatch.setattr(
        packing, "packed_attention", lambda q, *_: torch.zeros_like(q).transpose(1, 2)
    )
    with pytest.raises(UserError, match="nats off"):
        check_as_trained(policy, own, 0.1)


@pytest.mark.parametrize("has_own_body", [True, False])
def test_a_critics_values_by_hand(has_own_body):
    model = random_model().bfloat16()
    policy = Policy(model, VOCAB, 1.0)
    critic = Critic(model, has_own_body)
    assert (critic.body is not None) == has_own_body
    assert (critic.head.weight.shape, critic.head.weight.dtype) == ((1, 32), torch.float32)
    (batch,) = micro_batches(policy, samples_of(ROWS), range(3), 10_000)
    states = policy(batch.inputs, with_head=False)
    policy_states = None if has_own_body else states
    assert not critic(batch.inputs, policy_states).any()
    torch.nn.init.normal_(critic.head.weight)
    critic.head.bias.data.fill_(2.0)
    expected = states.float() @ critic.head.weight[0] + 2.0
    actual = critic(batch.inputs, policy_states)
    torch.testing.assert_close(actual[batch.mask.bool()], expected)
    assert not actual[~batch.mask.bool()].any()
    if has_own_body:
        assert torch.equal(actual, critic(batch.inputs, 0 * states))
        assert next(critic.body.parameters()) is not next(model.base_model.parameters())
    else:
        with pytest.raises(ValueError, match="needs the policy's hidden states"):
            critic(batch.inputs, None)


def test_the_checksum_of_weights_is_that_of_their_checksums_in_order():
    weights = [torch.tensor([1.0, 2.0]), torch.tensor([[3, 4]], dtype=torch.int64)]
    digests = [hashlib.sha256(weight.numpy().tobytes()).digest() for weight in weights]
    assert weights_digest(weights) == hashlib.sha256(digests[0] + digests[1]).hexdigest()
    assert weights_digest(weights[::-1]) == hashlib.sha256(digests[1] + digests[0]).hexdigest()
