"""Words and patterns that are kept as data, in `tables/*.toml`."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from verifiers.grammar.gates import Gated

FOLDER = Path(__file__).resolve().parents[1] / "tables"
NAME = re.compile(r"<([a-z_]{3,})>(?!\w)")


@cache
def table(name: str) -> dict[str, Any]:
    """Return a table by its name."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def pattern(name: str, entry: str, *, flags: int = re.I) -> re.Pattern[str]:
    """Return an entry of a table, a list of alternatives, as one pattern; `<other>` stands for
    another entry of the table."""
    return re.compile("|".join(_alternatives(name, entry)), flags)


def gated(name: str, entry: str, *, flags: int = re.I) -> Gated:
    """Return an entry of a table as a pattern that is tried only where its words stand."""
    return Gated(_alternatives(name, entry), flags)


def _alternatives(name: str, entry: str) -> list[str]:
    given = table(name)
    return [
        NAME.sub(lambda other: "|".join(_alternatives(name, other[1])), one) for one in given[entry]
    ]
