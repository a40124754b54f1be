"""Runs and results on the screen."""

from small_runs import (
    NASTY,
    made_metrics,
    made_result,
    made_row,
    made_run,
    write_rows,
)

from rlvr_cli.console.display import Display
from rlvr_cli.show.screen import (
    follow,
    pass_at_1_table,
    settings_table,
    show_responses,
    show_results,
    show_runs,
    telling_digits,
    thought_dimmed,
)
from rlvr_cli.show.source import open_source

OUT = {"stderr": False}


def test_runs_beside_one_another(tmp_path, capsys):
    a = open_source(made_run(tmp_path / "a"))
    b = open_source(made_run(tmp_path / "b", "optim.lr=0.5", steps=3, held_out="wrong"))
    show_runs([a, b], Display(**OUT))
    output = capsys.readouterr().out
    assert f"run 2      {tmp_path / 'b'}: dapo on problems.yaml, 3 of 3 steps" in output
    assert "pass@1 (as sampled)" in output
    assert settings_table([a, b])[1:] == [["steps", "2", "3"], ["optim.lr", "1e-06", "0.5"]]
    assert settings_table([a, a])[1] == ["none", "", ""]
    long = [open_source(made_run(tmp_path / end, f"model={'m' * 40}{end}")) for end in "cd"]
    assert [line[0] for line in settings_table(long)[1:]] == ["model"]  # longer than a cell


def test_steps_that_cannot_be_read_are_counted(tmp_path, capfd):
    run = open_source(made_run(tmp_path / "a", steps=4))
    write_rows(run.path / "metrics.jsonl", [made_metrics(step) for step in (1, 4)])
    show_runs([run], Display())
    assert f"{run.path}/metrics.jsonl: 2 steps cannot be read" in capfd.readouterr().err


def test_pass_at_1_with_interval_and_paired_p(tmp_path):
    a = open_source(made_run(tmp_path / "a"))
    b = open_source(made_run(tmp_path / "b", held_out="wrong"))
    _, first, second = pass_at_1_table([a, b])
    assert first[1:3] == ["6", "0.000 [0.000, 0.390]"]
    assert first[3:] == ["1.000 [0.610, 1.000] after training", "", ""]
    assert second[-2:] == ["-1.000 [-1.000, -0.081]", "0.031"]  # 2 of 2^6 signs are as far
    write_rows(b.path / "rollouts" / "held-out-after.jsonl", [made_row("other", 0, "correct")])
    assert pass_at_1_table([a, b])[2][-2:] == ["no problem in common", "-"]
    late = [made_row("h0", 0, "wrong"), made_row("x", 0, "timeout"), made_row("y", 0, "correct")]
    write_rows(a.path / "rollouts" / "held-out-after.jsonl", late)
    line = pass_at_1_table([b, a])[2]
    assert line[1] == "2"  # the timeout has no figure
    rows = [made_row("h0", 0, "correct"), made_row("other", 0, "correct")]
    write_rows(b.path / "rollouts" / "held-out-after.jsonl", rows)
    assert pass_at_1_table([b, a])[2][-2].startswith("-1.000 [")
    assert pass_at_1_table([b, a])[2][-2].endswith("] of 1")


def test_held_out_sets_are_compared_each_with_itself(tmp_path, capsys):
    runs = []
    for name, right in (("a", 2), ("b", 3)):
        run = made_run(tmp_path / name, "eval.source=[one,two]")
        rows = []
        for set_name, size in (("one", 4), ("two", 2)):
            for n in range(size):
                verdict = "correct" if n < right else "wrong"
                rows.append(made_row(f"h{n}", 0, verdict, problem_set=set_name))
        write_rows(run / "rollouts" / "held-out-after.jsonl", rows)
        metrics = made_metrics(1)
        metrics["held_out_pass@1"] = right / 4
        metrics["held_out_pass@1/two"] = 1.0
        write_rows(run / "metrics.jsonl", [metrics])
        runs.append(open_source(run))
    actual = pass_at_1_table(runs)[1:]
    assert [(line[0].rpartition(": ")[2], line[1], line[3][:5]) for line in actual] == [
        ("one", "4", "0.500"),
        ("two", "2", "1.000"),
        ("one", "4", "0.750"),
        ("two", "2", "1.000"),
    ]
    assert [line[4][:6] for line in actual[2:]] == ["+0.250", "+0.000"]
    show_runs(runs, Display(**OUT))
    assert "held out 0.500 at step 1, held out two 1.000 at step 1" in capsys.readouterr().out


def test_the_curves_of_a_run_begin_before_its_first_step_and_end_after_its_last(tmp_path):
    run = open_source(made_run(tmp_path / "a"))
    rows = [made_row(f"h{n}", 0, "correct" if n < 3 else "wrong") for n in range(4)]
    write_rows(run.path / "rollouts" / "held-out-before.jsonl", rows[2:])
    write_rows(run.path / "rollouts" / "held-out-after.jsonl", rows)
    measured = {figures.step: figures.measured for figures in run.curves}
    assert (measured[0], measured[run.metrics[-1].step]) == (0.5, 0.75)


def test_a_run_that_measured_nothing_since_its_first_step_says_so(tmp_path):
    run = open_source(made_run(tmp_path / "a"))
    (run.path / "rollouts" / "held-out-after.jsonl").unlink()
    header, line = pass_at_1_table([run])
    assert header[2:] == ["before training", "measured last"]
    assert line[1:] == ["6", "0.000 [0.000, 0.390]", "-"]
    measured = open_source(made_run(tmp_path / "b"))
    assert pass_at_1_table([measured, run])[2][-2:] == ["no problem in common", "-"]
    assert pass_at_1_table([run, measured])[2][3] == "1.000 [0.610, 1.000] after training"


def test_rewards_have_the_digits_that_tell_them_apart(tmp_path, capsys):
    assert telling_digits([1.0, -1.0]) == 2
    assert telling_digits([-0.834, -0.831, -0.831]) == 3
    assert telling_digits([0.1 + 0.2, 0.3]) == 2  # but for rounding they are one
    assert telling_digits([]) == 2
    run = made_run(tmp_path / "run", "algorithm.filter=none")
    rows = [made_row("a", n, "wrong", reward=-0.83 - n / 1000) for n in range(3)]
    write_rows(run / "rollouts" / "step-000001.jsonl", rows)
    show_responses(open_source(run), 1, 1, None, None, Display(**OUT))
    output = capsys.readouterr().out
    assert "reward -0.83, " not in output
    for reward in ("-0.830", "-0.831", "-0.832"):
        assert f"reward {reward}, " in output


def test_one_problem_and_its_responses(tmp_path, capsys):
    run = open_source(made_run(tmp_path / "run"))
    show_responses(run, 2, 1, None, None, Display(**OUT))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "step 2, group 1: aa, gold 7; 1 of 4 responses right, trained"
    assert lines[3] == (
        "sample 0  correct: 0 equals the gold answer 7, reward +1.00, advantage +1.500, 10 tokens"
    )
    show_responses(run, None, None, "b", "wrong", Display(**OUT))
    output = capsys.readouterr().out
    assert output.count("sample ") == 8
    assert "dropped, all wrong" in output
    assert NASTY not in output
    assert not set("\x1b\x07\u202e") & set(output)
    assert "<script>alert(1)</script>" in output


def test_a_thought_is_dim_and_a_megabyte_is_cut(tmp_path, capsys):
    text = thought_dimmed("<think>a</think>b")
    assert [(text.plain[item.start : item.end], item.style) for item in text.spans] == [
        ("<think>a</think>", "dim")
    ]
    path = tmp_path / "rows.jsonl"
    write_rows(path, [made_row("a", 0, "wrong", response="x" * 1_000_000)])
    show_responses(open_source(path), None, None, None, "wrong", Display(**OUT))
    output = capsys.readouterr().out
    assert "(1,000,000 characters in all)" in output
    assert len(output) < 30_000


def test_a_result_has_its_wrong_ones_first(tmp_path, capsys):
    show_results([open_source(made_result(tmp_path / "r"))], ["level"], Display(**OUT))
    output = capsys.readouterr().out
    after = output.partition("wrong ones first")[2]
    assert [line.split()[0] for line in after.splitlines()[1:4]] == ["b", "ccc", "aa"]
    assert "0.500 [" in output
    assert output.splitlines()[1].split()[-2:] == ["problems", "measured"]
    assert [line.split()[:2] for line in output.partition("level ")[2].splitlines()[1:4]] == [
        ["1", "1"],
        ["2", "1"],
        ["3", "1"],
    ]


def test_following_ends_with_the_run_and_shows_each_step_once(tmp_path, capsys, monkeypatch):
    run = open_source(made_run(tmp_path / "run"))
    (run.path / "summary.json").unlink()

    def another(seconds: float) -> None:
        with (run.path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 9, "half a')
        write_rows(run.path / "metrics.jsonl", [made_metrics(n) for n in range(1, 4)])
        (run.path / "summary.json").write_text("{}")

    monkeypatch.setattr("rlvr_cli.show.screen.time.sleep", another)
    follow([run], Display(**OUT))
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert first_words == ["step", "1", "2", "3"]


def test_following_in_a_terminal_ends_with_the_last_measurement(tmp_path, monkeypatch):
    """It is written after the last step, when the metrics grow no more."""
    run = open_source(made_run(tmp_path / "run"))
    (run.path / "summary.json").unlink()
    after = run.path / "rollouts" / "held-out-after.jsonl"
    measured = after.read_text()
    figures = []
    after.unlink()

    def end(seconds: float) -> None:
        after.write_text(measured)
        (run.path / "summary.json").write_text("{}")

    monkeypatch.setattr("rlvr_cli.show.screen.time.sleep", end)
    monkeypatch.setattr(
        "rlvr_cli.show.screen.show_runs",
        lambda runs, display: figures.append(pass_at_1_table(runs)[1][-1]),
    )
    display = Display(**OUT)
    monkeypatch.setattr(display.console, "_force_terminal", True)
    follow([run], display)
    assert figures == ["-", "1.000 [0.610, 1.000] after training"]
