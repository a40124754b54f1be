"""Passes before the first update."""

import torch
from conftest import random_model
from families import VOCAB

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import KL
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.model.policy import Policy
from rlvr_cli.model.units import Way
from rlvr_cli.training.batch import micro_batches
from rlvr_cli.training.forward import ForwardPass


def test_log_probabilities_are_taken_in_the_precision_of_the_update():
    """Else the ratio at the first of several updates is not 1."""
    policies = [Policy(random_model(seed=seed), VOCAB, 1.0, Way(torch.bfloat16)) for seed in (0, 1)]
    exact = Policy(policies[0].model, VOCAB, 1.0)
    rows = [
        TrainingSample([3, 4], [5, 6, 7 + n], torch.zeros(3), 1.0, 0, True, False) for n in range(4)
    ]
    algo = Algorithm(mini_batches=2, kl=KL())
    scored = ForwardPass(policies[0], policies[1], None, algo, 1000).add_logprobs(rows)
    (batch,) = micro_batches(rows, 1000, exact.head.weight)
    with torch.no_grad():
        precise = exact.token_stats(batch.inputs).logprobs
        with policies[0].computed():
            own, reference = (policy.token_stats(batch.inputs).logprobs for policy in policies)
    by_row = {tuple(row.response_ids): n for n, row in enumerate(batch.samples)}
    for row in scored:
        n = by_row[tuple(row.response_ids)]
        assert torch.equal(row.old_logprobs, own[n])
        assert torch.equal(row.ref_logprobs, reference[n])
        assert not torch.equal(row.old_logprobs, precise[n])


def test_tokens_count_once_for_each_policy_that_reads_them():
    policy, reference = (Policy(random_model(seed=seed), VOCAB, 1.0) for seed in (0, 1))
    rows = [TrainingSample([3], [5] * n, torch.zeros(n), 1.0, 0, True, False) for n in (2, 4)]
    forward = ForwardPass(policy, reference, None, Algorithm(mini_batches=2, kl=KL()), 1000)
    for _ in range(2):
        forward.add_logprobs(rows)
        assert forward.take_tokens() == 2 * (2 + 4)
    assert forward.take_tokens() == 0
