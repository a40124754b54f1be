"""The scale of float16's losses: an overflow costs a pass and no batch, and the state is exact."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_trainer import has_even, make_trainer, steps, weights

from rlvr_cli.training import scaling
from rlvr_cli.training.scaling import LossScale, PassFigures
from rlvr_cli.training.trainer import Trainer

CPU = torch.device("cpu")
START = 2**16
"""Torch's first scale."""


class Learned:
    """One weight in float32, which a pass reads in float16: its gradient there is `slope`."""

    def __init__(self, scale: float = START, is_on: bool = True) -> None:
        self.weight = torch.nn.Parameter(torch.tensor([2.0]))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)
        self.loss_scale = LossScale(CPU, is_on)
        if is_on:
            self.loss_scale.load_state_dict({**self.loss_scale.state_dict(), "scale": scale})
        self.firsts: list[bool] = []

    def passing(self, slope: float, loss: float | None = None) -> Callable[[bool], PassFigures]:
        def run(is_first: bool) -> PassFigures:
            self.firsts.append(is_first)
            self.optimizer.zero_grad()
            own_loss = slope * self.weight.half().float().sum()
            self.loss_scale.backward(own_loss)
            self.loss_scale.unscale(self.optimizer)
            norm = float(self.weight.grad.abs().sum())
            return PassFigures(loss=own_loss.item() if loss is None else loss, grad_norm=norm)

        return run

    @property
    def scale(self) -> float:
        return self.loss_scale.state_dict()["scale"]


def test_an_overflow_is_passed_again_at_half_the_scale():
    """A gradient of 3 times 2**16 and 2**15 is above 65504, times 2**14 it is 49152."""
    learned = Learned()
    figures, repeats = learned.loss_scale.passed(learned.passing(3.0))
    assert (figures, repeats) == (PassFigures(loss=6.0, grad_norm=3.0), 2)
    assert learned.firsts == [True, False, False]
    assert learned.scale == 2**14
    assert learned.loss_scale.passed(learned.passing(3.0)) == (figures, 0)


def test_a_small_gradient_is_kept():
    """2**-25 is half of float16's smallest number, and is rounded to 0."""
    learned, plain = Learned(), Learned(is_on=False)
    small = 2.0**-25
    assert learned.loss_scale.passed(learned.passing(small))[0].grad_norm == small
    assert plain.loss_scale.passed(plain.passing(small))[0].grad_norm == 0


@pytest.mark.parametrize(
    ("slope", "loss", "passes"), [(math.inf, 1.0, 11), (1.0, math.nan, 1), (math.nan, None, 1)]
)
def test_what_no_scale_mends_is_passed_at_most_ten_times_more(slope, loss, passes):
    """A loss that is not finite is none of the scale's doing, so it is not passed again."""
    learned = Learned()
    figures, repeats = learned.loss_scale.passed(learned.passing(slope, loss))
    assert not figures.is_finite
    assert (len(learned.firsts), repeats, learned.scale) == (passes, passes - 1, START)


def test_the_scale_is_doubled_after_a_hundred_updates_without_an_overflow():
    learned = Learned()
    for _ in range(scaling._GROWTH_INTERVAL):
        assert learned.scale == START
        learned.loss_scale.passed(learned.passing(1e-3))
    assert learned.scale == 2 * START


def test_without_float16_nothing_is_scaled():
    learned = Learned(is_on=False)
    figures, repeats = learned.loss_scale.passed(learned.passing(math.inf, 1.0))
    assert (figures.grad_norm, repeats) == (math.inf, 0)
    assert learned.firsts == [True]
    assert learned.loss_scale.state_dict() == {}
    learned.loss_scale.load_state_dict(Learned().loss_scale.state_dict())


def test_a_state_without_a_scale_leaves_the_first_one():
    learned = Learned()
    learned.loss_scale.load_state_dict({})
    assert learned.scale == START


def trainer_at(scale: float, *settings: str) -> Trainer:
    half = ("optim.precision=float16", "steps=1", "rollout.mismatch_limit=1")
    trainer = make_trainer(has_even, *half, *settings)
    loss_scale = trainer.updater.loss_scale
    loss_scale.load_state_dict({**loss_scale.state_dict(), "scale": scale})
    return trainer


@pytest.mark.parametrize(
    "settings",
    [
        ("algo=ppo", "algorithm.advantage.critic.warmup=0", "algorithm.epochs=1"),
        pytest.param(("algo=grpo", "lora.rank=2"), marks=pytest.mark.slow),
    ],
)
def test_a_planted_overflow_costs_no_batch(settings, tmp_path: Path):
    """With a scale too large by far, weights, moments and figures are those of a good one."""
    planted = trainer_at(2.0**25, *settings)
    (row,) = steps(planted, tmp_path / "planted")
    final = planted.updater.loss_scale.state_dict()["scale"]
    good = trainer_at(final, *settings)
    (expected,) = steps(good, tmp_path / "good")
    assert row["overflows"] > expected["overflows"] == 0
    assert final * 2 ** row["overflows"] == 2.0**25
    for name in ("updates_skipped", "loss", "grad_norm", "entropy", "tokens_trained"):
        assert row[name] == expected[name]
    assert row["updates_skipped"] == 0
    assert all(map(torch.equal, weights(planted), weights(good)))
    (exact,) = steps(make_trainer(has_even, *settings, "steps=1"), tmp_path / "exact")
    assert row["grad_norm"] == pytest.approx(exact["grad_norm"], rel=0.01)  # without the scale
    for name, tensor in good.state_dict().tensors.items():
        assert torch.equal(planted.state_dict().tensors[name], tensor), name
