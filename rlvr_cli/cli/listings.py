"""What `--list` and `--settings` print: a table, or JSONL in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.core.settings import NONE, Setting, settings_of
from rlvr_cli.data.sources import find_spec, known_sets


def list_algorithms() -> None:
    """Print the presets; piped, with every choice."""
    _print(
        ({"algo": name, **one.model_dump(mode="json")}, [name, str(one)])
        for name, one in ALGORITHMS.items()
    )


def list_sets() -> None:
    """Print the problem sets."""
    rows = []
    for name in known_sets():
        spec = find_spec(name)
        assert spec is not None
        splits = spec.split_names()
        row = {"name": name, "splits": splits, **spec.model_dump(exclude={"splits", "sizes"})}
        rows.append((row, [name, "+".join(splits), spec.description]))
    _print(rows)


def list_settings(sections: Sequence[str]) -> None:
    """Print the settings, or those of some sections: name, default, meaning, flag. Raises UserError
    for a section that does not exist."""
    every = list(settings_of(Config))
    found = [] if sections else every
    for section in sections:
        inside = [one for one in every if f"{one.name}.".startswith(f"{section}.")]
        if not inside:
            known = dict.fromkeys(one.name.split(".")[0] for one in every)
            raise UserError(f"--settings {section}: no such section; known: {', '.join(known)}")
        found += inside
    rows = [_described(one) for one in found]
    _print((row, [row["name"], row["default"], row["flag"] or "", row["meaning"]]) for row in rows)


def _described(one: Setting) -> dict[str, Any]:
    """Return name and default of a setting; its meaning, with the words that it can be and the
    kinds of a choice that have it; and its flag."""
    words = f" ({', '.join(one.values)})" if one.values else ""
    only = f" With {', '.join(one.of)} only." if one.of else ""
    value, of = one.default, one.use.flag_of or one.use.read_by
    if value is None or value == {}:
        value = NONE
    elif value is PydanticUndefined:
        value = "to be set"
    elif isinstance(value, float):
        value = f"{value:g}"
    elif isinstance(value, tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, bool):
        value = str(value).lower()
    flag = one.use.flag
    if flag and "train" not in of:
        flag = f"{flag} of {' and '.join(of)}"
    meaning = f"{one.meaning}{words}{only}"
    return {"name": one.name, "default": str(value), "meaning": meaning, "flag": flag}


def _print(rows: Iterable[tuple[dict[str, Any], list[str]]]) -> None:
    """Print rows: in a pipe as JSON objects, on a terminal as the cells beside them."""
    table = Table.grid(padding=(0, 2))
    for row, cells in rows:
        table.add_row(Text(cells[0], "bold"), *map(Text, cells[1:]))
        if not sys.stdout.isatty():
            write_jsonl_line(sys.stdout, row)
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
