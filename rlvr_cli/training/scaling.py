"""Scale losses, so that float16 keeps small gradients (Micikevicius et al. 2018)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.optim import Optimizer

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import UpdateMeans

_RETRIES = 10
"""Halvings of one mini-batch: a gradient may be 1,024 times larger than those before it."""
_GROWTH_INTERVAL = 100
"""Updates after which the scale is doubled. A doubling that is too much costs one more pass, so at
most a hundredth of the updates. Torch's 2,000 are more updates than most runs have."""


@dataclass(frozen=True)
class PassFigures(UpdateMeans):
    """Sums over the tokens of a mini-batch, and the norms that its gradients had."""

    mismatch: float | None = None

    @property
    def is_finite(self) -> bool:
        """Return whether all figures of the mini-batch are finite."""
        return all(math.isfinite(value) for value in vars(self).values() if value is not None)

    @property
    def has_overflowed(self) -> bool:
        """Return whether gradients are not finite, though the losses that they are of are."""
        losses = replace(self, grad_norm=None, critic_grad_norm=None)
        return losses.is_finite and not self.is_finite


class LossScale:
    """Torch's GradScaler for the shared optimizer of policy and critic, or nothing if it is off.

    Its factor multiplies the loss, and the gradients are divided by it before they are clipped. It
    is halved when a gradient overflows, and doubled when none did for a while.
    """

    def __init__(self, device: torch.device, is_on: bool) -> None:
        self.is_on = is_on
        self.scaler = torch.amp.GradScaler(
            device.type, growth_interval=_GROWTH_INTERVAL, enabled=is_on
        )

    def backward(self, loss: Tensor) -> None:
        """Add the scaled gradients of a loss to those of the passes before it."""
        self.scaler.scale(loss).backward()

    def unscale(self, optimizer: Optimizer) -> None:
        """Divide all gradients by the scale, once after the last backward pass."""
        self.scaler.unscale_(optimizer)

    def passed(self, run: Callable[[bool], PassFigures]) -> tuple[PassFigures, int]:
        """Run a mini-batch forward and backward until its gradients are finite.

        `run` zeroes the gradients, passes the mini-batch, unscales, and returns figures with the
        norms of the gradients. It is told whether this is the first time. After an overflow it runs
        again with half the scale, at most `_RETRIES` times. If that does not help, or if a loss is
        not finite, the scale is not at fault and gets its former value back. Return the figures of
        the last time, and how often the mini-batch was passed again.
        """
        figures = run(True)
        if not self.is_on:
            return figures, 0
        first_scale = self.scaler.get_scale() if not figures.is_finite else None
        repeats = 0
        while figures.has_overflowed and repeats < _RETRIES:
            repeats += 1
            self.scaler.update()
            figures = run(False)
        self.scaler.update(None if figures.is_finite else first_scale)
        return figures, repeats

    def state_dict(self) -> JsonObject:
        """Return the scale and the updates since it last changed. It is {} if it is off."""
        state: JsonObject = self.scaler.state_dict()
        return state

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what `state_dict` returned. A state of a run in another type changes nothing."""
        if state:
            self.scaler.load_state_dict(state)
