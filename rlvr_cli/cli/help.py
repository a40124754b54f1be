"""Print help in plain columns: what an option is called, and what it does."""

import gc
import re
import shutil
import textwrap
from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

from typer.core import TyperCommand, TyperGroup

WIDEST = 100
"""Characters of a line at most, however wide the terminal is: longer ones are hard to read."""
_NAME_WIDTH = 24
"""Characters of the first column, two for the indent among them. Longer names have a line."""
_COMMANDS = ("train", "eval", "sample", "show", "ablate", "audit", "export", "serve", "doctor")
"""In the order in which people need them."""
_GLUE = "\0"


class PlainCommand(TyperCommand):
    """A command whose help is plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(self.help_text(ctx))

    def help_text(self, ctx: Any) -> str:
        """Return the usage, what it does, and the options by panel."""
        options = [
            option for option in self.get_params(ctx) if not getattr(option, "hidden", False)
        ]
        panels: dict[str, list[Any]] = {"Arguments": []}
        for option in options:
            is_argument = option.param_type_name == "argument"
            panel = getattr(option, "rich_help_panel", None) or "Options"
            panels.setdefault("Arguments" if is_argument else panel, []).append(option)
        blocks = [_usage(self, ctx), _paragraphs(self.help or "")]
        for panel in filter(panels.get, panels):
            rows = [_row_of(option, ctx) for option in panels[panel]]
            blocks.append("\n".join([f"{panel}:", *columns(rows)]))
        return "\n\n".join(blocks)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the collection of garbage that help goes without."""
        gc.enable()
        return super().invoke(ctx)


class PlainGroup(TyperGroup):
    """The program, whose help lists its commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order in which people need them."""
        return sorted(self.commands, key=_COMMANDS.index)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        options = [_row_of(option, ctx) for option in self.get_params(ctx)]
        commands = [
            (name, cleandoc(self.commands[name].help or "").partition("\n\n")[0])
            for name in self.list_commands(ctx)
        ]
        blocks = [_usage(self, ctx), _paragraphs(self.help or "")]
        blocks.append("\n".join(["Commands:", *columns(commands)]))
        blocks.append("\n".join(["Options:", *columns(options)]))
        formatter.write("\n\n".join(blocks))


def columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return rows of a name and a text as lines of two columns.

    What stands in brackets at the end of a text, its default, is not broken.
    """
    width = _width()
    lines = []
    for name, text in rows:
        start = text.rfind(" [default:")
        if start >= 0 and len(text) - start < width - _NAME_WIDTH:
            text = text[: start + 1] + text[start + 1 :].replace(" ", _GLUE)
        wrapped = textwrap.wrap(
            " ".join(text.split(" ")),
            width - _NAME_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
        head = f"  {name}"
        if len(head) > _NAME_WIDTH - 2:
            lines.append(head)
            head = ""
        for line in wrapped or [""]:
            lines.append(f"{head:<{_NAME_WIDTH}}{line.replace(_GLUE, ' ')}".rstrip())
            head = ""
    return lines


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size().columns)


def _usage(command: Any, ctx: Any) -> str:
    words = " ".join(command.collect_usage_pieces(ctx)).replace("[data]", "[DATA]")
    return f"Usage: {ctx.command_path} {re.sub(r'{(.+?)}', lambda name: name[1].upper(), words)}"


def _paragraphs(text: str) -> str:
    """Return a docstring's paragraphs, each wrapped. A block after a line with a backspace, which
    holds examples, keeps its lines."""
    paragraphs = []
    for paragraph in cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            paragraphs.append(paragraph.removeprefix("\b").strip("\n"))
        else:
            paragraphs.append(textwrap.fill(paragraph, _width(), break_on_hyphens=False))
    return "\n\n".join(paragraphs)


def _row_of(option: Any, ctx: Any) -> tuple[str, str]:
    """Return an option's names with the word for its value, and its help with its default."""
    text = " ".join((option.help or "").split())
    if option.param_type_name == "argument":
        return str(option.metavar or option.name.upper()), text
    names = sorted(option.opts, key=len)
    head = ", ".join(names)
    if option.is_flag:
        return head, text
    record, meaning = option.get_help_record(ctx)
    default = re.search(r"\[default: ([^];]+)", meaning)
    if default is not None and "[default: " not in text:
        text += f" [default: {default[1]}]"
    return f"{head} {_value_word(record, option.metavar)}", text


def _value_word(record: str, metavar: str | None) -> str:
    """Return the word for a value: its own, its choices, or one for its type."""
    if metavar is not None:
        word = metavar.strip("<>")
        return word.upper() if word in ("int", "float") else word
    word = re.sub(r".*-[\w-]+ ", "", record).strip("<>[]")
    if "|" in word:
        return word
    for beginning, name in (("int", "INT"), ("float", "FLOAT"), ("path", "PATH")):
        if word.lower().startswith(beginning):
            return name
    return "TEXT"
