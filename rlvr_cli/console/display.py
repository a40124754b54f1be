"""Output for people, all on stderr: plain lines in a pipe, progress and colors on a terminal."""

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rlvr_cli.console.bar import Bar
from rlvr_cli.console.curves import History, draw_curves
from rlvr_cli.console.tables import table
from rlvr_cli.core.signals import heed
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import Group, Rollout

_LABEL = 11
"""Columns of the label of a line."""
LINE_EVERY_S = 10.0


class Display:
    """Messages and progress on stderr (or stdout, for what was asked to be shown); `quiet` leaves
    only errors and the result, `verbose` adds figures of the machine."""

    def __init__(self, quiet: bool = False, verbose: bool = False, stderr: bool = True) -> None:
        self.console = Console(stderr=stderr, highlight=False, soft_wrap=True)
        self.quiet, self.verbose = quiet, verbose

    def say(self, label: str, text: str) -> None:
        """Print one line about what is going on."""
        if not self.quiet:
            self._line(f"[bold cyan]{label:<11}[/]", text)

    def command(self, label: str, text: str) -> None:
        """Print a command to copy, on one line however long."""
        if not self.quiet:
            self.console.print(f"[bold cyan]{label:<11}[/]{escape(printable(text))}")

    def result(self, label: str, text: str) -> None:
        """Print one line that is shown even when quiet."""
        self._line(f"[bold green]{label:<11}[/]", text)

    def warn(self, text: str) -> None:
        """Print one line of warning, shown even when quiet."""
        self._line("[bold yellow]warning[/]    ", " ".join(text.splitlines()))

    def _line(self, label: str, text: str) -> None:
        width = self.console.width if self.console.is_terminal else None
        self.console.print(f"{label}{escape(wrapped(printable(text), width, _LABEL))}")

    def block(self, lines: Iterable[str], asked: bool = False) -> None:
        """Print a table, set apart; one that was asked for is shown even when quiet."""
        if asked or not self.quiet:
            self.console.print(Text(printable("\n".join(["", *lines, ""]))))

    def table(self, lines: Sequence[Sequence[str]]) -> None:
        """Print a table below its header, cells wrapped where a terminal is narrow."""
        if not self.console.is_terminal:
            self.block(table(lines))
            return
        grid = Table.grid(padding=(0, 2, 0, 0))
        for number, line in enumerate(lines):
            style = "" if number else "bold"
            grid.add_row(*(Text(printable(cell), style, overflow="fold") for cell in line))
        self.console.print("", grid, "", sep="\n", soft_wrap=False)

    def lines(self, lines: Iterable[str], style: str = "") -> None:
        """Print lines that are as wide as they should be."""
        for line in lines:
            self.console.print(Text(printable(line), style=style))

    def print_curves(self, runs: Sequence[History]) -> None:
        """Print the curves of runs, as wide as the terminal."""
        if not self.quiet:
            width = self.console.width if self.console.is_terminal else 80
            self.console.print(Text.from_ansi(draw_curves(runs, width, True)))

    @contextmanager
    def progress(self, what: str, total: int, done: int = 0) -> Iterator["Ticker"]:
        """Show a progress bar on a terminal; in a pipe, a line for each note."""
        if self.quiet or not self.console.is_terminal:
            yield Ticker(None if self.quiet else self.console)
            return
        bar = Bar(what, total, done)
        with Live(bar, console=self.console, transient=True, redirect_stdout=False):
            yield Ticker(None, bar)

    @contextmanager
    def judging(self, total: int) -> Iterator[Callable[[int], None]]:
        """Show how many responses are judged, each time they are counted; at the end how fast."""
        pace = Pace(total)
        with self.progress("judging", total) as bar:
            yield lambda size: bar.tick(pace.count(size), advance=size, print_note=pace.is_due())
        self.say("judged", pace.summary("responses"))


class Ticker:
    """A progress bar, or printed notes where there is none."""

    def __init__(self, console: Console | None, bar: Bar | None = None) -> None:
        self.console, self.bar = console, bar

    def tick(self, note: str = "", *, print_note: bool = True, advance: int = 1) -> None:
        """Advance; the note says how it went. Also handle an interruption that was lost."""
        heed()
        if self.bar is not None:
            self.bar.advance(advance)
            self.bar.notes = note.split("  ") if note else []
        elif self.console is not None and note and print_note:
            self.console.print(escape(note))

    def enter(self, phase: str, done: int, total: int, tokens: int) -> None:
        """Show the phase of the unit under way on the bar, if there is one."""
        if self.bar is not None:
            self.bar.enter(phase, done, total, tokens)


class Pace:
    """The rate of a measurement, its remaining time, and pass@1 so far."""

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.skipped, self.done = total, done, 0
        self.responses = 0
        self._shares: list[float] = []
        self._started = self._said = time.monotonic()

    def note(self, group: Group) -> str:
        """Count another finished problem: pass@1 so far, rate, time left."""
        judged = group.judged
        if judged:
            self._shares.append(sum(rollout.is_correct for rollout in judged) / len(judged))
        running = sum(self._shares) / len(self._shares) if self._shares else None
        return f"pass@1 {measured(running)}  {self.count(1, len(group.rollouts))}"

    def count(self, units: int, responses: int | None = None) -> str:
        """Count more units and describe them: how many, rate, time left."""
        self.done += units
        self.responses += units if responses is None else responses
        left = self.total - self.skipped - self.done
        seconds = left * self._elapsed / self.done
        return (
            f"{self.skipped + self.done}/{self.total}  "
            f"{self.responses / self._elapsed:.3g} responses/s  {seconds / 60:.1f} min left"
        )

    def is_due(self) -> bool:
        """Return whether a line may be printed again: every `LINE_EVERY_S` seconds."""
        now = time.monotonic()
        due = now - self._said >= LINE_EVERY_S
        if due:
            self._said = now
        return due

    def summary(self, what: str) -> str:
        """Summarize all that was done, and how fast."""
        rate = self.responses / self._elapsed
        return f"{self.responses} {what} in {self._elapsed:.1f} s, {rate:.0f} a second"

    @property
    def _elapsed(self) -> float:
        return max(1e-6, time.monotonic() - self._started)


def measured(value: float | None) -> str:
    """Format as `0.433`, or in words if nothing could be judged."""
    return "not measured" if value is None else f"{value:.3f}"


class LiveResponse:
    """A response shown on a terminal while it is generated: thought dimmed, answer bold."""

    def __init__(self, decode: Callable[[list[int]], str], think_open: bool) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.decode, self.think_open = decode, think_open
        self.token_ids: list[int] = []
        self.shown = ""

    def __call__(self, prompt: int, sample: int, token_id: int) -> None:
        """Print what the token adds, once its characters are whole."""
        self.token_ids.append(token_id)
        text = self.decode(self.token_ids)
        if text.endswith("\ufffd") or not text.startswith(self.shown):
            return
        thinks = self.think_open or text.lstrip().startswith("<think>")
        style = "dim" if thinks and "</think>" not in self.shown else "bold"
        self.console.print(Text(printable(text[len(self.shown) :]), style=style), end="")
        self.shown = text


def show_verdict(rollout: Rollout) -> None:
    """Print the length of the response and its verdict."""
    parts = [f"{len(rollout.completion.token_ids)} tokens"]
    if rollout.completion.finish_reason == "length":
        parts.append("cut off by --max-tokens")
    if rollout.verification is not None:
        parts.append(f"{rollout.verification.verdict}: {rollout.verification.reason}")
    Console(highlight=False).print(Text(printable("  ".join(parts)), style="cyan"))


def fail(message: str) -> None:
    """Print a mistake of the user on stderr."""
    lines = printable(message).strip().splitlines()
    lines[-1] = f"rlvr: error: {lines[-1]}"
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for line in lines:
        print(wrapped(line, width, 0), file=sys.stderr)


def wrapped(text: str, width: int | None, indent: int) -> str:
    """Break lines at spaces for a terminal of that width, indented after the first; None: not."""
    if width is None or width <= 2 * indent:
        return text
    pieces: list[str] = []
    for line in text.split("\n"):
        pieces += textwrap.wrap(
            line, width - indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return f"\n{' ' * indent}".join(pieces)
