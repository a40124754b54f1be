"""Whether torch has kernels for a card, and which 16 bits it computes in."""

import pytest
import torch

from rlvr_cli.model.card import Card, has_kernels, kernel_error

CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((7, 0), CU130, False),  # V100
        ((7, 0), CU126, True),
        ((7, 2), CU126, True),
        ((7, 5), CU130, True),  # T4
        ((8, 9), CU130, True),  # L4, by the binary for 8.6
        ((8, 0), ("sm_86",), False),  # a binary runs on no earlier card
        ((9, 0), CU130, True),
        ((10, 3), CU130, True),
        ((12, 0), CU126, False),
        ((12, 0), (*CU126, "compute_90"), True),  # which the driver compiles
        ((8, 9), ("compute_90",), False),
        ((9, 0), ("sm_90a",), True),
        ((9, 1), ("sm_90a",), False),
        ((10, 0), ("compute_90a",), False),
        ((10, 3), ("sm_100f",), True),
        ((11, 0), ("compute_100f",), False),
        ((9, 4), ("gfx90a",), True),
        ((7, 0), (), True),
    ],
)
def test_code_runs_where_its_makers_say(capability, architectures, runs):
    assert has_kernels(capability, architectures) == runs


@pytest.mark.parametrize(
    ("capability", "half"),
    [
        ((7, 0), "float16"),
        ((7, 5), "float16"),
        ((8, 0), "bfloat16"),
        ((8, 9), "bfloat16"),
        ((12, 0), "bfloat16"),
    ],
)
def test_bfloat16_came_with_ampere(capability, half):
    assert Card("card", capability).half == half


@pytest.mark.parametrize(
    ("capability", "remedy"),
    [
        ((3, 7), "no build that rlvr was tried with has them"),
        ((7, 0), "take the build of torch 2.13.0 for CUDA 12.6, 2.13.0+cu126"),
        ((13, 0), "take a build for a newer CUDA"),
    ],
)
def test_a_card_without_kernels_is_said_with_the_build_that_has_them(
    capability, remedy, monkeypatch
):
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: list(CU130))
    text = kernel_error(Card("Tesla", capability))
    major, minor = capability
    assert text == (
        f"Tesla (compute capability {major}.{minor}): torch 2.13.0+cu130 has no kernels for it, "
        f"only {' '.join(CU130)}: {remedy}, or hide it with CUDA_VISIBLE_DEVICES="
    )
    assert kernel_error(Card("L4", (8, 9))) is None
