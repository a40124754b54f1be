"""Examine an installation: what is installed, what is missing, and what needs it."""

import os
import platform
import re
import shutil
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import torch
from packaging.requirements import Requirement

from rlvr_cli import __version__
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.core.versions import (
    TRIED,
    describe_versions,
    installed_version,
    untried_versions,
)
from rlvr_cli.model.card import kernel_error, present_card
from rlvr_cli.model.loading import TINY, default_device, model_directory, unused_gpu
from rlvr_cli.setup.machine import host_memory
from rlvr_cli.setup.plan import choose_engine
from verifiers.workers import cage

_DISTRIBUTION = "rlvr-cli"
# Room for what the default run writes. Its checkpoints are 10 MB each.
_DISK_GIB = 0.2
_V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


def examine(display: Display) -> None:
    """Say what the installation has and lacks. Raises UserError if the default run cannot run."""
    device = f"cpu, {os.cpu_count()} cores"
    faults = list[str]()
    if default_device() == "cuda":
        card = present_card()
        size = torch.cuda.get_device_properties(0).total_memory / GIB
        device = f"{torch.cuda.device_count()} x {card}, {size:.0f} GiB each"
        error = kernel_error(card)
        if error is None:
            device += f"; computes in {card.half}"
        else:
            faults.append(error)
    elif torch.backends.mps.is_available():
        device += "; Apple's GPU is not used"
    else:
        device += unused_gpu()
    display.say("rlvr", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    display.say("device", device)
    engine = choose_engine("auto")
    runner = ""
    if engine.name == "vllm" and default_device() == "cuda":
        runner = f"; {_runner()}"
    display.say("engine", f"{engine.name} ({engine.reason}){runner}")
    installed = [library for library in TRIED if installed_version(library)]
    display.say("versions", describe_versions(installed))
    warning = untried_versions(installed)
    if warning:
        display.warn(warning)
    if not cage.IS_WHOLE:
        display.warn(
            "of what a reward starts, only its process group ends with it here: Linux ends it all"
        )
    disk = shutil.disk_usage(".").free / GIB
    display.say(
        "free",
        f"{host_memory() / GIB:.1f} GiB of memory; {disk:.1f} GiB on the disk of this directory",
    )
    paths = [Path(model_directory(TINY)) / name for name in _FILES]
    faults += [
        f"{path} is missing: pip install --force-reinstall {_DISTRIBUTION}"
        for path in paths
        if not path.is_file()
    ]
    if disk < _DISK_GIB or not os.access(".", os.W_OK):
        faults.append(f"a run needs {_DISK_GIB} GiB in a directory that can be written: go to one")
    libraries = _required_libraries()
    display.say("libraries", ", ".join(libraries.present) or "not installed by pip: not known")
    for text in libraries.untried:
        display.warn(text)
    missing = libraries.missing.pop("", [])
    faults += [f"{text}: pip install --upgrade {_DISTRIBUTION}" for text in missing]
    for extra, texts in libraries.missing.items():
        display.say("", f"for {extra}: {', '.join(texts)}; pip install '{_DISTRIBUTION}[{extra}]'")
    if faults:
        raise UserError("\n".join(faults))
    display.result("doctor", "the default run can run: rlvr train --algo dapo")


def _runner() -> str:
    """Say which of its two model runners vLLM takes on a GPU, where CI never ran it."""
    if os.environ.get(_V2_RUNNER) == "0":
        return f"its model runner V1, by {_V2_RUNNER}=0"
    return f"its model runner V2 for dense models, which a CPU does not take ({_V2_RUNNER}=0: V1)"


class Libraries(NamedTuple):
    """What the installation needs, compared with what is there, in words."""

    present: list[str]
    """What every installation needs, with its version."""
    untried: list[str]
    """Libraries outside of their range, and what to install."""
    missing: dict[str, list[str]]
    """By the extra that needs it ("" for none). An extra also lists what is out of range."""


def _required_libraries() -> Libraries:
    """Compare the requirements of rlvr, as pip knows them, with what is installed."""
    libraries = Libraries(present=[], untried=[], missing=defaultdict(list))
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        required = Requirement(line)
        match = re.search(r"extra == ['\"](.+?)['\"]", line)
        extra = match[1] if match else ""
        try:
            version = metadata.version(required.name)
        except metadata.PackageNotFoundError:
            libraries.missing[extra].append(f"{required.name} is not installed")
            continue
        if not extra:
            libraries.present.append(f"{required.name} {version}")
        if required.specifier.contains(version, prereleases=True):
            continue
        text = f"{required.name} {version} is not {required.specifier}"
        if extra:
            libraries.missing[extra].append(text)
        elif required.name not in TRIED:  # Those were reported above.
            libraries.untried.append(
                f"{text}, the range that was tried: pip install "
                f"'{required.name}{required.specifier}'"
            )
    return libraries
