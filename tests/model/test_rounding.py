"""bfloat16 without loss, and without bias."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr_cli.model.rounding import joined, rounded_at_random, split

FLOATS = st.floats(width=32, allow_nan=False)


@given(st.lists(FLOATS, min_size=1))
def test_split_numbers_come_back_bit_for_bit(numbers):
    exact = torch.tensor(numbers)
    rounded, lower = split(exact)
    assert (rounded.dtype, lower.dtype) == (torch.bfloat16, torch.uint16)
    assert torch.equal(joined(rounded, lower).view(torch.int32), exact.view(torch.int32))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1))
def test_the_upper_part_is_the_nearest(numbers):
    exact = torch.tensor(numbers)
    ours, nearest = split(exact)[0], exact.bfloat16()
    assert torch.equal((ours.double() - exact).abs(), (nearest.double() - exact).abs())


def test_rounding_at_random_has_no_bias():
    """1 + 1/512 lies a quarter of the way from 1 to 1 + 1/128; likewise below 0."""
    for sign in (1, -1):
        exact = torch.full((40_000,), sign * (1 + 1 / 512))
        found = rounded_at_random(exact, torch.Generator().manual_seed(0))
        assert set(found.tolist()) == {sign * 1.0, sign * (1 + 1 / 128)}
        share = (found.abs() > 1).double().mean().item()
        assert abs(share - 0.25) < 0.02


def test_what_bfloat16_holds_stays():
    exact = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-38, 3e38]).bfloat16().float()
    assert torch.equal(rounded_at_random(exact, torch.Generator()).float(), exact)
