"""float32 numbers as bfloat16 ones, rounded at random."""

import torch

_LOW = 0xFFFF


def rounded_at_random(exact: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round float32 to one of its two neighbors in bfloat16, so that the mean over roundings is the
    number itself: updates smaller than half a step are not lost."""
    noise = torch.randint(
        0, _LOW + 1, exact.shape, dtype=torch.int32, device=exact.device, generator=generator
    )
    bits = (exact.view(torch.int32) + noise) & ~_LOW
    return bits.view(torch.float32).bfloat16()
