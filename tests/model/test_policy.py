"""Log-probabilities and entropy against the model's own logits, chunked or not."""

import pytest
import torch
from conftest import FAMILIES, VOCAB, random_model

import rlvr_cli.model.policy
from rlvr_cli.algorithm.rows import Row
from rlvr_cli.core.types import UserError
from rlvr_cli.model.policy import Policy, packed_hidden
from rlvr_cli.training.batch import micro_batches

ROWS = [
    Row(prompt, response, torch.zeros(len(response)), 1.0, 0, is_fresh=True, is_cut_off=False)
    for prompt, response in [
        ([2, 3, 4], [5, 6, 7, 1]),
        ([8], [9]),
        ([2, 3, 4, 5, 6], [1, 1, 1]),
    ]
]


def stats(policy: Policy, rows=ROWS):
    (batch,) = micro_batches(rows, 10_000, policy.head.weight)
    return batch, policy.token_stats(batch)


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_the_models_own_logits(family):
    policy = Policy(random_model(family).double(), VOCAB, temperature=0.7)
    batch, found = stats(policy)
    for index, row in enumerate(batch.rows):
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
        Row([2], [token], torch.zeros(1), 1.0, 0, is_fresh=True, is_cut_off=False)
        for token in range(10)
    ]
    _, found = stats(policy, rows)
    assert found.logprobs.exp().sum().item() == pytest.approx(1)


def test_a_model_that_changes_its_logits_is_refused():
    model = random_model()
    forward = model.forward

    def capped(**kwargs):
        output = forward(**kwargs)
        output.logits = 3 * torch.tanh(output.logits / 3)
        return output

    model.forward = capped
    with pytest.raises(UserError, match="soft-capping"):
        Policy(model, VOCAB, temperature=1.0)


@pytest.mark.parametrize("chunk_logits", [1 << 24, VOCAB * 2])
def test_the_entropy_has_its_gradient_where_asked(monkeypatch, chunk_logits):
    monkeypatch.setattr(rlvr_cli.model.policy, "_CHUNK_LOGITS", chunk_logits)
    policy = Policy(random_model().double(), VOCAB, temperature=0.7)
    (batch,) = micro_batches(ROWS, 10_000, policy.head.weight)
    hidden = packed_hidden(policy.model.base_model, batch.packed).detach().requires_grad_()
    policy.stats_of(hidden, batch, entropy_gradient=True).entropy.sum().backward()
    found, hidden.grad = hidden.grad, None
    states = hidden[batch.packed.predicted_from[batch.mask.bool()]]
    logits = policy.head(states) / 0.7
    torch.distributions.Categorical(logits=logits).entropy().sum().backward()
    torch.testing.assert_close(found, hidden.grad)
    assert not policy.stats_of(hidden, batch).entropy.requires_grad
