"""Examine an installation: what is there, what is missing, and what each is needed for."""

import os
import platform
import re
import shutil
from collections import defaultdict
from importlib import metadata
from pathlib import Path

import torch
from packaging.requirements import Requirement

from rlvr_cli import __version__
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.model.loading import TINY, default_device, model_directory, unused_gpu
from rlvr_cli.rollout.memory import host_memory
from rlvr_cli.rollout.plan import choose_engine

_DISTRIBUTION = "rlvr-cli"
_DISK_GIB = 0.2
"""What the default run writes, with some room: its checkpoints are 10 MB each."""
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


def examine(display: Display) -> None:
    """Say what the installation has and lacks. Raises UserError if the default run cannot run."""
    device = f"cpu, {os.cpu_count()} cores"
    if default_device() == "cuda":
        card = torch.cuda.get_device_properties(0)
        memory = f"{card.total_memory / GIB:.0f} GiB each"
        device = f"{torch.cuda.device_count()} x {card.name}, {memory}"
    elif torch.backends.mps.is_available():
        device += "; Apple's GPU is not used"
    else:
        device += unused_gpu()
    display.say("rlvr", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    display.say("device", device)
    display.say("engine", "{0.name} ({0.reason})".format(choose_engine("auto")))
    free, disk = host_memory() / GIB, shutil.disk_usage(".").free / GIB
    display.say("free", f"{free:.1f} GiB of memory; {disk:.1f} GiB on the disk of this directory")
    paths = [Path(model_directory(TINY)) / name for name in _FILES]
    again = f"pip install --force-reinstall {_DISTRIBUTION}"
    wrong = [f"{path} is missing: {again}" for path in paths if not path.is_file()]
    if disk < _DISK_GIB or not os.access(".", os.W_OK):
        wrong.append(f"a run needs {_DISK_GIB} GiB in a directory that can be written: go to one")
    has, lacks = _libraries()
    display.say("libraries", ", ".join(has) or "not installed by pip: not known")
    wrong += [f"{text}: pip install --upgrade {_DISTRIBUTION}" for text in lacks.pop("", [])]
    for extra, missing in lacks.items():
        install = f"pip install '{_DISTRIBUTION}[{extra}]'"
        display.say("", f"for {extra}: {', '.join(missing)}; {install}")
    if wrong:
        raise UserError("\n".join(wrong))
    display.result("doctor", "the default run can run: rlvr train --algo dapo")


def _libraries() -> tuple[list[str], dict[str, list[str]]]:
    """Return the libraries that every installation needs, with their versions, and what is missing
    or out of range by its extra ("" for none)."""
    has, lacks = list[str](), defaultdict[str, list[str]](list)
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        asked, extra = Requirement(line), re.search(r"extra == ['\"](.+?)['\"]", line)
        try:
            version = metadata.version(asked.name)
            is_met = asked.specifier.contains(version, prereleases=True)
            text = f"{asked.name} {version}" + ("" if is_met else f" is not {asked.specifier}")
        except metadata.PackageNotFoundError:
            text, is_met = f"{asked.name} is not installed", False
        if extra is None:
            has.append(text)
        if not is_met:
            lacks[extra[1] if extra else ""].append(text)
    return has, lacks
