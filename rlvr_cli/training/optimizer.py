"""AdamW as the weights and the memory want it: in float32, in bfloat16, in 8 bits, on the CPU."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rlvr_cli.config import OptimConfig
from rlvr_cli.core.libraries import library
from rlvr_cli.ranks.shards import is_shared, own_slice, spread
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
    if optim.offload != "none":
        return OffloadedAdamW(listed, **common)
    if any(parameter.dtype == torch.bfloat16 for parameter in parameters):
        return BFloat16AdamW(listed, **common)
    on_gpu = all(parameter.is_cuda for parameter in parameters)
    return torch.optim.AdamW(listed, fused=True if on_gpu else None, **common)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set each group's learning rate to this share of its peak."""
    for group in optimizer.param_groups:
        rate = group["peak"] * factor
        group["lr"] = torch.tensor(rate) if isinstance(group["lr"], torch.Tensor) else rate


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Return moments by number of parameter, and float32 weights that only it has."""
    state = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    for parameter, entries in state["state"].items():
        for key, value in entries.items():
            for inner in _inner(value):
                tensors[f"optimizer.{parameter}.{key}{inner}"] = _get(value, inner)
    tensors |= {f"master.{number}": master for number, _, master in _masters(optimizer)}
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
    for index, tensors in found.items():
        parameter = parameters[index]
        found[index] = named = _assembled(optimizer, parameter, tensors)
        for entry, tensor in named.items():
            if tensor.dim() and tensor.shape != parameter.shape:
                raise ValueError(f"optimizer.{index}.{entry} has another shape")
            named[entry] = spread(tensor, parameter)
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": found, "param_groups": groups})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if isinstance(rate, torch.Tensor):
            group["lr"] = torch.tensor(group["lr"])
    for index, copy, master in _masters(optimizer):
        master.data.copy_(state.tensors.get(f"master.{index}", copy))


def _masters(optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield (number, copy in the model, float32 weights) of an optimizer that has its own."""
    if isinstance(optimizer, OffloadedAdamW):
        for number, pair in enumerate(zip(optimizer.copies, optimizer.masters, strict=True)):
            yield number, pair[0].detach(), pair[1].detach()


def _inner(value: torch.Tensor) -> list[str]:
    """Return the names of the tensors that a quantized one consists of; "" for a plain one."""
    flatten = None if is_shared(value) else getattr(value, "__tensor_flatten__", None)
    return [f":{name}" for name in flatten()[0]] if flatten else [""]


def _get(value: torch.Tensor, inner: str) -> torch.Tensor:
    return getattr(value, inner.removeprefix(":")) if inner else value


def _assembled(
    optimizer: Any, parameter: torch.Tensor, found: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Put quantized tensors together again."""
    made = {name: tensor for name, tensor in found.items() if ":" not in name}
    for name in {name.partition(":")[0] for name in found} - made.keys():
        made[name] = optimizer._new_buffer(parameter, name == "exp_avg")
        for inner in _inner(made[name]):
            _get(made[name], inner).copy_(found[f"{name}{inner}"])
    return made


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


class OffloadedAdamW(torch.optim.AdamW):
    """AdamW on the CPU: its moments, and float32 weights of which the model has a copy."""

    def __init__(self, groups: list[dict[str, Any]], **common: Any) -> None:
        self.copies = [parameter for group in groups for parameter in group["params"]]
        for group in groups:
            group["params"] = [_on_the_cpu(parameter) for parameter in group["params"]]
        super().__init__(groups, fused=True, **common)

    @property
    def masters(self) -> list[torch.Tensor]:
        """Return the float32 weights, in the order of `copies`."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Free the gradients."""
        for parameter in (*self.copies, *self.masters):
            parameter.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for copy, master in zip(self.copies, self.masters, strict=True):
            if copy.grad is not None:
                master.grad = copy.grad.to(master)
        super().step()
        for copy, master in zip(self.copies, self.masters, strict=True):
            copy.copy_(master)
            master.grad = None


def _on_the_cpu(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    exact = torch.promote_types(parameter.dtype, torch.float32)
    return torch.nn.Parameter(parameter.detach().to("cpu", exact, copy=True))
