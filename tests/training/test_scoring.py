"""Passes before the first update."""

from dataclasses import replace

import pytest
import torch
from families import VOCAB
from small_models import random_model
from small_samples import Row, rows_of, samples_of

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import Critic
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.token_advantage import Gae
from rlvr_cli.model import policy as models
from rlvr_cli.model.policy import Policy
from rlvr_cli.training.scoring import add_logprobs


def test_tokens_count_once_for_each_policy_that_reads_them():
    policy, reference = (Policy(random_model(seed=seed), VOCAB, 1.0) for seed in (0, 1))
    rows = samples_of([Row([3], [5] * n, torch.zeros(n)) for n in (2, 4)])
    algo = Algorithm(mini_batches=2, kl=KL())
    assert add_logprobs(rows, algo, 1000, policy, reference) == 2 * (2 + 4)
    assert add_logprobs(rows, Algorithm(), 1000, policy) == 0


def passed(algo: Algorithm, rows: list[Row], critic=None) -> tuple[list[Row], list]:
    """The samples after the pass, and what was computed: (policy's or reference's, entropy)."""
    policy, reference = (Policy(random_model(seed=seed), VOCAB, 1.0) for seed in (0, 1))
    calls = []
    for name, item in (("own", policy), ("reference", reference)):
        forward = item.forward

        def spy(inputs, entropy=True, with_head=True, name=name, forward=forward):
            if with_head:
                calls.append((name, entropy))
            return forward(inputs, entropy, with_head=with_head)

        item.forward = spy
    reference = reference if algo.has_reference_model else None
    samples = samples_of(rows)
    add_logprobs(samples, algo, 1000, policy, reference, critic)
    return rows_of(samples), calls


FRESH = Row([3, 4], [5, 6, 7], torch.tensor([-1.0, -2.0, -3.0]).double())
CARRIED = replace(FRESH, response_ids=[8, 9, 2], is_fresh=False)


@pytest.mark.parametrize(
    ("algo", "expected"),
    [
        (Algorithm(), []),
        (Algorithm(epochs=2), [("own", False)]),
        (Algorithm(mini_batches=2), [("own", False)]),
        (Algorithm(top_entropy=0.5), [("own", True)]),
        (Algorithm(kl=KL()), [("reference", False)]),
        (Algorithm(kl=KL(place="reward")), [("own", False), ("reference", False)]),
    ],
)
def test_only_the_passes_are_made_that_the_algorithm_needs(algo, expected):
    (fresh, carried), calls = passed(algo, [FRESH, CARRIED])
    assert calls == expected
    names = [name for name, _ in expected]
    assert (fresh.old_logprobs is not None) == ("own" in names)
    for sample in (fresh, carried):
        assert (sample.ref_logprobs is not None) == ("reference" in names)
    if "own" in names:
        assert torch.equal(carried.old_logprobs, CARRIED.rollout_logprobs)
        for sample in (fresh, carried):
            assert (sample.entropy is not None) == (algo.top_entropy is not None)
            assert sample.entropy is None or sample.entropy.all()


@pytest.mark.parametrize("kind", ["own", "shared"])
@pytest.mark.parametrize("cut_off_value", ["bootstrap", "zero"])
def test_values_and_the_one_after_the_end_of_what_was_cut_off(kind, cut_off_value, monkeypatch):
    torch.manual_seed(0)
    critic = models.Critic(random_model(), kind == "own")
    torch.nn.init.normal_(critic.head.weight)
    forward = Policy.forward
    passes_without_head = []

    def spy(*args, with_head=True):
        if not with_head:
            passes_without_head.append(args)
        return forward(*args, with_head=with_head)

    monkeypatch.setattr(Policy, "forward", spy)
    algo = Algorithm(advantage=Gae(critic=Critic(kind=kind, cut_off_value=cut_off_value)))
    cut = replace(FRESH, is_cut_off=True)
    (unbroken, actual), _ = passed(algo, [FRESH, cut], critic)
    assert bool(passes_without_head) == (kind == "shared")
    assert len(unbroken.old_values) == len(actual.old_values) == 3
    torch.testing.assert_close(unbroken.old_values, actual.old_values)
    longer = replace(FRESH, response_ids=[5, 6, 7, 7])
    ((after,), _) = passed(algo, [longer], critic)
    assert unbroken.end_value == 0.0
    expected = after.old_values[3].item() if cut_off_value == "bootstrap" else 0.0
    assert actual.end_value == pytest.approx(expected, abs=1e-6)
    assert after.old_values[3].item() != pytest.approx(0.0, abs=1e-3)
