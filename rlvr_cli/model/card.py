"""Say what a GPU computes in, and whether this torch has kernels for it."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

Capability = tuple[int, int]
"""The compute capability of a GPU, as its maker counts generations: (7, 5) is Turing."""
AMPERE: Capability = (8, 0)
"""The first generation that has bfloat16, and for which attention over runs is written."""
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
"""A name in `torch.cuda.get_arch_list()`: a kind of code, major and minor number, a suffix."""
_OLDEST: Capability = (5, 0)
_TURING: Capability = (7, 5)
_OLD_CUDA = "12.6"
"""Builds of torch for later CUDAs begin with Turing. Those for this one begin with `_OLDEST`."""


class Card(NamedTuple):
    """A GPU."""

    name: str
    capability: Capability

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name} (compute capability {major}.{minor})"

    @property
    def half(self) -> Literal["bfloat16", "float16"]:
        """The type of 16 bits that it computes in: bfloat16 if it has that."""
        return "bfloat16" if self.capability >= AMPERE else "float16"


def present_card() -> Card:
    """Return the GPU that this process computes on."""
    import torch

    return Card(torch.cuda.get_device_name(), torch.cuda.get_device_capability())


def kernel_error(card: Card) -> str | None:
    """Say in one line that this torch has no kernels for a GPU, and which build has them.

    Return None if it has.
    """
    import torch

    architectures = torch.cuda.get_arch_list()
    if has_kernels(card.capability, architectures):
        return None
    remedy = "take a build for a newer CUDA"
    if card.capability < _OLDEST:
        remedy = "no build that rlvr was tried with has them"
    elif card.capability < _TURING:
        release = torch.__version__.split("+")[0]
        tag = f"cu{_OLD_CUDA.replace('.', '')}"
        remedy = f"take the build of torch {release} for CUDA {_OLD_CUDA}, {release}+{tag}"
    return (
        f"{card}: torch {torch.__version__} has no kernels for it, only {' '.join(architectures)}: "
        f"{remedy}, or hide it with CUDA_VISIBLE_DEVICES="
    )


def has_kernels(capability: Capability, architectures: Sequence[str]) -> bool:
    """Return whether code that was compiled for these architectures runs on a GPU.

    Names that are not of this maker (gfx90a), and an empty list, are not judged.
    """
    codes = list(filter(None, map(_ARCHITECTURE.fullmatch, architectures)))
    return not codes or any(_runs(code, capability) for code in codes)


def _runs(code: re.Match[str], capability: Capability) -> bool:
    """Return whether one architecture's code runs on a GPU.

    A binary (sm_80) runs on later ones with the same major number, a program that the driver
    compiles (compute_80) on all later ones. The suffix a means this very GPU, f its family.
    """
    kind, major, minor, suffix = code.groups()
    compiled = (int(major), int(minor))
    if suffix == "a":
        return compiled == capability
    if kind == "compute" and not suffix:
        return compiled <= capability
    return compiled[0] == capability[0] and compiled <= capability
