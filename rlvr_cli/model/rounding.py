"""float32 numbers as bfloat16 ones: rounded at random, or split so that nothing is lost."""

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


def split(exact: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 numbers rounded to bfloat16, ties away from 0, and their lower 16 bits."""
    bits = exact.detach().contiguous().view(torch.int32)
    upper = (bits + (_LOW + 1) // 2) & ~_LOW
    return upper.view(torch.float32).bfloat16(), (bits & _LOW).to(torch.uint16)


def joined(rounded: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    """Return the numbers that `split` took apart, bit for bit."""
    low = lower.to(torch.int32)
    carried = (low > _LOW // 2).to(torch.int32) << 16
    upper = rounded.float().view(torch.int32) - carried
    return (upper | low).view(torch.float32)
