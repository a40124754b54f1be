"""Show the page of `rlvr audit`."""

from collections import Counter
from statistics import fmean

from rich.table import Table
from rich.text import Text

from rlvr_cli.console.display import Display
from rlvr_cli.core.audit import AuditFigures, Check, Rating
from rlvr_cli.core.text import one_line, plural, printable

_STYLES: dict[Rating, str] = {"fine": "green", "look": "yellow", "bad": "bold red"}
_ROWS_SHOWN = 3
_END = 90
"""Characters of a response that are shown: its last, which have the answer."""


def show_audit(figures: AuditFigures, display: Display) -> None:
    """Show what was tried, a line per check, and examples of what is not fine."""
    count = plural(figures.problems, "problem")
    if figures.problems < figures.of:
        count = f"{figures.problems} of {figures.of:,} problems, evenly spread,"
    display.result("reward", f"{' + '.join(figures.reward)} on {count} of {figures.data}")
    if figures.plain:
        right = fmean(rewards.right for rewards in figures.plain)
        wrong = fmean(rewards.wrong for rewards in figures.plain)
        display.result("right", f"earns {right:.3g} on average, as in: {one_line(figures.example)}")
        display.result("wrong", f"earns {wrong:.3g}: the answer of another problem, written alike")
        display.result("paid", "means: nearer to the right one than to the wrong one")
    if figures.note:
        display.result("note", figures.note)
    table = Table.grid(padding=(0, 2, 0, 0))
    for check in figures.checks:
        table.add_row(
            Text(check.judgement, _STYLES[check.judgement]),
            Text(printable(check.question)),
            Text(printable(check.found)),
        )
    display.console.print("", table, "", sep="\n", soft_wrap=False)
    if not figures.has_signal:
        display.result(
            "nothing",
            f"a plain right answer earns no more than a wrong one on "
            f"{figures.problems - len(figures.plain)} of {figures.problems} problems, so nothing "
            "else can be asked; show how answers are written with --way 'TEXT {answer}'",
        )
        return
    for check in figures.checks:
        if check.judgement != "fine":
            _show_examples(check, display)
    if figures.seconds is not None and figures.slowest is not None:
        display.result(
            "cost",
            f"{1000 * figures.seconds:.2g} ms per response asked alone, "
            f"{1000 * figures.slowest:.2g} ms at most, {figures.memory_mb:,.0f} MiB of memory",
        )
    n_by_judgement = Counter(check.judgement for check in figures.checks)
    display.result("judgement", ", ".join(f"{n_by_judgement[name]} {name}" for name in _STYLES))


def _show_examples(check: Check, display: Display) -> None:
    """Show an example of each of the rows with most faults."""
    faulty = sorted(check.rows, key=lambda row: -row.faults / row.asked)
    for row in faulty[:_ROWS_SHOWN]:
        for example in row.examples[:1]:
            earns = example.reason or f"earns {example.reward:.3g}"
            text = one_line(example.response[-_END:], None)
            display.result(
                check.name,
                f"{row.row}: {row.faults} of {row.asked} {row.fault}; problem "
                f'{example.problem}, answer {example.answer}: "{text}" {earns}',
            )
