"""Rows without a part in the gradient are not passed, and nothing that trains notices."""

import dataclasses
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from families import VOCAB
from safetensors.torch import load_file, save_file
from side_by_side import side_by_side
from small_samples import Row, present, samples_of
from test_update import STEP, Imitator, Learner, once, token_entropies, token_logprobs

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import KLControl
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.loss import has_gradient
from rlvr_cli.model.policy import shard_module
from rlvr_cli.ranks.group import full_tensor, is_first
from rlvr_cli.training import update

READ_ELSEWHERE = {
    "bonus": Algorithm(entropy_coef=0.01, mini_batches=2),
    "likelihood": Algorithm(positive_nll=0.1),
    "chosen tokens": Algorithm(top_entropy=0.5),
    "steered": Algorithm(
        kl=KL(kind="k1", place="reward", control=KLControl(kind="proportional", target=0.1))
    ),
}
ALGOS = ALGORITHMS | READ_ELSEWHERE
IN_TWO = sorted(
    ALGOS.keys() - {"vapo", "ppo_penalty", "dppo", "likelihood", "chosen tokens", "steered"}
)
"""Those that two processes train: all that pass few rows, and others by their KL, critic, bonus."""
OTHERS = {"ppo", "vapo", "ppo_penalty", "grpo", "dppo", "reinforce++_baseline", *READ_ELSEWHERE}
"""Those whose loss reads all rows."""
PASSED = {
    **dict.fromkeys(ALGOS.keys() - OTHERS, 3),
    "reinforce": 7,  # those whose reward is not 0
    "reinforce++": 12,  # the batch's mean is in all
    "raft": 4,
    "sft": 12,
    "opd": 12,
}
"""Rows of `batch` with a part in the gradient."""


def batch() -> list[Row]:
    """Four groups of three: one mixed, and equal rewards of 0.1, 0 and 1. The third was carried."""
    rng = random.Random(0)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(1, 6))] for _ in range(4)]
    rows = []
    for index in range(12):
        group = index % 4
        length = rng.randint(1, 9)
        reward = (float(index == 0), 0.1, 0.0, 1.0)[group]
        rows.append(
            Row(
                prompt_ids=prompts[group],
                response_ids=[rng.randrange(2, VOCAB) for _ in range(length)],
                rollout_logprobs=torch.tensor([-rng.random() * 9 for _ in range(length)]).double(),
                reward=reward,
                group=group,
                is_fresh=group != 2,
                is_correct=reward == 1,
            )
        )
    return rows


class Trained(NamedTuple):
    """What one update did."""

    gradient: torch.Tensor
    """Of all optimizer steps, one after the other."""
    weights: torch.Tensor
    metrics: dict[str, float]
    passes: list[int]
    """Of each row that trains."""
    trains: list[bool]
    """Whether it has a part in the gradient."""


def every_row(samples, algo):
    """Choose all rows: the plain update."""
    return torch.ones(len(samples), dtype=torch.bool)


def trained(
    algo: Algorithm, rows: list[Row], chooser: Callable = has_gradient, is_shared: bool = False
) -> Trained:
    """Train on rows once, in passes of few tokens."""
    created = Imitator if algo.reads_responses else Learner
    learner = created(algo, micro_tokens=24, lr=1e-3, critic_lr=1e-3, warmup_steps=0)
    modules = [learner.policy, learner.critic, learner.reference]
    if is_shared:
        for module in filter(None, modules):
            shard_module(module, learner.updater.optim)
        learner.updater.reset_optimizer()
    parameters = [p for module in filter(None, modules[:2]) for p in module.parameters()]
    gradients = []

    def keep(*_) -> None:
        parts = [p.grad for p in parameters if p.grad is not None]
        gradients.extend(full_tensor(part).flatten().clone() for part in parts)

    learner.updater.optimizer.register_step_pre_hook(keep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "has_gradient", chooser)
        samples = samples_of(learner.rows(rows))
        learner.updater.measure_mismatch(samples, STEP)
        metrics = present(learner.updater.update(samples, STEP, 0))
    return Trained(
        torch.cat(gradients),
        torch.cat([full_tensor(p.detach()).flatten() for p in parameters]),
        metrics,
        samples.passes.tolist(),
        has_gradient(samples, algo).tolist(),
    )


@cache
def plain(name: str) -> Trained:
    """The plain update of a preset, made once."""
    return trained(once(ALGOS[name]), batch(), every_row)


def is_near(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two vectors differ by at most 1e-6 of the norm."""
    return bool((actual - expected).norm() <= 1e-6 * expected.norm())


@pytest.mark.parametrize("name", ALGOS)
def test_the_gradient_is_that_of_all_rows(name):
    assert ALGOS[name].learns_by_advantage_alone == (name not in OTHERS)
    selected = trained(once(ALGOS[name]), batch())
    assert is_near(selected.gradient, plain(name).gradient)
    assert is_near(selected.weights, plain(name).weights)
    for key in ("loss", "grad_norm", "tokens_trained"):
        assert selected.metrics[key] == pytest.approx(plain(name).metrics[key], abs=1e-9)
    assert [count == 1 for count in selected.passes] == selected.trains
    assert sum(selected.trains) == (12 if name in OTHERS else PASSED[name])


def shared(place: Path) -> None:
    gradients = {
        name: trained(once(ALGOS[name]), batch(), is_shared=True).gradient for name in IN_TWO
    }
    if is_first():
        save_file(gradients, place)


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_all_rows(tmp_path):
    """One of them often has no row of its own."""
    side_by_side(2, lambda: shared(tmp_path / "two"), tmp_path)
    two = load_file(tmp_path / "two")
    for name in IN_TWO:
        assert is_near(two[name], plain(name).gradient), name


def test_moments_move_the_weights_in_a_mini_batch_without_a_gradient():
    """Six mini-batches of two rows, of which three at most have one: of each other one row is
    passed, and without its pass the weights would rest."""
    algo = Algorithm(mini_batches=6)
    everything, selected = trained(algo, batch(), every_row), trained(algo, batch())
    assert is_near(selected.weights, everything.weights)
    assert is_near(selected.gradient, everything.gradient)
    assert 6 <= sum(selected.passes) <= 7
    assert [
        count for row, count in zip(batch(), selected.passes, strict=True) if row.group == 0
    ] == [*[1] * 3]


def test_the_first_mini_batch_compares_the_longest_fresh_row_that_has_no_gradient():
    """Three quarters of the rows are fresh, and those that train are not."""
    rows = [dataclasses.replace(row, is_fresh=row.group != 0) for row in batch()]
    selected = trained(Algorithm(), rows)
    (extra,) = (n for n, count in enumerate(selected.passes) if count and rows[n].group)
    assert sum(selected.passes) == 4
    assert len(rows[extra].response_ids) == max(len(r.response_ids) for r in rows if r.group)
    own = torch.stack(token_logprobs(Learner(Algorithm()).policy, rows[extra])).detach()
    gap = (own - rows[extra].rollout_logprobs).abs().mean()
    assert selected.metrics["mismatch"] == pytest.approx(gap.item())


def test_metrics_are_means_over_the_tokens_that_were_passed():
    learner = Learner(Algorithm())
    rows = learner.rows(batch())
    metrics = learner.train(rows, STEP, 0)
    trains = [row for row in rows if row.group == 0]
    entropies = torch.cat([token_entropies(learner.policy, row).detach() for row in trains])
    own = [torch.stack(token_logprobs(learner.policy, row)).detach() for row in trains]
    gaps = torch.cat(own) - torch.cat([row.rollout_logprobs for row in trains])
    assert metrics["entropy"] == pytest.approx(entropies.mean().item())
    assert metrics["mismatch"] == pytest.approx(gaps.abs().mean().item())
    assert metrics["tokens_trained"] == sum(len(row.response_ids) for row in rows)


def test_the_target_is_of_all_fresh_rows():
    algo = Algorithm(epochs=2, mini_batches=2, target_kl=9.0)
    everything, selected = trained(algo, batch(), every_row), trained(algo, batch())
    key = "approx_kl_after"
    assert selected.metrics[key] == pytest.approx(everything.metrics[key], rel=1e-9)
    assert sum(selected.passes) < sum(everything.passes)


def test_the_bar_counts_all_rows_and_the_tokens_that_were_passed():
    learner = Learner(Algorithm(mini_batches=2))
    samples = samples_of(learner.rows(batch()))
    calls = []
    learner.updater.measure_mismatch(samples, STEP)
    learner.updater.update(samples, STEP, 0, watch=lambda *call: calls.append(call))
    passed = sum(
        length * count for (_, length), count in zip(samples.lengths, samples.passes, strict=True)
    )
    every = sum(response for _, response in samples.lengths)
    assert calls[-1] == ("update", every, every, passed)
    assert passed == sum(length for _, length in samples.passed_lengths) < every
