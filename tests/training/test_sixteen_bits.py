"""One step in 16 bits has the gradient of the papers' sums in float64, up to what is rounded.

The step is whole: log-probabilities, reference, values and advantages are computed in 16 bits too,
by modules that are set up as a run's are. A fault of the size of one response falls outside.
"""

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
import torch
from small_models import random_model
from small_samples import Row
from test_update import Learner, make_rows, once, papers_loss, token_logprobs
from transformers import PreTrainedModel

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import TruncatedWeights
from rlvr_cli.algorithm.objective import LossInputs
from rlvr_cli.model.adapter import add_adapter, trained
from rlvr_cli.model.policy import shard_module
from rlvr_cli.ranks.group import full_tensor
from rlvr_cli.training.update import Updater

Gradients = dict[str, torch.Tensor]


class Bounds(NamedTuple):
    """How near a gradient must be to the exact one."""

    cosine: float
    norm: float
    """The largest difference of the norms, as a share of the exact one's."""


BOUNDS = {"bfloat16": Bounds(0.995, 0.02), "float16": Bounds(0.9999, 0.004)}
"""Twice what three sets of kernels (AVX-512, AVX2, none) had at most, or more: cosines from 0.9995
and norms within 0.008 in bfloat16, 0.99999 and 0.0023 in float16. That was PPO's policy, whose
advantages come of rounded values too; the other norms were within 0.0008."""
WAYS = ("dapo", "grpo", "ppo", "dapo with LoRA")
"""Without another model, with a reference, with reference and critic, with an adapter."""
GAPS = torch.tensor([-0.5, -0.1, 0.1, 0.5], dtype=torch.float64)
"""Nats between engine and trainer: no ratio is near a clip's bound, which rounding would cross."""


def algorithm(way: str) -> Algorithm:
    """One update a batch, with the correction that makes a pass for old log-probabilities."""
    algo = once(ALGORITHMS[way.split()[0]])
    return algo.model_copy(update={"importance_correction": TruncatedWeights()})


def adapt(model: PreTrainedModel) -> None:
    """Add an adapter that has learned, with the same numbers in every type."""
    add_adapter(model, 4, 8, "all-linear", seed=0)
    torch.manual_seed(3)
    for matrix in trained(model):
        matrix.data.copy_(0.1 * torch.randn(matrix.shape))


class Rounded(Learner):
    """A learner whose modules compute in 16 bits, with weights in float32."""

    def __init__(self, way: str, precision: str) -> None:
        super().__init__(algorithm(way), make_model=random_model, precision=precision)
        if way.endswith("LoRA"):
            adapt(self.policy.model)
        for module in (self.policy, self.critic, self.reference):
            if module is not None:
                shard_module(module, self.updater.optim)
        self.updater.reset_optimizer()

    def gradients(self) -> Gradients:
        return {name: full_tensor(grad).double() for name, grad in super().gradients().items()}


@cache
def rows_and_gradients(way: str) -> tuple[list[Row], Gradients]:
    """A batch, three rows of which older weights have sampled, and the oracle's gradients of it."""
    exact = Learner(algorithm(way))
    if way.endswith("LoRA"):
        adapt(exact.policy.model)
    generator = torch.Generator().manual_seed(0)
    rows = []
    for row in make_rows():
        own = torch.stack(token_logprobs(exact.policy, row)).detach()
        gaps = GAPS[torch.randint(len(GAPS), own.shape, generator=generator)]
        rows.append(dataclasses.replace(row, rollout_logprobs=own + gaps))
    papers_loss(exact, exact.rows(rows)).backward()
    return rows, exact.gradients()


def outside(actual: Gradients, expected: Gradients, bounds: Bounds) -> list[str]:
    """Which gradients, of policy and critic as one vector each, are not within the bounds."""
    assert actual.keys() == expected.keys()
    found = []
    for part in ("policy", "critic"):
        names = [name for name in expected if name.startswith(part)]
        if names:
            ours = torch.cat([actual[name].flatten() for name in names])
            exact = torch.cat([expected[name].flatten() for name in names])
            cosine = float(torch.cosine_similarity(ours, exact, dim=0))
            norm = float(ours.norm() / exact.norm())
            if cosine < bounds.cosine or abs(norm - 1) > bounds.norm:
                found.append(f"{part}: cosine {cosine:.6f}, norm {norm:.4f}")
    return found


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    """A group of one process, as on one GPU."""
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_is_the_papers_up_to_rounding(way, precision):
    rows, expected = rows_and_gradients(way)
    learner = Rounded(way, precision)
    learner.update(rows)
    assert outside(learner.gradients(), expected, BOUNDS[precision]) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_is_left_out_is_outside_of_the_bounds(way):
    """Outside of bfloat16's, which are the wider ones."""
    rows, expected = rows_and_gradients(way)
    longest = max(rows, key=lambda row: len(row.response_ids))
    learner = Rounded(way, "bfloat16")
    learner.update([row for row in rows if row is not longest])
    assert outside(learner.gradients(), expected, BOUNDS["bfloat16"]) != []


@pytest.mark.parametrize("way", WAYS)
def test_old_and_new_log_probabilities_swapped_are_outside_of_the_bounds(way, monkeypatch):
    right = Updater._loss_inputs

    def swapped(*args: object) -> LossInputs:
        inputs = right(*args)
        return dataclasses.replace(
            inputs, logprobs=inputs.old_logprobs, old_logprobs=inputs.logprobs
        )

    monkeypatch.setattr(Updater, "_loss_inputs", swapped)
    rows, expected = rows_and_gradients(way)
    learner = Rounded(way, "bfloat16")
    learner.update(rows)
    assert outside(learner.gradients(), expected, BOUNDS["bfloat16"]) != []
