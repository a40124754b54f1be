"""Name the problem sets of datasets_cfg."""

import re
from importlib import resources
from pathlib import Path


def known_sets() -> list[str]:
    """List the names in datasets_cfg."""
    files = resources.files("datasets_cfg").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def canonical(source: str) -> str:
    """Return a set's own spelling of its name (AIME_2024: aime24). Return any other source
    unchanged."""
    if source in known_sets() or Path(source).exists():
        return source
    return sets_by_normal_name().get(normal_name(source), source)


def sets_by_normal_name() -> dict[str, str]:
    """Return the names in datasets_cfg by their normal names."""
    return {normal_name(name): name for name in known_sets()}


def normal_name(name: str) -> str:
    """Return the name in lower case, without hyphens, underscores, spaces and a year's century."""
    return re.sub(r"20(?=\d\d$)", "", re.sub(r"[-_ ]", "", name.lower()))
