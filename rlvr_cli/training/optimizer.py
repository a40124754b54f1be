"""AdamW as the weights and the memory want it: in float32 or in bfloat16."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import AdamW, Optimizer

from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.ranks.group import local_shard

Parameters = Sequence[tuple[list[Parameter], float]]
"""Parameters and the peak of their learning rate, by group."""
_LOW = 0xFFFF
"""The low 16 bits of a float32, which bfloat16 drops."""


def new_optimizer(groups: Parameters, optim: OptimConfig) -> Optimizer:
    """Make AdamW for the groups."""
    param_groups: Any = [{"params": list(params), "peak": peak} for params, peak in groups]
    settings: Any = optim.model_dump(include={"lr", "betas", "eps", "weight_decay"})
    parameters = [parameter for params, _ in groups for parameter in params]
    if any(parameter.dtype == torch.bfloat16 for parameter in parameters):
        return BFloat16AdamW(param_groups, **settings)
    is_large = optim.offload == "all" or all(parameter.is_cuda for parameter in parameters)
    return AdamW(param_groups, fused=True if is_large else None, **settings)


def set_rates(optimizer: Optimizer, factor: float) -> None:
    """Set each group's learning rate to this share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def round_at_random(values: Tensor, generator: torch.Generator) -> Tensor:
    """Round float32 to one of its two neighbors in bfloat16, so that the mean over roundings is the
    number itself: updates smaller than half a step are not lost."""
    noise = torch.randint(
        0, _LOW + 1, values.shape, dtype=torch.int32, device=values.device, generator=generator
    )
    bits = (values.view(torch.int32) + noise) & ~_LOW
    return bits.view(torch.float32).bfloat16()


class BFloat16AdamW(AdamW):
    """AdamW with weights and moments in bfloat16: computed in float32, rounded at random.

    Rounding to the nearest would lose every change below 1/256 of a number: at a learning rate of
    1e-6 nearly all of them, and those of the second moment. The randomness depends on nothing but
    the number of steps, so that a resumed run is the same. Other parameters keep their own type.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, parameter.grad, group)

    def _step_one(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        count = float(state["step"])
        beta1, beta2 = group["betas"]
        lr = float(group["lr"])
        stored = [local_shard(t) for t in (parameter, state["exp_avg"], state["exp_avg_sq"])]
        weight, mean, square = (tensor.float() for tensor in stored)
        gradient = local_shard(gradient).float()
        mean = mean.lerp_(gradient, 1 - beta1)
        square = square.lerp_(gradient.square(), 1 - beta2)
        scale = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        weight.mul_(1 - lr * group["weight_decay"])
        weight.addcdiv_(mean, scale, value=-lr / (1 - beta1**count))
        generator = torch.Generator(parameter.device).manual_seed(int(count))
        for target, values in zip(stored, (weight, mean, square), strict=True):
            is_half = target.dtype == torch.bfloat16
            target.copy_(round_at_random(values, generator) if is_half else values)
