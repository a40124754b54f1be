"""Print for people: plain lines in a pipe, progress and colors on a terminal."""

import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from rlvr_cli.core.jsonl import JsonObject, write_jsonl_line
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.signals import raise_if_interrupted
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import Rollout

_LINE_EVERY_S = 10.0
"""Seconds between two lines of progress in a pipe."""
_LABEL = 11
"""Columns of the label of a line."""


class Display:
    """Print messages and progress on stderr, or on stdout for `rlvr show`.

    `quiet` leaves only warnings and results. `verbose` adds throughput, memory and timing. `silent`
    leaves what the logger `rlvr` gets: warnings, the progress of what takes long, and how to go on
    with a run.
    """

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        stderr: bool = True,
        silent: bool = False,
    ) -> None:
        self.console = Console(stderr=stderr, highlight=False, soft_wrap=True, quiet=silent)
        if not self.console.is_terminal:
            self.console.width = 10_000  # so that no cell of a table is wrapped in a pipe
        self.quiet = quiet
        self.verbose = verbose

    def say(self, label: str, text: str) -> None:
        """Print one line about what is going on."""
        if not self.quiet:
            self._line(f"[bold cyan]{label:<11}[/]", text)

    def detail(self, label: str, text: str) -> None:
        """Print one line that only `verbose` shows."""
        if self.verbose:
            self.say(label, text)

    def command(self, label: str, words: Sequence[str]) -> None:
        """Print a command to copy. On a terminal it goes on in the next line after a word."""
        if self.quiet:
            return
        width = self.console.width if self.console.is_terminal else None
        lines = broken_command(words, width, _LABEL)
        self.console.print(f"[bold cyan]{label:<11}[/]{escape(printable(lines))}")

    def result(self, label: str, text: str) -> None:
        """Print one line, even when quiet."""
        self._line(f"[bold green]{label:<11}[/]", text)

    def advise(self, text: str) -> None:
        """Print how to go on with a run that ended early, even when silent."""
        if self.console.quiet:
            LOG.warning("resume     %s", " ".join(text.splitlines()))
        else:
            self.result("resume", text)

    def warn(self, text: str) -> None:
        """Print one line of warning, even when quiet."""
        line = " ".join(text.splitlines())
        if self.console.quiet:
            LOG.warning("warning    %s", line)
        else:
            self._line("[bold yellow]warning[/]    ", line)

    def _line(self, label: str, text: str) -> None:
        width = self.console.width if self.console.is_terminal else None
        self.console.print(f"{label}{escape(wrapped(printable(text), width, _LABEL))}")

    def table(self, lines: Sequence[Sequence[object]], is_result: bool = False) -> None:
        """Print a table below its header, with its cells wrapped if a terminal is narrow.

        A result, which the user asked for, is printed even when quiet.
        """
        if self.quiet and not is_result:
            return
        grid = Table.grid(padding=(0, 2, 0, 0))
        for column in range(len(lines[0])):
            grid.add_column(justify="right" if column else "left", overflow="fold")
        for number, line in enumerate(lines):
            cells = (Text(printable(str(cell))) for cell in line)
            grid.add_row(*cells, style="" if number else "bold")
        self.console.print("", grid, "", sep="\n", soft_wrap=False)

    def lines(self, lines: Iterable[str], style: str = "") -> None:
        """Print lines as they are, without wrapping."""
        for line in lines:
            self.console.print(Text(printable(line), style=style))

    def progress(self, label: str, total: int, completed: int = 0, lines: bool = False) -> "Ticker":
        """Return a progress bar for a terminal. With `lines`, a pipe gets a line now and then."""
        return Ticker(self, label, total, completed, lines)


class Ticker(Progress):
    """A progress bar with a note. Without a terminal, lines take its place."""

    def __init__(
        self, display: Display, label: str, total: int, completed: int, lines: bool
    ) -> None:
        self._is_silent = display.console.quiet
        has_bar = display.console.is_terminal and not display.quiet and not self._is_silent
        super().__init__(
            TextColumn("{task.description}", style="bold cyan", markup=False),
            BarColumn(30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=display.console,
            transient=True,
            redirect_stdout=False,
            disable=not has_bar,
            get_time=time.monotonic,
            speed_estimate_period=86_400,  # a step may take longer than the 30 s of rich
        )
        self.has_lines = lines and not has_bar and not display.quiet
        self.add_task(printable(label), total=total, completed=completed, note="")
        self._printed_at = self._since = time.monotonic()
        self._phase = ""

    def tick(self, note: str = "", advance: int = 1) -> None:
        """Advance, and show a note. Also handle an interruption that was lost."""
        raise_if_interrupted()
        task = self.tasks[0]
        now = time.monotonic()
        self.update(task.id, advance=advance, note=printable(note))
        if self.has_lines and now - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = now
            parts = [note, f"{task.completed:g}/{task.total:g}"]
            if task.time_remaining is not None:
                parts.append(f"{timedelta(seconds=task.time_remaining)} left")
            line = printable("  ".join(filter(None, parts)))
            if self._is_silent:
                LOG.info("%s  %s", task.description, line)
            else:
                self.console.print(escape(line))

    def enter(self, phase: str, completed: int, total: int, tokens: int) -> None:
        """Show the phase of the step under way, how much of it is done, and tokens per second."""
        now = time.monotonic()
        if phase != self._phase or not completed:
            self._phase = phase
            self._since = now
        note = f"{phase} {completed}/{total}" if total else phase
        if tokens and now > self._since:
            note += f"  {tokens / (now - self._since):,.0f} tok/s"
        self.update(self.tasks[0].id, note=note)


def measured(value: float | None) -> str:
    """Format as `0.433`, or in words if nothing could be judged."""
    return "not measured" if value is None else f"{value:.3f}"


class LiveResponse:
    """Print a response on a terminal while it is generated: the thought dimmed, the answer bold."""

    def __init__(self, decode: Callable[[list[int]], str], think_open: bool) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.decode = decode
        self.think_open = think_open
        self.token_ids: list[int] = []
        self.printed = ""

    def __call__(self, token_id: int) -> None:
        """Print what the token adds, once its characters are whole."""
        self.token_ids.append(token_id)
        text = self.decode(self.token_ids)
        if text.endswith("\ufffd") or not text.startswith(self.printed):
            return
        thinks = self.think_open or text.lstrip().startswith("<think>")
        style = "dim" if thinks and "</think>" not in self.printed else "bold"
        self.console.print(Text(printable(text[len(self.printed) :]), style=style), end="")
        self.printed = text


def show_verdict(rollout: Rollout) -> None:
    """Print the length of the response and its verdict."""
    parts = [f"{rollout.n_tokens} tokens"]
    if rollout.is_cut_off:
        parts.append("cut off by --max-tokens")
    if rollout.verification is not None:
        parts.append(f"{rollout.verification.verdict}: {rollout.verification.reason}")
    Console(highlight=False).print(Text(printable("  ".join(parts)), style="cyan"))


def print_step(row: JsonObject, groups: object) -> None:
    """Print a step's line of metrics.jsonl on stdout, if that is a pipe."""
    if not sys.stdout.isatty():
        write_jsonl_line(sys.stdout, row)


def print_list(rows: Iterable[tuple[JsonObject, list[str]]]) -> None:
    """Print rows on stdout: in a pipe as JSON objects, on a terminal as their cells in a table."""
    if not sys.stdout.isatty():
        for row, _ in rows:
            write_jsonl_line(sys.stdout, row)
        return
    table = Table.grid(padding=(0, 2))
    for _, (name, *cells) in rows:
        table.add_row(Text(name, "bold"), *map(Text, cells))
    Console(highlight=False).print(table)


def fail(message: str) -> None:
    """Print a mistake of the user on stderr."""
    *first_lines, last = printable(message).strip().splitlines()
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for line in (*first_lines, f"rlvr: error: {last}"):
        print(wrapped(line, width, 0), file=sys.stderr)


def broken_command(words: Sequence[str], width: int | None, indent: int) -> str:
    """Return a command in lines that a shell takes for one, each within a width if words allow."""
    lines = [""]
    for word in map(shlex.quote, words):
        longer = f"{lines[-1]} {word}".strip()
        if width is not None and lines[-1] and indent + len(longer) + 2 > width:
            lines.append(f"  {word}")
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return f" \\\n{' ' * indent}".join(lines)


def wrapped(text: str, width: int | None, indent: int) -> str:
    """Break lines at spaces for a terminal of this width, and indent all but the first.

    Without a width, or with a very small one, return the text unchanged.
    """
    if width is None or width <= 2 * indent:
        return text
    fold = textwrap.TextWrapper(width - indent, break_long_words=False, break_on_hyphens=False)
    pieces = [piece for line in text.split("\n") for piece in fold.wrap(line) or [""]]
    return f"\n{' ' * indent}".join(pieces)
