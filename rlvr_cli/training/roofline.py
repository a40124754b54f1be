"""Compute the least time a step could take on this machine, from lengths alone.

Decoding reads every weight once a step and every key and value once a token; training computes 6
operations a parameter and token. What was measured, divided by these, says how near a run is to
the machine's limits. A share above 1 is none: the limits were measured on a busy machine.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.model.attention import attention_sizes


@dataclass(frozen=True)
class Peaks:
    """The limits of a machine: matrix operations and bytes of memory per second."""

    flops: float
    bandwidth: float
    source: str

    def times(self, processes: int) -> "Peaks":
        """Return the limits of so many together."""
        return Peaks(self.flops * processes, self.bandwidth * processes, self.source)

    def best(self, other: "Peaks") -> "Peaks":
        """Return the higher of each: other load can only have lowered a measurement."""
        flops, bandwidth = max(self.flops, other.flops), max(self.bandwidth, other.bandwidth)
        return Peaks(flops, bandwidth, self.source)


GPUS = {
    "B200": (2250e12, 8.0e12),
    "H200": (989e12, 4.8e12),
    "H100 PCIe": (756e12, 2.0e12),
    "H100": (989e12, 3.35e12),
    "A100-SXM4-80GB": (312e12, 2.04e12),
    "A100 80GB": (312e12, 1.94e12),
    "A100": (312e12, 1.56e12),
    "L40S": (362e12, 0.864e12),
    "L4": (121e12, 0.3e12),
    "RTX 4090": (165e12, 1.01e12),
}
"""Dense bfloat16 operations and bytes a second by the makers' data sheets; the first name that
stands in the device's own as a whole counts, kin with other numbers (NVL, laptops) left out."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder: parameters without embeddings and output layer (`body`), those of the
    output layer (`head`), attention, and bytes per number in the engine."""

    body: int
    head: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    itemsize: int


Lengths = Sequence[tuple[int, Sequence[int]]]
"""Of each group: the tokens of its prompt, and of each of its responses."""


def model_shape(model: Any, itemsize: int) -> Shape:
    """Return a model's shape, its numbers of `itemsize` bytes in the engine."""
    config = model.config.get_text_config()
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    outside = {id(weight): weight.numel() for weight in (embedding, head)}
    sizes = attention_sizes(config)
    return Shape(
        body=sum(parameter.numel() for parameter in model.parameters()) - sum(outside.values()),
        head=head.numel(),
        layers=config.num_hidden_layers,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        itemsize=itemsize,
    )


def generation_seconds(shape: Shape, lengths: Lengths, together: float, peaks: Peaks) -> float:
    """Compute the least time to sample the groups, at most `together` responses at once."""
    responses = [(prompt, tokens) for prompt, group in lengths for tokens in group]
    if not responses:
        return 0.0
    total = sum(tokens for _, tokens in responses)
    steps = max(max(tokens for _, tokens in responses), total / together)
    weights = shape.itemsize * (shape.body + shape.head)
    kv = 2 * shape.itemsize * shape.layers * shape.kv_heads * shape.head_dim
    read = steps * weights + kv * sum(tokens * (p + tokens / 2) for p, tokens in responses)
    computed = 2 * (shape.body + shape.head) * total
    prefill = 2 * shape.body * sum(prompt for prompt, _ in lengths)
    return max(read / peaks.bandwidth, computed / peaks.flops) + prefill / peaks.flops


def update_seconds(shape: Shape, lengths: Lengths, peaks: Peaks) -> float:
    """Compute the least time for one forward and backward pass over the groups.

    Causal attention; nothing is counted twice for being computed again. Every response counts its
    prompt, so that passing a shared prompt once, as the trainer does, shows as speed.
    """
    responses = [(prompt, tokens) for prompt, group in lengths for tokens in group]
    body = 6 * shape.body * sum(prompt + tokens for prompt, tokens in responses)
    head = 6 * shape.head * sum(tokens for _, tokens in responses)
    squares = sum((prompt + tokens) ** 2 for prompt, tokens in responses)
    attention = 6 * shape.layers * shape.heads * shape.head_dim * squares
    return (body + head + attention) / peaks.flops


def machine_peaks(device: torch.device) -> Peaks:
    """Return the peaks of a GPU from the table; of anything else, measure them in a fraction of a
    second with the threads in force."""
    known = sheet_peaks(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    return known or _measured(device)


def sheet_peaks(name: str) -> Peaks | None:
    """Look up the peaks of a GPU by name; None if it is not in the table."""
    for known, (flops, bandwidth) in GPUS.items():
        if re.search(rf"\b{known}\b(?! (NVL|Laptop))", name):
            return Peaks(flops, bandwidth, f"the data sheet of {known}")
    return None


def _measured(device: torch.device) -> Peaks:
    """Measure the best of two sizes of matrices, and of copying and reading a large block."""
    on_gpu = device.type == "cuda"
    sizes, dtype = ((4096, 8192), torch.bfloat16) if on_gpu else ((384, 768), torch.float32)
    flops = max(_matrix_flops(size, dtype, device) for size in sizes)
    large = torch.ones((1 << 28) if on_gpu else (1 << 24), device=device)
    target = torch.empty_like(large)
    copied = 2 * large.nbytes / _fastest(lambda: target.copy_(large), device)
    read = large.nbytes / _fastest(large.sum, device)
    return Peaks(flops, max(copied, read), "a short measurement")


def _matrix_flops(size: int, dtype: torch.dtype, device: torch.device) -> float:
    square = torch.ones(size, size, device=device, dtype=dtype)
    return 2 * size**3 / _fastest(lambda: torch.mm(square, square), device)


def _fastest(operation: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of the fastest run within a tenth of a second, and of five at least."""
    seconds: list[float] = []
    while len(seconds) < 5 or sum(seconds) < 0.1:
        started = time.perf_counter()
        operation()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
