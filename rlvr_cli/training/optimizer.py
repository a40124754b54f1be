"""AdamW as the weights and the memory want it: in float32, in bfloat16, in 8 bits."""

from collections.abc import Sequence
from typing import Any

import torch

from rlvr_cli.config.sections import OptimConfig
from rlvr_cli.core.libraries import library
from rlvr_cli.ranks.group import is_shared, own_slice, spread
from rlvr_cli.training.state import State, part

Parameters = Sequence[tuple[list[torch.nn.Parameter], float]]
"""Parameters and the peak of their learning rate, by group."""


_LOW = 0xFFFF
"""The bits of a float32 that a bfloat16 has not."""


def new_optimizer(groups: Parameters, optim: OptimConfig) -> torch.optim.Optimizer:
    """Make AdamW for the groups. Raises UserError if a library is missing."""
    listed: Any = [{"params": list(params), "peak": peak} for params, peak in groups]
    common: dict[str, Any] = {
        "lr": optim.lr,
        "betas": optim.betas,
        "eps": optim.eps,
        "weight_decay": optim.weight_decay,
    }
    parameters = [parameter for params, _ in groups for parameter in params]
    if optim.moments == "8bit":
        adamw = library("torchao.optim", "optim.moments 8bit").AdamW8bit
        return adamw(listed, bf16_stochastic_round=True, **common)
    if any(parameter.dtype == torch.bfloat16 for parameter in parameters):
        return BFloat16AdamW(listed, **common)
    is_large = optim.offload == "all" or all(parameter.is_cuda for parameter in parameters)
    return torch.optim.AdamW(listed, fused=True if is_large else None, **common)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set each group's learning rate to this share of its peak."""
    for group in optimizer.param_groups:
        rate = group["peak"] * factor
        group["lr"] = torch.tensor(rate) if isinstance(group["lr"], torch.Tensor) else rate


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Return moments by number of parameter."""
    state = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    for parameter, entries in state["state"].items():
        for key, value in entries.items():
            for inner in _inner(value):
                tensors[f"optimizer.{parameter}.{key}{inner}"] = _get(value, inner)
    groups = [group | {"lr": float(group["lr"])} for group in state["param_groups"]]
    return State({"optimizer": groups}, tensors)


def load_optimizer(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Load what `optimizer_state` returned, with the model's weights loaded before. Raises
    ValueError if settings or shapes differ."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in part("optimizer", state.tensors).items():
        number, _, entry = key.partition(".")
        found.setdefault(int(number), {})[entry] = tensor
    groups = state.values["optimizer"]
    if [group.keys() for group in groups] != [group.keys() for group in optimizer.param_groups]:
        raise ValueError("the optimizer's settings are not those of this run")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(":" in entry for tensors in found.values() for entry in tensors):
        _load_quantized(optimizer, {parameters[index]: one for index, one in found.items()})
        for group, kept in zip(optimizer.param_groups, groups, strict=True):
            group.update({**kept, "params": group["params"], "lr": torch.tensor(kept["lr"])})
        return
    for index, tensors in found.items():
        for entry, tensor in tensors.items():
            if tensor.dim() and tensor.shape != parameters[index].shape:
                raise ValueError(f"optimizer.{index}.{entry} has another shape")
            tensors[entry] = spread(tensor, parameters[index])
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": found, "param_groups": groups})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if isinstance(rate, torch.Tensor):
            group["lr"] = torch.tensor(group["lr"])


def _inner(value: torch.Tensor) -> list[str]:
    """Return the names of the tensors that a quantized one consists of; "" for a plain one."""
    flatten = None if is_shared(value) else getattr(value, "__tensor_flatten__", None)
    return [f":{name}" for name in flatten()[0]] if flatten else [""]


def _get(value: torch.Tensor, inner: str) -> torch.Tensor:
    return getattr(value, inner.removeprefix(":")) if inner else value


def _load_quantized(
    optimizer: torch.optim.Optimizer, found: dict[torch.nn.Parameter, dict[str, torch.Tensor]]
) -> None:
    """Copy into the quantized moments, which a step that moves nothing makes."""
    set_rates(optimizer, 0.0)
    for parameter in found:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    for parameter, tensors in found.items():
        for entry, tensor in tensors.items():
            name, colon, inner = entry.partition(":")
            _get(optimizer.state[parameter][name], f"{colon}{inner}").copy_(tensor)


def rounded_at_random(exact: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round float32 to one of its two neighbors in bfloat16, so that the mean over roundings is the
    number itself: updates smaller than half a step are not lost."""
    noise = torch.randint(
        0, _LOW + 1, exact.shape, dtype=torch.int32, device=exact.device, generator=generator
    )
    bits = (exact.view(torch.int32) + noise) & ~_LOW
    return bits.view(torch.float32).bfloat16()


class BFloat16AdamW(torch.optim.AdamW):
    """AdamW with weights and moments in bfloat16: computed in float32, rounded at random.

    Rounding to the nearest would lose every change below 1/256 of a number: at a learning rate of
    1e-6 nearly all of them, and those of the second moment. The randomness depends on nothing but
    the number of steps, so that a resumed run is the same. Parameters of another type have theirs.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        count, (beta1, beta2), lr = float(state["step"]), group["betas"], float(group["lr"])
        assert parameter.grad is not None
        targets = [own_slice(t) for t in (parameter, state["exp_avg"], state["exp_avg_sq"])]
        gradient = own_slice(parameter.grad).float()
        weight, mean, square = (target.float() for target in targets)
        mean = mean.lerp_(gradient, 1 - beta1)
        square = square.lerp_(gradient.square(), 1 - beta2)
        scale = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        weight.mul_(1 - lr * group["weight_decay"])
        weight.addcdiv_(mean, scale, value=-lr / (1 - beta1**count))
        generator = torch.Generator(parameter.device).manual_seed(int(count))
        for target, exact in zip(targets, (weight, mean, square), strict=True):
            is_half = target.dtype == torch.bfloat16
            target.copy_(rounded_at_random(exact, generator) if is_half else exact)
