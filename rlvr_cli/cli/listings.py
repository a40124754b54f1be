"""What `--list` and `--settings` print: a table, or JSONL in a pipe."""

import sys
from collections.abc import Sequence
from itertools import groupby

from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.core.settings import NONE, Setting, settings_of
from rlvr_cli.data.sources import find_spec, known_sets


def list_algorithms() -> None:
    """Print the presets; piped, one JSON object a row with every choice."""
    if not sys.stdout.isatty():
        for name, algorithm in ALGORITHMS.items():
            write_jsonl_line(sys.stdout, {"algo": name, **algorithm.model_dump(mode="json")})
        return
    table = Table.grid(padding=(0, 2))
    for name, algorithm in ALGORITHMS.items():
        table.add_row(f"[bold]{name}[/]", str(algorithm))
    Console(highlight=False).print(table)


def list_sets() -> None:
    """Print a line a problem set."""
    names = known_sets()
    width = max(map(len, names))
    for name in names:
        spec = find_spec(name)
        assert spec is not None
        splits = spec.split_names()
        if sys.stdout.isatty():
            print(f"{name:<{width}}  {'+'.join(splits):<10}  {spec.description}")
        else:
            row = {"name": name, "splits": splits, **spec.model_dump(exclude={"splits", "sizes"})}
            write_jsonl_line(sys.stdout, row)


def list_settings(sections: Sequence[str]) -> None:
    """Print the settings, or those of some sections: name, default, meaning, flag. Raises UserError
    for a section that does not exist."""
    rows = list(settings_of(Config))
    for section in sections:
        if not any(_is_in(row, section) for row in rows):
            known = dict.fromkeys(row.name.split(".")[0] for row in rows)
            raise UserError(f"--settings {section}: no such section; known: {', '.join(known)}")
    rows = [row for row in rows if not sections or any(_is_in(row, one) for one in sections)]
    if not sys.stdout.isatty():
        for row in rows:
            shown = {"name": row.name, "default": _default(row), "meaning": _meaning(row)}
            write_jsonl_line(sys.stdout, {**shown, "flag": _flag(row)})
        return
    Console().print(Markdown("\n".join(tables(rows))))


def tables(rows: Sequence[Setting]) -> list[str]:
    """Return a Markdown table for each section."""
    lines = []
    for section, listed in groupby(rows, lambda row: row.name.rpartition(".")[0].partition(".")[0]):
        lines += ["", f"## {section or 'The run'}", ""]
        lines += ["| setting | default | meaning | flag |", "| --- | --- | --- | --- |"]
        for row in listed:
            meaning = _meaning(row).replace("|", "\\|")
            flag = f"`{_flag(row)}`" if _flag(row) else ""
            lines.append(f"| `{row.name}` | {_default(row)} | {meaning} | {flag} |")
    return lines


def _is_in(row: Setting, section: str) -> bool:
    return row.name == section or row.name.startswith(f"{section}.")


def _default(row: Setting) -> str:
    value = row.default
    if value is None or value == {}:
        return NONE
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "to be set" if value is PydanticUndefined else str(value)


def _meaning(row: Setting) -> str:
    """Return the meaning, which words there are, and which kinds of a choice have it."""
    words = f" ({', '.join(row.values)})" if row.values else ""
    only = f" With {', '.join(row.of)} only." if row.of else ""
    return f"{row.meaning}{words}{only}"


def _flag(row: Setting) -> str | None:
    use, of = row.use, row.use.flag_of or row.use.read_by
    if use.flag is None or row.said_at != row.name:
        return None
    return use.flag if "train" in of else f"{use.flag} of {' and '.join(of)}"
