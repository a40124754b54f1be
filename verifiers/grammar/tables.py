"""Words that are kept as data, in `tables/*.toml`."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tables"


@cache
def table(name: str) -> dict[str, Any]:
    """Return a table by its name."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
