"""Print docs/settings.md, the page of all commands, settings and figures: `make settings`.

Everything is read as a user reads it, from the help of the commands, from the rows that a piped
`rlvr train --settings` prints, and from the glossary of the page of a run, so that the page says
nothing that the program does not say.
"""

import json
import re
from importlib import resources
from inspect import cleandoc
from itertools import groupby
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from rlvr_cli.cli.main import app

GLOSSARY = resources.files("rlvr_cli") / "show" / "page_files" / "glossary.json"
KINDS = re.compile(r" With ([\w, ]+) only\.$")
"""The end of the meaning of a setting that only some kinds of a choice have."""
HEAD = """\
# Settings and commands

Made by `make settings`. `rlvr train --settings` prints the same texts; `rlvr COMMAND --help` has
examples.
"""
COMMANDS = """
## Commands

Options that are no [settings](#settings) stand under the first command that has them.
"""
SETTINGS = """
## Settings

A setting is given by `--set NAME=VALUE`, in a YAML file for `--config`, or by its flag. Its default
follows the name, unless it is none; those of `algorithm` are of `dapo`. A kind, such as
`algorithm.kl=k3`, has settings of its own.
"""
FIGURES = """
## Figures of a step

`metrics.jsonl` has a line per step.

"""


def settings_page() -> str:
    """Return the page as Markdown."""
    rows = [json.loads(line) for line in _output("train", "--settings").splitlines()]
    glossary = json.loads(GLOSSARY.read_text(encoding="utf-8"))
    figures = "".join(f"- `{key}`: {meaning}\n" for key, meaning in glossary.items())
    return HEAD + COMMANDS + _commands(rows) + SETTINGS + _sections(rows) + FIGURES + figures


def _output(*args: str) -> str:
    done = CliRunner().invoke(app, list(args))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def _commands(rows: list[dict]) -> str:
    """Return a part for each command: its help and its own options."""
    lines: list[str] = []
    told: set[tuple[str, str]] = set()
    group: Any = get_command(app)
    for name, command in group.commands.items():
        help_lines = [line for line in cleandoc(command.help).splitlines() if line.strip("\b")]
        texts = [line for line in help_lines if not line.startswith(" ") and line != "Examples:"]
        lines += ["", f"### rlvr {name}", "", *texts, ""]
        for option in command.params:
            flags = [flag for flag in option.opts if flag.startswith("-")]
            shown = " or ".join(f"`{flag}`" for flag in flags) or f"`{option.name.upper()}`"
            meaning = option.help.partition(" [default:")[0]
            is_setting = any(row["meaning"].startswith(meaning) for row in rows)
            if not is_setting and (shown, meaning) not in told:
                told.add((shown, meaning))
                lines.append(f"- {shown}: {meaning}")
        if not lines[-1]:
            lines.pop()
    return "\n".join(lines) + "\n"


def _sections(rows: list[dict]) -> str:
    """Return a list of settings for each section. Kinds of a choice that share a setting of one
    meaning share a line."""
    lines: list[str] = []
    for section, part in groupby(rows, lambda row: row["name"].rpartition(".")[0].split(".")[0]):
        lines += ["", f"### {section or 'The run'}", ""]
        by_text: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        for row in part:
            meaning, kinds, _ = [*KINDS.split(row["meaning"]), "", ""][:3]
            of_default = by_text.setdefault((row["name"], meaning, row["flag"] or ""), {})
            of_default.setdefault(row["default"], []).extend([kinds] if kinds else [])
        for (name, meaning, flag), defaults in by_text.items():
            notes = [
                f"{value} with {', '.join(of)}" if of else value for value, of in defaults.items()
            ]
            if flag:
                option, _, of_commands = flag.partition(" ")
                notes.append(f"`{option}` {of_commands}".strip())
            shown = "; ".join(note for note in notes if note != "none")
            lines.append(f"- `{name}` ({shown}): {meaning}" if shown else f"- `{name}`: {meaning}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(settings_page(), end="")
