"""bfloat16 without bias."""

import torch

from rlvr_cli.model.rounding import rounded_at_random


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
