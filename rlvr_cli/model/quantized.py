"""Numbers in 4 and 8 bits, which bitsandbytes quantizes."""

from collections.abc import Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import library
from rlvr_cli.core.text import first_line
from rlvr_cli.core.versions import installed_version
from rlvr_cli.ranks.group import full_tensor

M = TypeVar("M", bound=Module)

NF4 = "lora.base nf4"
"""The setting, as errors name it."""
_BLOCK = 64
"""Numbers that share a scale, as in QLoRA."""
NF4_BYTES = 0.5 + 4 / _BLOCK
"""Bytes of a number in NF4, with its share of a scale."""


def quantization(option: str) -> ModuleType:
    """Import what quantizes. Raises UserError if bitsandbytes is not installed, and names the
    `option` that needs it."""
    return library("bitsandbytes.functional", option)


def check_library(option: str) -> None:
    """Quantize a few numbers. Raises UserError if bitsandbytes is missing or cannot do it."""
    functional = quantization(option)
    numbers = torch.zeros(1, _BLOCK)
    try:
        _dequantized(*_quantized(numbers), rows=1, dtype=torch.float32)
        functional.dequantize_blockwise(*functional.quantize_blockwise(numbers))
    except Exception as error:  # another version, or its library in C does not load
        raise UserError(
            f"{option}: bitsandbytes {installed_version('bitsandbytes')} cannot quantize here "
            f"({first_line(error)}); pip install --upgrade bitsandbytes"
        ) from None


class Quantized(NamedTuple):
    """Numbers in NF4."""

    codes: Tensor
    """Two numbers a byte, in uint8."""
    scales: Tensor
    """The largest absolute number of each block of 64, in float32."""


def _quantized(weight: Tensor) -> Quantized:
    codes, state = quantization(NF4).quantize_4bit(
        weight, blocksize=_BLOCK, quant_type="nf4", quant_storage=torch.uint8
    )
    return Quantized(codes, state.absmax)


class NF4Linear(Linear):
    """A frozen linear layer with weights in NF4 (arXiv:2305.14314), without double quantization.

    The numbers are bitsandbytes' own. Its layers are not used: on a CPU they pack their weights
    anew in the first pass without a gradient, ask the hub for a kernel, and choose among kernels
    by the shape of the input. Here each pass dequantizes the whole weight, so that passes with and
    without a gradient agree to the bit.
    """

    codes: Tensor
    """Two numbers a byte, in uint8."""
    scales: Tensor
    """The largest absolute number of each block of 64, in float32."""

    def __init__(self, linear: Linear) -> None:
        Module.__init__(self)
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.bias = linear.bias
        weight = full_tensor(linear.weight.detach()).float().contiguous()
        quantized = _quantized(weight)
        # Not a part of checkpoints, which hold the adapter and the name of the base.
        self.register_buffer("codes", quantized.codes, persistent=False)
        self.register_buffer("scales", quantized.scales, persistent=False)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Return the dequantized weights, in float32."""
        return self.dequantized(torch.float32)

    def dequantized(self, dtype: torch.dtype) -> Tensor:
        """Return the weights [out, in] in this type."""
        return _dequantized(self.codes, self.scales, self.out_features, dtype)

    def forward(self, input: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(input.dtype)
        operands = (input, self.codes, self.scales, bias, self.out_features)
        result: Tensor = _FrozenProduct.apply(*operands)  # type: ignore[no-untyped-call]
        return result


class _FrozenProduct(torch.autograd.Function):
    """A product with frozen weights, which the backward pass dequantizes again."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, rows: int
    ) -> Tensor:
        ctx.save_for_backward(codes, scales)
        ctx.rows = rows
        return F.linear(states, _dequantized(codes, scales, rows, states.dtype), bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        codes, scales = ctx.saved_tensors
        weight = _dequantized(codes, scales, ctx.rows, gradient.dtype)
        return gradient @ weight, None, None, None, None


def _dequantized(codes: Tensor, scales: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Return weights [rows, columns] of two codes a byte.

    They are computed in float32 and then rounded, as an engine's merged copy is. bitsandbytes 0.50
    would give other numbers in bfloat16 on a CPU, if a row is shorter than a block.
    """
    shape = (rows, 2 * codes.numel() // rows)
    weight: Tensor = torch.ops.bitsandbytes.dequantize_4bit(
        codes, scales, _BLOCK, "nf4", shape, torch.float32
    )
    return weight.to(dtype)


def quantizable(model: Module) -> dict[str, Linear]:
    """Return the layers that can have NF4 weights, by name: plain linear layers with an even number
    of weights in each row, but the output layer."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) is Linear and module is not head and module.in_features % 2 == 0
    }


def check_quantizable(model: Module) -> None:
    """Raise UserError for a model without a layer to quantize, or one that is quantized already."""
    stored: Any = getattr(model.config, "quantization_config", None)
    if stored is not None:
        method = (
            stored.get("quant_method", "unnamed")
            if isinstance(stored, dict)
            else type(stored).__name__
        )
        raise UserError(
            f"{NF4}: the weights of the model are quantized already ({method}); take the model "
            "that they were made from, or leave lora.base out"
        )
    if not quantizable(model):
        raise UserError(
            f"{NF4}: {type(model).__name__} has no linear layer of the kind that bitsandbytes "
            "quantizes; leave lora.base out"
        )


def quantize(model: Module) -> None:
    """Quantize the linear layers of a model in place, one at a time."""
    for name, linear in quantizable(model).items():
        model.set_submodule(name, NF4Linear(linear))


def dequantize(model: Module, dtype: torch.dtype = torch.float32) -> None:
    """Replace the quantized layers by plain ones with the same weights in this type, one at a
    time."""
    for name, layer in quantized_layers(model):
        weight = layer.dequantized(dtype)
        plain = Linear(layer.in_features, layer.out_features, bias=False, device="meta")
        plain.weight = torch.nn.Parameter(weight, requires_grad=False)
        plain.bias = layer.bias
        model.set_submodule(name, plain)


def quantized_copy(model: M) -> M:
    """Copy a model with quantized layers, whose codes and scales the two share."""
    shared = {id(numbers): numbers for numbers in quantized_numbers(model)}
    return deepcopy(model, shared)


def quantized_layers(model: Module) -> list[tuple[str, NF4Linear]]:
    """Return the quantized layers with their names."""
    return [(name, m) for name, m in model.named_modules() if isinstance(m, NF4Linear)]


def quantized_numbers(model: Module) -> Iterator[Tensor]:
    """Yield codes and scales of all quantized layers."""
    for _, layer in quantized_layers(model):
        yield layer.codes
        yield layer.scales
