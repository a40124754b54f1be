"""What `rlvr train --list` and `rlvr eval --list` print: a table, or JSONL in a pipe."""

import sys

from rich.console import Console
from rich.table import Table

from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.core.jsonl import write_jsonl_line
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
