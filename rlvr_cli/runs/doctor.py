"""Examine an installation: what is there, what is missing, and what each is needed for."""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch
from packaging.requirements import Requirement

from rlvr_cli import __version__
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import by_key
from rlvr_cli.model.loading import TINY, default_device, model_directory
from rlvr_cli.rollout.memory import memory_free
from rlvr_cli.rollout.plan import choose_engine

_DISTRIBUTION = "rlvr-cli"
_DISK_GIB = 0.2
"""What the default run writes, with some room: its checkpoints are 10 MB each."""
_FILES = ("config.json", "model.safetensors", "tokenizer.json")
_USES = {
    "vllm": "--engine vllm",
    "track": "any --track",
    "8bit": "optim.moments=8bit",
    "tensorboard": "--track tensorboard",
    "wandb": "--track wandb",
    "trackio": "--track trackio",
    "dev": "make test, make lint",
    "docs": "make docs",
}
"""What an extra of pyproject.toml is for."""


def examine(display: Display) -> None:
    """Say what the installation has and lacks. Raises UserError if the default run cannot run."""
    display.say("rlvr", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    display.say("device", _device())
    display.say("engine", "{0.name} ({0.reason})".format(choose_engine("auto")))
    display.say("verifiers", "rlvr's own; no other distribution has their name")
    memory, disk = memory_free(torch.device("cpu"), 0.0) / GIB, shutil.disk_usage(".").free / GIB
    display.say("free", f"{memory:.1f} GiB of memory; {disk:.1f} GiB on the disk of this directory")
    wrong = _missing_files()
    if disk < _DISK_GIB or not os.access(".", os.W_OK):
        wrong.append(f"a run needs {_DISK_GIB} GiB in a directory that can be written: go to one")
    found = by_key(_requirements(), lambda one: one[0])
    core = found.pop("", [])
    listed = ", ".join(text for _, text, _ in core)
    display.say("libraries", listed or "not installed by pip: not known")
    lacks = [text for _, text, is_met in core if not is_met]
    wrong += [f"{text}: pip install --upgrade {_DISTRIBUTION}" for text in lacks]
    for extra, libraries in found.items():
        if missing := [text for _, text, is_met in libraries if not is_met]:
            install = f"pip install '{_DISTRIBUTION}[{extra}]'"
            display.say("", f"for {_USES.get(extra, extra)}: {', '.join(missing)}; {install}")
    if wrong:
        raise UserError("\n".join(wrong))
    display.result("doctor", "the default run can run: rlvr train --algo dapo")


def _device() -> str:
    if default_device() == "cuda":
        card = torch.cuda.get_device_properties(0)
        count = torch.cuda.device_count()
        return f"{count} x {card.name}, {card.total_memory / GIB:.0f} GiB each"
    unused = "; Apple's GPU is not used" if torch.backends.mps.is_available() else ""
    return f"cpu, {os.cpu_count()} cores{unused}"


def _missing_files() -> list[str]:
    """Say which files of the built-in policy are not there."""
    paths = [Path(model_directory(TINY)) / name for name in _FILES]
    again = f"pip install --force-reinstall {_DISTRIBUTION}"
    return [f"{path} is missing: {again}" for path in paths if not path.is_file()]


def _requirements() -> Iterator[tuple[str, str, bool]]:
    """Yield the extra ("" for none), the name with its version and range, and whether it is met,
    for each requirement that this installation was made with."""
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        asked = Requirement(line)
        extra = re.search(r"extra == ['\"](.+?)['\"]", line)
        try:
            version = metadata.version(asked.name)
        except metadata.PackageNotFoundError:
            yield extra[1] if extra else "", f"{asked.name} is not installed", False
            continue
        is_met = asked.specifier.contains(version, prereleases=True)
        outside = "" if is_met else f" is not {asked.specifier}"
        yield extra[1] if extra else "", f"{asked.name} {version}{outside}", is_met
