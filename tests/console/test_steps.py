"""The table of steps: columns by room, the best marked, a long run in some lines."""

import pytest
from small_runs import made_figures

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import COLUMNS, StepLines, fitting

ROW = {
    "step": 7,
    "reward": -0.12345,
    "pass@1": None,
    "response_length": 12.34,
    "entropy": 0.5,
    "sampled_entropy": 0.25,
}


def printed(capsys) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_pipe_gets_every_step_below_one_header(capsys):
    lines = StepLines(Display(), 1000, held_out=True)
    lines.show(made_figures(ROW), False)
    measured = {"step": 8, "held_out_pass@1": 0.9216, "mixed_share": 1.0}
    lines.show(made_figures(ROW | measured), True)
    assert printed(capsys) == [
        "step  reward  pass@1  length  entropy (all)    held out   mixed  cut off  format",
        "   7  -0.123       -    12.3    0.500 0.250           -       -        -       -",
        "   8  -0.123       -    12.3    0.500 0.250  0.922 best    1.00        -       -",
    ]


def test_nothing_when_quiet_and_no_column_that_stays_empty(capsys):
    StepLines(Display(quiet=True), 9, held_out=True).show(made_figures(ROW), False)
    assert printed(capsys) == []
    StepLines(Display(), 9, held_out=False).show(made_figures(ROW), False)
    assert "held out" not in printed(capsys)[0]


def test_each_further_held_out_set_gets_a_column_when_it_is_measured(capsys):
    lines = StepLines(Display(), 9, held_out=True)
    sets = {"held_out_pass@1": 0.5, "held_out_pass@1/aime25": 0.25, "held_out_cons@k/aime25": 0.75}
    lines.show(made_figures({"step": 1, **sets}), True)
    lines.show(made_figures({"step": 2}), False)
    header, first, second = [line.split() for line in printed(capsys)]
    assert header[-5:-1] == ["out", "aime25", "mixed", "cut"]
    assert first[-5:-2] == ["0.500", "best", "0.250"]
    assert second == ["2", *["-"] * 9]


@pytest.mark.parametrize(("width", "last"), [(1, "step"), (20, "pass@1"), (60, "held out")])
def test_columns_are_those_that_fit(width, last):
    assert fitting(COLUMNS, width)[-1].header.strip() == last
    assert fitting(COLUMNS, 200) == list(COLUMNS)


def test_a_screen_gets_some_steps_of_a_long_run_and_the_measured_ones(capsys):
    display = Display()
    display.console._force_terminal = True
    lines = StepLines(display, 180, held_out=True)
    for step in range(1, 10):
        held_out = 0.5 if step == 5 else None
        lines.show(made_figures({"step": step, "held_out_pass@1": held_out}), False)
    first_words = [line.split()[0] for line in printed(capsys)]
    assert [word.removeprefix("\x1b[1m") for word in first_words] == ["step", "3", "5", "6", "9"]
