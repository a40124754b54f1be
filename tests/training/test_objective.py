"""One micro-batch: which log-probabilities count as old, and what learns."""

from dataclasses import replace

import pytest
import torch
from families import VOCAB
from small_models import double_model
from small_samples import Row, policy_stub, present, samples_of
from torch.utils._python_dispatch import TorchDispatchMode

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.objective import LossDenominators
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.training import update
from rlvr_cli.training.batch import MicroBatch, micro_batches
from rlvr_cli.training.update import Updater

SAID = torch.tensor([-1.0, -2.0, -3.0]).double()
TAKEN = torch.tensor([-1.5, -2.5, -3.5]).double()
FRESH = Row([5, 6], [7, 8, 9], SAID, advantages=torch.ones(3))
OF_SEVERAL = replace(FRESH, old_logprobs=TAKEN)
CARRIED = replace(FRESH, is_fresh=False)
DENOMINATORS = LossDenominators(9, 3, 3)


def batch_of(*rows: Row) -> MicroBatch:
    policy = policy_stub(torch.float64)
    (batch,) = micro_batches(policy, samples_of(rows), range(len(rows)), 1000)
    return batch


def made(policy: Policy, critic: Critic | None, name: str) -> Updater:
    return Updater(policy, critic, ALGORITHMS[name], OptimConfig(), 3, 10)


@pytest.fixture
def policy() -> Policy:
    return Policy(double_model(), VOCAB, 1.0)


def test_old_is_the_engines_for_what_was_carried_over_and_its_own_for_what_is_fresh(policy):
    updater = made(policy, None, "grpo")
    once = batch_of(FRESH, CARRIED)
    own = policy(once.inputs).logprobs.detach()
    _, actual = updater.objective(once, DENOMINATORS)
    zeros = torch.zeros(3).double()
    torch.testing.assert_close(actual.approx_kl, torch.stack([zeros, SAID - own[1]]))
    torch.testing.assert_close(actual.mismatch, torch.stack([(SAID - own[0]).abs(), zeros]))
    _, actual = updater.objective(batch_of(OF_SEVERAL), DENOMINATORS)
    torch.testing.assert_close(actual.approx_kl[0], TAKEN - own[0])
    torch.testing.assert_close(actual.mismatch[0], (SAID - own[0]).abs())


def test_while_only_the_critic_learns_the_policy_is_measured_all_the_same(policy):
    critic = Critic(policy.model, True).double()
    torch.nn.init.normal_(critic.head.weight)
    rows = replace(FRESH, old_values=torch.zeros(3), returns=torch.ones(3))
    updater = made(policy, critic, "ppo")
    unbroken, measured = updater.objective(batch_of(rows), DENOMINATORS)
    alone, repeated = updater.objective(batch_of(rows), DENOMINATORS, learns_policy=False)
    assert present(measured).keys() == present(repeated).keys()
    assert measured.value_loss is not None
    assert unbroken.item() != alone.item()
    alone.backward()
    assert all(parameter.grad is None for parameter in policy.model.parameters())
    assert any(parameter.grad is not None for parameter in critic.parameters())
    unbroken.backward()
    assert all(parameter.grad is not None for parameter in policy.model.parameters())


def test_the_coefficient_is_that_of_the_algorithm_and_counts(policy):
    rows = batch_of(replace(FRESH, ref_logprobs=SAID))
    updater = made(policy, None, "grpo")
    assert updater.kl_coef == ALGORITHMS["grpo"].kl.coef
    assert made(policy, None, "dapo").kl_coef == 0
    losses = []
    for coef in (0.0, 1.0, 2.0):
        updater.kl_coef = coef
        loss, actual = updater.objective(rows, DENOMINATORS)
        losses.append(loss.item())
        assert (actual.ref_kl > 0).all()
    assert losses[2] - losses[1] == pytest.approx(losses[1] - losses[0])
    assert losses[1] > losses[0]


class Waits(TorchDispatchMode):
    """The operations that have a GPU's number read, or wait for how many there are."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().removeprefix("aten::").split(".")[0]
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        self.names += [name] if name in self.WAITING or by_mask else []
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("chunk_logits", [1 << 24, 2 * VOCAB])
def test_no_number_is_read_from_the_gpu_while_a_micro_batch_is_computed(
    policy, name, chunk_logits, monkeypatch
):
    monkeypatch.setattr("rlvr_cli.model.policy._CHUNK_LOGITS", chunk_logits)
    critic = Critic(policy.model, True).double() if ALGORITHMS[name].critic else None
    updater = made(policy, critic, name)
    batch = batch_of(replace(OF_SEVERAL, old_values=torch.zeros(3), returns=torch.ones(3)), CARRIED)
    with Waits() as waits:
        loss, _ = updater.objective(batch, DENOMINATORS)
        loss.backward()
    assert waits.names == []


def test_one_optimizer_step_reads_as_much_whatever_its_micro_batches(policy, monkeypatch):
    """What lies on the GPU: a batch is laid out on the CPU beforehand."""
    rows = [replace(FRESH, response_ids=[7, 8, n]) for n in range(2, 8)]
    counts = []
    for micro_tokens in (1000, 5):
        updater = made(policy, None, "grpo")
        samples = samples_of(rows)
        parts = list(micro_batches(policy, samples, range(6), micro_tokens))
        monkeypatch.setattr(update, "micro_batches", lambda *_, parts=parts: iter(parts))
        with Waits() as waits:
            updater.update(samples, 1, 0)
        counts.append((len(parts), len(waits.names)))
    (item, few), (many, as_few) = counts
    assert (item, few) == (1, as_few)
    assert many == 6
