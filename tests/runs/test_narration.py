"""What several commands say, and what is said of a run that learned little."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_groups import LATE, RIGHT, made_group, made_prompt
from small_runs import made_figures

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.console.display import Display
from rlvr_cli.core.step_figures import Rates, Seconds
from rlvr_cli.core.types import Problem, Prompt, SamplingParams
from rlvr_cli.data.problems import warn_of_bad_golds
from rlvr_cli.evaluation.figures import judged_problems
from rlvr_cli.evaluation.measure import summarize
from rlvr_cli.runs.narration import (
    say_throughput,
    say_what_is_next,
    warn_of_outcome,
    warn_of_unjudged,
)
from rlvr_cli.setup.prompts import say_template
from rlvr_cli.training.throughput import RunThroughput, TokenCounts
from verifiers import Verdict

FIGURES = RunThroughput(
    TokenCounts(0, 0, 0, 0),
    Seconds(),
    Rates(tokens_per_second_rollout=1234.5, signal_share=0.256),
    mfu=0.5,
    mismatch_max=0.00012,
    memory_peak_gib=1.234,
)


def printed(capsys) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_the_speed_of_a_run_in_a_line(capsys):
    line = (
        "speed rollout 1,234 tokens/s, 26% of the sampled tokens gave a signal, "
        "peak memory 1.23 GiB"
    )
    say_throughput(FIGURES, Display())
    assert printed(capsys) == line
    say_throughput(FIGURES, Display(verbose=True))
    assert printed(capsys) == (
        f"{line}, the update at 50.0% of the GPU's peak (mfu), "
        "engine and trainer differ by at most 1.2e-04 nats a token"
    )
    nothing = dict.fromkeys(("mfu", "mismatch_max", "memory_peak_gib"))
    say_throughput(replace(FIGURES, rates=Rates(), **nothing), Display())
    assert printed(capsys) == ""


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ((RIGHT, LATE, Verdict.UNPARSEABLE_GOLD), "2 responses could not be judged"),
        ((RIGHT, LATE), "1 response could not be judged"),
        ((RIGHT, Verdict.WRONG), ""),
    ],
)
def test_what_pass_at_1_leaves_out(capsys, verdicts, words):
    problems = judged_problems(made_group("a", *verdicts).rollouts)
    warn_of_unjudged(summarize(problems, SamplingParams(1, 9)), Display(quiet=True))
    actual = printed(capsys)
    assert words in actual
    assert bool(actual) is bool(words)


def session(bad=(), chat_template="x"):
    verifier = SimpleNamespace(check_gold=lambda gold: gold not in bad)
    tokenizer = SimpleNamespace(chat_template=chat_template)
    return SimpleNamespace(
        sampler=SimpleNamespace(verifier=verifier), policy=SimpleNamespace(tokenizer=tokenizer)
    )


@pytest.mark.parametrize(("count", "rest"), [(5, None), (6, "… and 1 more gold answers")])
def test_the_first_five_bad_golds_are_named(capsys, count, rest):
    prompts = [made_prompt(f"{n}" * 70, "?" * 70) for n in range(count)] + [made_prompt("good")]
    warn_of_bad_golds([p.problem for p in prompts], session({"?" * 70}).sampler.verifier, Display())
    lines = capsys.readouterr().err.splitlines()
    named = [
        f"warning    problem {f'{n}' * 60}: the gold answer '{'?' * 60}' cannot" for n in range(5)
    ]
    assert all(line.startswith(start) for line, start in zip(lines, named, strict=False))
    assert lines[5:] == ([f"warning    {rest}"] if rest else [])


def test_a_template_that_is_missing_or_opens_the_thought(capsys):
    prompt = made_prompt()
    open_one = Prompt(prompt.problem, prompt.text, prompt.token_ids, think_open=True)
    for given, template, words in (
        ([prompt], None, "warning the tokenizer has no chat template"),
        ([open_one], "x", "template opens <think> by itself"),
        ([prompt], "x", ""),
        ([], "x", ""),
    ):
        say_template(given, session(chat_template=template), Display())
        actual = printed(capsys)
        assert actual.startswith(words)
        assert bool(actual) is bool(words)


def trainer(*settings: str, stopped=False, held_out=(), prompts=None):
    config = resolve(set_layer(["data.source=problems.yaml", *settings]))
    prompts = prompts or [made_prompt("1 + 1")]
    return SimpleNamespace(config=config, is_stopped=stopped, held_out=held_out, prompts=prompts)


def history(*reasons: str | None, mixed_share=0.0):
    verdicts = {"wrong": 2, "no_answer": 1}
    return [
        made_figures({"no_update": reason, "verdicts": verdicts, "mixed_share": mixed_share})
        for reason in reasons
    ]


NO_SIGNAL, NOT_FULL = "no signal", "batch not full"


@pytest.mark.parametrize(
    ("reasons", "stopped", "printed"),
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
def test_each_kind_of_step_without_an_update_is_said(capsys, reasons, stopped, printed):
    settings = ["algorithm.filter.max_gen_batches=10"]
    warn_of_outcome(trainer(*settings, stopped=stopped), history(*reasons), Display())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(printed)
    for line, words in zip(lines, printed, strict=True):
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
