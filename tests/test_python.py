"""Training from Python: the command's run, by the function that the command calls."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from conftest import jsonl
from forked import forked
from small_runs import repeatable

import rlvr_cli
from rlvr_cli import Run, RunStoppedError, UserError, evaluate, sample, train
from rlvr_cli.core.signals import NO_SIGNALS
from rlvr_cli.data import chains

SMALL = {"steps": 2, "prompts": 4, "n": 4, "max_tokens": 40, "seed": 1, "set": {"optim.lr": 1e-3}}
SMALL_FLAGS = (
    *("--steps", "2", "--prompts", "4", "-n", "4", "--max-tokens", "40", "--seed", "1"),
    *("--set", "optim.lr=0.001"),
)
ROWS = list(chains.problems("train", 8, seed=chains.SEED))


def same_run(one: Path, other: Path, settings: str = "config.yaml") -> bool:
    """Whether two runs have the same settings, responses, tokens and weights, and the same metrics
    but for what was measured in seconds and bytes."""
    patterns = (settings, "problems.jsonl", "rollouts/*", "checkpoints/*/*.safetensors")
    paths = [
        [path.relative_to(run) for pattern in patterns for path in sorted(run.glob(pattern))]
        for run in (one, other)
    ]
    assert paths[0] == paths[1]
    assert any(path.name == "model.safetensors" for path in paths[0])
    figures = [list(map(repeatable, Run(run).metrics)) for run in (one, other)]
    assert [row["no_update"] for row in figures[0]] == [None, None]
    contents = [(one / path).read_bytes() == (other / path).read_bytes() for path in paths[0]]
    return all(contents) and figures[0] == figures[1]


@pytest.fixture(scope="module")
def commands_run(tmp_path_factory) -> Path:
    """The run of `rlvr train -`."""
    place = tmp_path_factory.mktemp("command")
    result = forked(["train", "-", *SMALL_FLAGS, "--out", "run"], place, jsonl(*ROWS).encode())
    assert result.rc == 0, result.err
    return place / "run"


def test_rows_train_as_the_command_does_twice_in_a_process_and_in_a_thread(
    commands_run, tmp_path, capfd
):
    heard = []
    run = train(
        (row for row in ROWS),
        out=tmp_path / "one",
        on_step=lambda metrics, groups: heard.append((metrics, groups)),
        **SMALL,
    )
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(train(ROWS, out=str(tmp_path / "two"), **SMALL))
    )
    thread.start()
    thread.join()
    assert same_run(run.directory, commands_run)
    assert same_run(runs[0].directory, commands_run)
    assert capfd.readouterr().out == ""
    assert [metrics for metrics, _ in heard] == run.metrics
    for number, (_, groups) in enumerate(heard, 1):
        lines = (run.directory / f"rollouts/step-{number:06d}.jsonl").read_text().splitlines()
        assert [row for group in groups for row in group] == list(map(json.loads, lines))
        assert {len(group) for group in groups} == {4}
    assert run.before is None  # rows have no test split


def test_a_run_stops_with_what_its_listener_raised_and_goes_on_from_there(commands_run, tmp_path):
    class EnoughError(Exception):
        pass

    def stop(metrics, groups):
        raise EnoughError

    with pytest.raises(EnoughError):
        train(ROWS, out=tmp_path / "run", on_step=stop, **SMALL)
    assert len(Run(tmp_path / "run").metrics) == 1
    heard = []
    run = train(resume=tmp_path / "run", on_step=lambda metrics, _: heard.append(metrics["step"]))
    assert heard == [2]
    assert same_run(run.directory, commands_run)


def test_a_run_that_a_listener_stops_is_saved_whatever_it_raises(tmp_path, capfd):
    def stop(metrics, groups):
        raise RunStoppedError("enough")

    def press(metrics, groups):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(RunStoppedError, match="enough"):
        train(ROWS, out=tmp_path / "run", on_step=stop, **SMALL)
    assert (tmp_path / "run" / "checkpoints" / "step-1").is_dir()
    with pytest.raises(KeyboardInterrupt):
        train(resume=tmp_path / "run", steps=3, on_step=press)
    line = f"resume     saved up to step 2; go on with rlvr train --resume {tmp_path / 'run'}"
    assert line in capfd.readouterr().err.splitlines()


def test_a_function_object_gives_its_file_s_run_and_is_given_again_to_a_resume(tmp_path):
    def brevity(problem, response):
        return len(problem["id"]) - len(response) / 100

    code = textwrap.dedent(inspect.getsource(brevity))
    (tmp_path / "own.py").write_text(code)
    flags = ("--reward", "math", "--reward", "own.py:brevity:0.5", "--out", "theirs")
    one = {"set": {**SMALL["set"], "reward.workers": 1}}
    flags += ("--set", "reward.workers=1")
    result = forked(["train", "-", *SMALL_FLAGS, *flags], tmp_path, jsonl(*ROWS).encode())
    assert result.rc == 0, result.err

    def leave(metrics, groups):
        sys.exit(5)

    mine = tmp_path / "mine"
    rewards = ["math", (brevity, 0.5)]
    with pytest.raises(SystemExit, match="5"):
        train(ROWS, reward=rewards, out=mine, on_step=leave, **{**SMALL, **one})
    assert (mine / "checkpoints" / "step-1").is_dir()
    line = "its rewards are function objects; go on from Python"
    result = forked(["train", "--resume", "mine"], tmp_path)
    assert (result.rc, result.err.count("\n")) == (2, 1)
    assert line in result.err
    flags = ("--reward", "math", "--reward", "function brevity:0.5")
    result = forked(["train", "--resume", "mine", *flags], tmp_path)
    assert (result.rc, result.err.count("\n")) == (2, 1)
    assert (
        "--reward function brevity: a function object, which only a call from Python" in result.err
    )
    with pytest.raises(UserError, match=line):
        train(resume=mine)
    original = brevity

    def brevity(problem, response):  # the name with another text
        return len(response)

    with pytest.raises(UserError, match="not the source that the run began with"):
        train(resume=mine, reward=["math", (brevity, 0.5)])
    with pytest.raises(UserError, match=line):  # without its weight
        train(resume=mine, reward=["math", original])
    train(resume=mine, reward=["math", (original, 0.5)])
    assert same_run(mine, tmp_path / "theirs", settings="problems.jsonl")
    texts = [(run / "config.yaml").read_text().splitlines() for run in (mine, tmp_path / "theirs")]
    differing = [pair for pair in zip(*texts, strict=True) if len(set(pair)) > 1]
    hashed = inspect.getsource(original)
    assert differing == [
        ("  - function brevity:0.5", "  - own.py:brevity:0.5"),
        (
            f"    brevity: {sha256(hashed.encode()).hexdigest()}",
            f"    brevity: {sha256(code.encode()).hexdigest()}",
        ),
    ]


def test_a_run_says_which_rewards_run_in_this_process_and_where_signals_do_not_work(capfd):
    names = {}
    exec("def untraced(problem, response): return 1.0", names)
    rewards = [names["untraced"], "format:0.5"]

    def check():
        train(reward=rewards, check=True, limit=4, show=True, max_tokens=8)

    start = "1 x untraced (its text is not known, runs in this process, without limits"
    check()
    assert f"{start}) + 0.5 x format" in " ".join(capfd.readouterr().err.split())
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    assert f"{start}, {NO_SIGNALS}) + 0.5 x format" in " ".join(capfd.readouterr().err.split())


def test_rows_are_read_up_to_the_limit_only():
    def endless():
        while True:
            yield from ROWS

    torch.set_num_threads(2)
    rows = sample(endless(), limit=3, max_tokens=1)
    assert torch.get_num_threads() == 2  # as the caller had it: the built-in policy takes one
    torch.set_num_threads(1)
    assert [row["id"] for row in rows] == [row["id"] for row in ROWS[:3]]


def test_a_check_makes_no_run(tmp_path):
    run = train(check=True, limit=8, **SMALL, out=tmp_path / "run")
    assert not run.directory.exists()


def test_the_script_of_the_page_runs(tmp_path):
    page = Path(rlvr_cli.__file__).parents[1] / "docs" / "python.md"
    (script,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    result = forked((), tmp_path, program=lambda: exec(script, {"__name__": "__main__"}))
    assert result.rc == 0, result.err
    steps = result.out.splitlines()
    assert [line.split()[0] for line in steps if line[:2] in ("1 ", "2 ")] == ["1", "2"]
    assert "runs/mine [" in result.out
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()


def test_a_run_is_evaluated_and_sampled_as_by_the_command(commands_run, tmp_path, capfd):
    run = Run(commands_run)
    report = run.evaluate(ROWS, n=2, k=[1, 2], by="level", out=tmp_path / "mine", max_tokens=16)
    rows = run.sample(["2 + 2?", "3 + 3?"], n=2, max_tokens=8)
    judged = run.sample(iter(ROWS[:1]), max_tokens=8)
    assert capfd.readouterr().out == ""
    model = ("--model", str(commands_run))
    options = ("-n", "2", "--k", "1,2", "--by", "level", "--max-tokens", "16")
    completed = forked(
        ["eval", "-", *model, *options, "--out", "report"], tmp_path, jsonl(*ROWS).encode()
    )
    assert completed.rc == 0, completed.err
    reference = json.loads((tmp_path / "report" / "report.json").read_text())
    mine = json.loads((tmp_path / "mine" / "report.json").read_text())
    (result,) = report["results"]
    assert len(result.pop("rows")) == 16
    assert mine["results"] == reference["results"] == json.loads(json.dumps([result]))
    assert mine["command"] is None
    printed = run.evaluate(ROWS, n=1, max_tokens=8, format="csv")
    assert printed["command"] is None  # the process is the caller's, whose arguments are not ours
    assert capfd.readouterr().out.startswith("model,")
    for name in ("mine", "report"):
        (file,) = (tmp_path / name / "responses").iterdir()
        assert len(file.read_text().splitlines()) == 16
    command = ["sample", *model, "-n", "2", "--max-tokens", "8", "2 + 2?", "3 + 3?"]
    completed = forked(command, tmp_path)
    assert rows == [json.loads(line) for line in completed.out.splitlines()]
    assert [row["sample"] for row in rows] == [0, 1, 0, 1]
    assert [row["answer"] for row in judged] == [ROWS[0]["answer"]]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"learning_rate": 1e-3}, "learning_rate is --lr here"),
        ({"shoe": 1}, "shoe is no flag of rlvr train"),
        ({"lr": "fast"}, "--lr fast: "),
        ({"set": {"optim.lr": "fast"}}, "--set optim.lr=fast: optim.lr must be a number"),
        ({"set": {"optim.shoe": 1}}, "--set optim.shoe=1: optim.shoe is not a setting"),
        ({"algo": "shoe"}, "--algo shoe: no such algorithm"),
        ({"data": [{"answer": "1"}]}, "stdin:1: "),
        ({"data": []}, "stdin: no problems in it"),
        ({"data": [{"problem": "2?", "answer": object()}]}, "stdin:1: field answer is neither"),
        ({"reward": [3]}, "--reward 3: reward.functions must be a text"),
        ({"reward": [(len, "x")]}, "--reward function len:x: a function object, which only"),
        ({"reward": [len]}, "--reward len: a reward takes (problem, response) or"),
        (
            {"reward": [(len, 1), (len, 2)]},
            "--reward function len:1 function len:2: reward.functions",
        ),
        ({"processes": 2}, "processes: several processes need the command, rlvr train --processes"),
        ({"data": "no.jsonl"}, "no.jsonl: "),
    ],
)
def test_a_mistake_is_the_commands_line_as_an_exception(settings, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        train(**{"limit": 8, **settings})
    assert str(caught.value).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_names_are_imported_when_they_are_used():
    code = (
        "import sys, rlvr_cli; rlvr_cli.UserError; "
        "print({'torch', 'typer', 'pydantic'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"
    assert {"train", "Run", "__version__"} <= set(dir(rlvr_cli))
    with pytest.raises(AttributeError, match="no attribute 'shoe'"):
        rlvr_cli.shoe  # noqa: B018


MADE = [
    {"id": "a", "problem": "1 + 1", "answer": "2", "response": "2"},
    {"id": "a", "problem": "1 + 1", "answer": "2", "response": "3"},
    {"id": "b", "problem": "2 + 2", "answer": "4", "response": ["4", "4"]},
]


def test_responses_are_judged_from_a_file_from_rows_and_by_the_command(rlvr, tmp_path):
    path = tmp_path / "made.jsonl"
    path.write_text(jsonl(*MADE))
    (of_file,) = evaluate(responses=[path])["results"]
    (of_rows,) = evaluate(responses=MADE)["results"]
    assert of_file["pass@k"]["1"]["value"] == of_rows["pass@k"]["1"]["value"] == 0.75
    assert [row["verdict"] for row in of_rows["rows"]] == ["correct", "wrong", "correct", "correct"]
    assert [row["sample"] for row in of_rows["rows"]] == [0, 1, 0, 1]
    printed = rlvr("eval", "--responses", "made.jsonl").stdout.splitlines()
    assert [json.loads(line) for line in printed] == of_file["rows"]
    with pytest.raises(UserError, match="leave --model out"):
        evaluate(responses=MADE, model="tiny")
    with pytest.raises(UserError, match="rows:1: no field answer"):
        evaluate(responses=[{"problem": "1 + 1", "response": "2"}])
