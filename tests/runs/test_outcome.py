"""What is said at the end of a run that learned nothing, or little."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from small_groups import made_prompt

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.console.display import Display
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.runs.outcome import say_what_is_next, warn_of_outcome


def trainer(*settings: str, stopped=False, held_out=(), prompts=None):
    config = resolve(set_layer(["data.source=problems.yaml", *settings]))
    prompts = prompts or [made_prompt("1 + 1")]
    return SimpleNamespace(config=config, stopped=stopped, held_out=held_out, prompts=prompts)


def history(*reasons: str | None, mixed_share=0.0):
    verdicts = {"wrong": 2, "no_answer": 1}
    return [
        {"no_update": reason, "verdicts": verdicts, "mixed_share": mixed_share}
        for reason in reasons
    ]


NO_SIGNAL, NOT_FULL = "no signal", "batch not full"


@pytest.mark.parametrize(
    ("reasons", "stopped", "said"),
    [
        ((None, None), False, []),
        ((), False, []),
        ((None, NO_SIGNAL), False, ["1 of 2 steps had no signal"]),
        ((None, NOT_FULL, None), False, ["1 of 3 steps made no update: 10 generation batches"]),
        ((None, NOT_FULL, None), True, []),
        ((NO_SIGNAL,) * 2, False, ["no signal in 2 steps: "]),
        ((NO_SIGNAL,), False, ["no signal in 1 step: "]),
        (
            (NOT_FULL, NO_SIGNAL),
            False,
            ["1 of 2 steps made no update", "1 of 2 steps had no signal"],
        ),
    ],
)
def test_each_kind_of_step_without_an_update_is_said(capsys, reasons, stopped, said):
    settings = ["algorithm.filter.max_gen_batches=10"]
    warn_of_outcome(trainer(*settings, stopped=stopped), history(*reasons), Display())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert line.startswith(f"warning    {words}")


def test_verdicts_of_a_hopeless_run_are_added_up(capsys):
    warn_of_outcome(trainer(), history(NO_SIGNAL, NO_SIGNAL, NO_SIGNAL), Display())
    assert "(6 wrong, 3 no_answer)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mixed_share", "cause"),
    [(0.0, "nothing set right responses apart from"), (0.5, "all responses of a group had one")],
)
def test_equal_rewards_are_told_from_equal_answers(capsys, mixed_share, cause):
    steps = history(NO_SIGNAL, NO_SIGNAL, mixed_share=mixed_share)
    warn_of_outcome(trainer(), steps, Display())
    assert f"no signal in 2 steps: {cause}" in capsys.readouterr().err


def next_lines(capsys, **kwargs) -> list[str]:
    say_what_is_next(trainer(**kwargs), Path("runs/x"), Display())
    return [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]


def test_the_next_commands_can_be_given_as_they_stand(capsys):
    assert next_lines(capsys, held_out=[1], prompts=[made_prompt("it's")]) == [
        "next rlvr eval problems.yaml --model runs/x",
        """rlvr sample --model runs/x 'What is it'"'"'s?'""",
        "rlvr show runs/x",
    ]
    only, _ = next_lines(capsys, prompts=[Prompt(Problem("a", "x" * 61, "1"), "", (), False)])
    assert only == "next rlvr eval PROBLEMS.jsonl --model runs/x"
    assert (
        len(next_lines(capsys, prompts=[Prompt(Problem("a", "x" * 60, "1"), "", (), False)])) == 3
    )
    say_what_is_next(trainer("data.skip_bad=true"), Path("a b" * 60), Display())
    assert f"--model '{'a b' * 60}' --skip-bad\n" in capsys.readouterr().err
    say_what_is_next(trainer("eval.source=gsm8k", held_out=[1]), Path("x"), Display())
    assert "rlvr eval gsm8k --model x" in capsys.readouterr().err
