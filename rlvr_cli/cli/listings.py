"""What `--list` and `--settings` print: a table, or JSONL in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.core.settings import default_in_words, settings_of
from rlvr_cli.data.sources import find_spec, known_sets


def list_algorithms() -> None:
    """Print the presets; piped, with every choice."""
    _print(
        ({"algo": name, **algo.model_dump(mode="json")}, [name, str(algo)])
        for name, algo in ALGORITHMS.items()
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
    """Print the settings, or those of some sections: name, default, meaning, with the words that
    the value can be and the kinds of a choice that have it, and flag. Raises UserError for a
    section that does not exist."""
    settings = list(settings_of(Config))
    for section in sections:
        if not any(f"{setting.name}.".startswith(f"{section}.") for setting in settings):
            names = dict.fromkeys(setting.name.split(".")[0] for setting in settings)
            raise UserError(f"--settings {section}: no such section; known: {', '.join(names)}")
    rows, prefixes = [], tuple(f"{section}." for section in sections)
    for setting in settings:
        if sections and not f"{setting.name}.".startswith(prefixes):
            continue
        words = f" ({', '.join(setting.values)})" if setting.values else ""
        only = f" With {', '.join(setting.kinds)} only." if setting.kinds else ""
        flag, commands = setting.use.flag, setting.use.flag_of or setting.use.read_by
        if flag and "train" not in commands:
            flag = f"{flag} of {' and '.join(commands)}"
        default, meaning = default_in_words(setting.default), f"{setting.meaning}{words}{only}"
        row = {"name": setting.name, "default": default, "meaning": meaning, "flag": flag}
        rows.append((row, [setting.name, default, flag or "", meaning]))
    _print(rows)


def _print(rows: Iterable[tuple[dict[str, Any], list[str]]]) -> None:
    """Print rows: in a pipe as JSON objects, on a terminal as the cells beside them."""
    table = Table.grid(padding=(0, 2))
    for row, cells in rows:
        table.add_row(Text(cells[0], "bold"), *map(Text, cells[1:]))
        if not sys.stdout.isatty():
            write_jsonl_line(sys.stdout, row)
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
