"""Make the pages of all settings and, with the argument `commands`, of all commands."""

import sys
from inspect import cleandoc
from itertools import groupby
from typing import Any

from typer.main import get_command

from rlvr_cli.cli.listings import tables
from rlvr_cli.cli.main import app
from rlvr_cli.config import Config
from rlvr_cli.core.settings import settings_of


def settings_page() -> str:
    """Return docs/settings.md: a table for each section."""
    lines = [
        "# Settings",
        "",
        "Made by `make settings` from the settings themselves; `rlvr train --settings` lists them.",
        "A setting is given as `--set NAME=VALUE`, in a file for `--config`, or by its flag. A "
        "default under `algorithm` is that of `dapo`; `rlvr train --list` has the other presets. "
        "Of a choice the kind is set by its name (`algorithm.kl=k3`), its cells below it.",
    ]
    return "\n".join([*lines, *tables(list(settings_of(Config)))]) + "\n"


def commands_page() -> str:
    """Return docs/commands.md: examples and options of each command."""
    lines = ["# Commands", "", "Made by `make settings` from what `rlvr COMMAND --help` shows."]
    group: Any = get_command(app)
    for name, command in group.commands.items():
        lines += ["", f"## rlvr {name}", "", *_help_lines(command.help)]
        lines += ["", "| option | meaning | default |", "| --- | --- | --- |"]
        for one in command.params:
            flags = ", ".join(f"`{flag}`" for flag in one.opts if flag.startswith("-"))
            meaning, _, default = one.help.partition(" [dim]\\[default: ")
            cells = [flags or f"`{one.name.upper()}`", meaning, default.removesuffix("][/]")]
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _help_lines(text: str) -> list[str]:
    """Return the help of a command as Markdown: its indented lines are examples."""
    lines = [line for line in cleandoc(text).splitlines() if line and "[bold]" not in line]
    blocks: list[str] = []
    for is_code, part in groupby(lines, lambda line: line.startswith("  ")):
        found = [line.strip() for line in part]
        blocks += ["```sh", *found, "```", ""] if is_code else [*found, ""]
    return blocks[:-1]


if __name__ == "__main__":
    print(commands_page() if "commands" in sys.argv else settings_page(), end="")
