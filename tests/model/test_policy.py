"""Log-probabilities and entropy against the model's own logits, chunked or not."""

import pytest
import torch
from conftest import random_model
from families import VOCAB

import rlvr_cli.model.policy
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.model.policy import Policy
from rlvr_cli.training.batch import micro_batches

ROWS = [
    TrainingSample(
        prompt, response, torch.zeros(len(response)), 1.0, 0, is_fresh=True, is_cut_off=False
    )
    for prompt, response in [
        ([2, 3, 4], [5, 6, 7, 1]),
        ([8], [9]),
        ([2, 3, 4, 5, 6], [1, 1, 1]),
    ]
]


def stats(policy: Policy, rows=ROWS):
    (batch,) = micro_batches(rows, 10_000, policy.head.weight)
    return batch, policy.token_stats(batch.inputs)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "qwen3", "llama", "gpt-neox"])
def test_equal_to_the_models_own_logits(family):
    policy = Policy(random_model(family).double(), VOCAB, temperature=0.7)
    batch, found = stats(policy)
    for index, row in enumerate(batch.samples):
        ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
        logits = policy.model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / 0.7
        distribution = torch.distributions.Categorical(logits=logits)
        length = len(row.response_ids)
        logprobs = distribution.log_prob(torch.tensor(row.response_ids))
        torch.testing.assert_close(found.logprobs[index, :length], logprobs)
        torch.testing.assert_close(found.entropy[index, :length], distribution.entropy())
        assert not found.logprobs[index, length:].any()


def test_chunks_give_the_same_values_and_gradients(monkeypatch):
    policy = Policy(random_model().double(), VOCAB, temperature=1.0)
    results = []
    for chunk_logits in (1 << 24, 2 * VOCAB):
        monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", chunk_logits)
        policy.model.zero_grad()
        _, found = stats(policy)
        found.logprobs.sum().backward()
        gradient = policy.head.weight.grad.clone()
        results.append((found.logprobs.detach(), found.entropy, gradient))
    for whole, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole)


def test_ids_beyond_the_tokenizer_have_no_probability():
    policy = Policy(random_model().double(), 10, temperature=1.0)
    rows = [
        TrainingSample([2], [token], torch.zeros(1), 1.0, 0, is_fresh=True, is_cut_off=False)
        for token in range(10)
    ]
    _, found = stats(policy, rows)
    assert found.logprobs.exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("chunk_logits", [1 << 24, VOCAB * 2])
def test_the_entropy_has_its_gradient_where_asked(monkeypatch, chunk_logits):
    monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", chunk_logits)
    policy = Policy(random_model().double(), VOCAB, temperature=0.7)
    (batch,) = micro_batches(ROWS, 10_000, policy.head.weight)
    hidden = policy.hidden(batch.inputs).detach().requires_grad_()
    policy.stats_of(hidden, batch.inputs, entropy_gradient=True).entropy.sum().backward()
    found, hidden.grad = hidden.grad, None
    states = hidden[batch.inputs.predicted_from[batch.mask.bool()]]
    logits = policy.head(states) / 0.7
    torch.distributions.Categorical(logits=logits).entropy().sum().backward()
    torch.testing.assert_close(found, hidden.grad)
    assert not policy.stats_of(hidden, batch.inputs).entropy.requires_grad


def test_rows_of_logits_at_once_by_hand():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert rlvr_cli.model.policy.chunk_rows(1 << 14, cpu) == 1024
    assert rlvr_cli.model.policy.chunk_rows(1 << 20, cpu) == 16
    assert rlvr_cli.model.policy.chunk_rows(1 << 20, gpu) == 1024
    assert rlvr_cli.model.policy.chunk_rows(1 << 10, gpu) == 1 << 14
    assert rlvr_cli.model.policy.chunk_rows(1 << 25, cpu) == 1
