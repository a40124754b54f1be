"""AdamW in the numbers that weights and memory ask for: float32, bfloat16, or 8-bit moments."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import pad
from torch.optim import AdamW, Optimizer

from rlvr_cli.model.quantized import quantization
from rlvr_cli.model.settings import MOMENT_BLOCK, OptimConfig
from rlvr_cli.ranks.group import as_shard, local_shard

Parameters = Sequence[tuple[list[Parameter], float]]
"""Parameters and the peak of their learning rate, by group."""
_LOW = 0xFFFF
"""The low 16 bits of a float32, which bfloat16 drops."""
_SMALLEST_BLOCK = 64
"""The smallest block of numbers that bitsandbytes quantizes on a GPU."""


def new_optimizer(groups: Parameters, optim: OptimConfig) -> Optimizer:
    """Make AdamW for the groups."""
    param_groups: Any = [{"params": list(params), "peak": peak} for params, peak in groups]
    settings: Any = optim.model_dump(include={"lr", "betas", "eps", "weight_decay"})
    parameters = [parameter for params, _ in groups for parameter in params]
    if optim.moments == "8bit":
        return EightBitAdamW(param_groups, **settings)
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
            state.update(self._zero_moments(parameter))
        state["step"] += 1
        count = float(state["step"])
        beta1, beta2 = group["betas"]
        lr = float(group["lr"])
        stored_weight = local_shard(parameter)
        weight = stored_weight.float()
        mean, square = self._read_moments(state)
        gradient = local_shard(gradient).float()
        mean = mean.lerp_(gradient, 1 - beta1)
        square = square.lerp_(gradient.square(), 1 - beta2)
        scale = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
        weight.mul_(1 - lr * group["weight_decay"])
        weight.addcdiv_(mean, scale, value=-lr / (1 - beta1**count))
        generator = torch.Generator(parameter.device).manual_seed(int(count))
        _store(stored_weight, weight, generator)
        self._store_moments(state, mean, square, generator)

    def _zero_moments(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter before its first step."""
        return {
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }

    def _read_moments(self, state: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the first and the second moment of this process's shard, in float32."""
        return local_shard(state["exp_avg"]).float(), local_shard(state["exp_avg_sq"]).float()

    def _store_moments(
        self, state: dict[str, Tensor], mean: Tensor, square: Tensor, generator: torch.Generator
    ) -> None:
        _store(local_shard(state["exp_avg"]), mean, generator)
        _store(local_shard(state["exp_avg_sq"]), square, generator)


def _store(target: Tensor, values: Tensor, generator: torch.Generator) -> None:
    """Write float32 numbers into a tensor, rounded at random if that is bfloat16."""
    is_half = target.dtype == torch.bfloat16
    target.copy_(round_at_random(values, generator) if is_half else values)


class EightBitAdamW(BFloat16AdamW):
    """AdamW with the moments of matrices in 8 bits each, by bitsandbytes (arXiv:2110.02861).

    A moment is stored as `codes`, [R, C] in uint8, and as `scales` [R, blocks], the largest number
    of each block of a row. Blocks end with their rows, so that the shards of several processes have
    the same blocks as the whole matrix. Of the second moment the root is stored, whose range is
    that of the first: its smallest numbers do not become 0, by which a step would be divided.
    Vectors keep the moments of `BFloat16AdamW`, as they do in bitsandbytes.
    """

    def __init__(self, params: Any, **settings: Any) -> None:
        super().__init__(params, **settings)
        functional = quantization("optim.moments 8bit")
        device = self.param_groups[0]["params"][0].device
        self._quantize = functional.quantize_blockwise
        self._dequantize = functional.dequantize_blockwise
        self._signed_code = functional.create_dynamic_map(signed=True).to(device)
        self._unsigned_code = functional.create_dynamic_map(signed=False).to(device)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load settings and moments. Codes stay uint8, where torch would cast them to the type of
        the weights."""
        super().load_state_dict({**state_dict, "state": {}})
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, moments in state_dict["state"].items():
            self.state[parameters[number]] = dict(moments)

    def _zero_moments(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter.dim() < 2:
            return super()._zero_moments(parameter)
        local = local_shard(parameter)
        moments = {}
        for name, shape in moment_shapes(self, parameter).items():
            dtype = torch.float32 if name.endswith("scales") else torch.uint8
            zeros = local.new_zeros(local.shape[0], *shape[1:], dtype=dtype)
            moments[name] = as_shard(zeros, parameter, shape)
        return moments

    def _read_moments(self, state: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        if "mean_codes" not in state:
            return super()._read_moments(state)
        mean = self._read(state, "mean", self._signed_code)
        root = self._read(state, "root", self._unsigned_code)
        return mean, root.square_()

    def _store_moments(
        self, state: dict[str, Tensor], mean: Tensor, square: Tensor, generator: torch.Generator
    ) -> None:
        if "mean_codes" not in state:
            super()._store_moments(state, mean, square, generator)
            return
        self._write(state, "mean", mean, self._signed_code)
        self._write(state, "root", square.sqrt_(), self._unsigned_code)

    def _read(self, state: dict[str, Tensor], name: str, code: Tensor) -> Tensor:
        codes = local_shard(state[f"{name}_codes"])
        scales = local_shard(state[f"{name}_scales"])
        if not codes.numel():
            return codes.float()
        rows = codes.flatten(1)
        columns = rows.shape[1]
        size = block_size(columns)
        padded = pad(rows, (0, -columns % size)).contiguous()
        values: Tensor = self._dequantize(
            padded, absmax=scales.flatten(), code=code, out=None, blocksize=size
        )
        return values[:, :columns].reshape(codes.shape)

    def _write(self, state: dict[str, Tensor], name: str, values: Tensor, code: Tensor) -> None:
        codes = local_shard(state[f"{name}_codes"])
        scales = local_shard(state[f"{name}_scales"])
        if not codes.numel():
            return
        rows = values.flatten(1)
        columns = rows.shape[1]
        size = block_size(columns)
        padded = pad(rows, (0, -columns % size)).contiguous()
        new_codes, quantized = self._quantize(padded, code=code, blocksize=size)
        codes.copy_(new_codes[:, :columns].reshape(codes.shape))
        scales.copy_(quantized.absmax.view(scales.shape))


def block_size(columns: int) -> int:
    """Return how many numbers of a row of this length share a scale, a power of
    two as bitsandbytes asks for."""
    size = _SMALLEST_BLOCK
    while size < min(columns, MOMENT_BLOCK):
        size *= 2
    return size


def moment_shapes(optimizer: Optimizer, parameter: Tensor) -> dict[str, torch.Size]:
    """Return the shapes of a parameter's moments, by their names in the optimizer's state."""
    shape = parameter.shape
    if not isinstance(optimizer, EightBitAdamW) or parameter.dim() < 2:
        return {"exp_avg": shape, "exp_avg_sq": shape}
    columns = shape[1:].numel()
    scales = torch.Size((shape[0], -(-columns // block_size(columns))))
    return {
        "mean_codes": shape,
        "mean_scales": scales,
        "root_codes": shape,
        "root_scales": scales,
    }
