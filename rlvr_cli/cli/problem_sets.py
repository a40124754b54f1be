"""`rlvr eval --list`: the problem sets by name."""

import sys

from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.data.sources import find_spec, known_sets


def list_sets() -> None:
    """A line a set: for reading on a terminal, JSONL in a pipe."""
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
