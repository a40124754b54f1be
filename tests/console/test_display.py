"""What people see: lines in a pipe, their pace, curves, and nothing that a terminal obeys."""

import re
import shlex
from io import StringIO

import pytest
from rich.console import Console
from small_groups import RIGHT, made_rollout

from rlvr_cli.console.display import (
    Display,
    LiveResponse,
    broken_command,
    fail,
    measured,
    show_verdict,
)
from rlvr_cli.console.steps import print_curves

NASTY, SHOWN = "\x1b[2J[bold]x[/]", "\ufffd[2J[bold]x[/]"


def test_quiet_leaves_results_warnings_and_what_was_asked_for(capsys):
    for quiet in (False, True):
        display = Display(quiet)
        display.say("said", NASTY)
        display.result("result", NASTY)
        display.warn(f"{NASTY}\nmore")
        display.table([["a"], ["b"]])
        display.table([["c"]], is_result=True)
        print_curves([], display)
        display.lines([NASTY])
    out, err = capsys.readouterr()
    verbose = [
        f"said       {SHOWN}",
        f"result     {SHOWN}",
        f"warning    {SHOWN} more",
        "",
        "a",
        "b",
        "",
        "",
        "c",
        "",
        "",
        SHOWN,
    ]
    quiet = [f"result     {SHOWN}", f"warning    {SHOWN} more", "", "c", "", SHOWN]
    assert err.splitlines() == verbose + quiet
    assert out == ""


def test_a_table_is_plain_in_a_pipe_and_wraps_in_a_narrow_terminal(capsys):
    display = Display()
    lines = [["name", "value"], ["a long name\x1b", "0.5 [0.1, 0.9]"]]
    display.table(lines)
    display.console._force_terminal, display.console._width = True, 16
    display.table(lines)
    uncolored = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().err)
    rows = [line.rstrip() for line in uncolored.splitlines()]
    header = f"{'name':<12}  {'value':>14}"
    assert rows[:4] == ["", header, "a long name\ufffd  0.5 [0.1, 0.9]", ""]
    assert rows[4:6] == ["", "name       value"]
    assert max(map(len, rows[4:])) <= 16
    assert "".join(line[:8].strip() for line in rows[6:]) == "a longname\ufffd"


def test_in_a_pipe_progress_is_a_line_every_ten_seconds(capsys, clock):
    for quiet, lines in ((False, True), (True, True), (False, False)):
        with Display(quiet).progress("working", 8, 2, lines=lines) as bar:
            for seconds in (9.5, 0.5, 9.0, 1.5):
                clock.now += seconds
                bar.tick("pass@1 [x]")
    assert capsys.readouterr().err.splitlines() == [
        "pass@1 [x]  4/8  0:00:02 left",  # 1 in 0.5 s after the first, 4 are left
        "pass@1 [x]  6/8  0:00:08 left",
    ]


def test_a_silent_display_logs_where_it_is_and_how_to_go_on(capsys, clock):
    display = Display(silent=True)
    for is_terminal in (False, True):
        display.console._force_terminal = is_terminal
        with display.progress("measuring", 8, lines=True) as bar:
            for seconds in (9.5, 1.5):
                clock.now += seconds
                bar.tick()
    display.advise("go on with\nrlvr train --resume run")
    display.result("run", "done")
    line = "measuring  2/8  0:00:09 left"  # 1 in 1.5 s after the first, 6 are left
    assert capsys.readouterr().err.splitlines() == [
        line,
        line,
        "resume     go on with rlvr train --resume run",
    ]


def test_a_bar_has_its_phase_its_share_and_the_time_left(clock):
    def bar_line(width: int = 100) -> str:
        console = Console(width=width, file=StringIO())
        console.print(bar.get_renderable())
        return console.file.getvalue().rstrip()

    display = Display()
    display.console._force_terminal = True
    with display.progress("training\x1b", 14, 2) as bar:
        for _ in range(3):
            clock.now += 20
            bar.tick()
        bar.enter("rollout", 0, 0, 0)
        clock.now += 5
        bar.enter("rollout", 112, 256, 9500)
        line = bar_line()
        assert line.startswith("training\ufffd ━━")
        assert line.endswith(" 5/14 rollout 112/256  1,900 tok/s 03:00")  # 9 steps of 20 s
        assert max(max(map(len, bar_line(width).splitlines())) for width in (8, 20, 40, 60)) <= 60
        bar.enter("update", 1, 4, 0)
        assert bar_line().endswith(" 5/14 update 1/4 03:00")


def test_figures_in_words():
    assert (measured(None), measured(0.4326)) == ("not measured", "0.433")


def test_a_response_is_shown_as_its_characters_become_whole(capsys):
    pieces = {0: "<think>", 1: "a", 2: "\x1b", 3: "</think>", 4: "b", 5: "\ufffd", 6: "é"}

    def decode(ids: list[int]) -> str:
        return "".join(pieces[item] for item in ids).replace("\ufffdé", "é")

    live = LiveResponse(decode, think_open=False)
    styles = []
    console_print = Console.print

    def print_and_note_style(text, end):
        styles.append(str(text.style))
        console_print(live.console, text, end=end)

    live.console.print = print_and_note_style
    for token in pieces:
        live(token)
    assert capsys.readouterr().out == "<think>a\ufffd</think>bé"
    assert styles == ["dim"] * 4 + ["bold"] * 2
    opened = LiveResponse(lambda ids: "x" * len(ids), think_open=True)
    opened.console.print = lambda text, end: styles.append(str(text.style))
    opened(1)
    assert styles[-1] == "dim"


def test_a_verdict_in_a_line(capsys):
    show_verdict(made_rollout(RIGHT, 3))
    show_verdict(made_rollout(None, 9, "length"))
    assert capsys.readouterr().out.splitlines() == [
        "3 tokens  correct: as made",
        "9 tokens  cut off by --max-tokens",
    ]


def test_a_mistake_ends_in_one_line_with_our_name(capsys):
    fail(f"{NASTY}\nlast\n")
    assert capsys.readouterr().err == f"{SHOWN}\nrlvr: error: last\n"


@pytest.mark.parametrize("width", [None, 40, 80, 120])
def test_a_command_that_is_broken_is_the_same_to_a_shell(width):
    """Each line but the last ends in a backslash, and no word is broken."""
    words = ["rlvr", "sample", "--model", "runs/a run", "Start at 3, keep last: (a) +1", "-n", "3"]
    broken = broken_command(words, width, 11)
    lines = broken.split("\n")
    assert shlex.split(broken.replace("\\\n", " ")) == words
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert width is None or max(11 + len(line.lstrip()) for line in lines) <= max(width, 50)
    assert (len(lines) > 1) == (width in (40, 80))
