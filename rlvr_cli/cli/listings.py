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
    table = Table.grid(padding=(0, 2))
    for name, algorithm in ALGORITHMS.items():
        table.add_row(f"[bold]{name}[/]", str(algorithm))
        if not sys.stdout.isatty():
            write_jsonl_line(sys.stdout, {"algo": name, **algorithm.model_dump(mode="json")})
    if sys.stdout.isatty():
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
    every = list(settings_of(Config))
    rows = [] if sections else every
    for section in sections:
        inside = [one for one in every if f"{one.name}.".startswith(f"{section}.")]
        if not inside:
            known = dict.fromkeys(one.name.split(".")[0] for one in every)
            raise UserError(f"--settings {section}: no such section; known: {', '.join(known)}")
        rows += [one for one in inside if one not in rows]
    if sys.stdout.isatty():
        Console().print(Markdown("\n".join(tables(rows))))
        return
    for one in rows:
        write_jsonl_line(sys.stdout, listed(one))


def tables(rows: Sequence[Setting]) -> list[str]:
    """Return a Markdown table for each section."""
    lines = []
    for section, inside in groupby(rows, lambda one: one.name.rpartition(".")[0].partition(".")[0]):
        lines += ["", f"## {section or 'The run'}", ""]
        lines += ["| setting | default | meaning | flag |", "| --- | --- | --- | --- |"]
        for row in map(listed, inside):
            meaning = str(row["meaning"]).replace("|", "\\|")
            flag = f"`{row['flag']}`" if row["flag"] else ""
            lines.append(f"| `{row['name']}` | {row['default']} | {meaning} | {flag} |")
    return lines


def listed(one: Setting) -> dict[str, str | None]:
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
    flag = one.use.flag if one.said_at == one.name else None
    if flag and "train" not in of:
        flag = f"{flag} of {' and '.join(of)}"
    meaning = f"{one.meaning}{words}{only}"
    return {"name": one.name, "default": str(value), "meaning": meaning, "flag": flag}
