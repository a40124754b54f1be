"""From flags, files and --set to a configuration: who may say what."""

import re

import pytest

from rlvr_cli.config import as_yaml, set_layer
from rlvr_cli.config import resolve as resolve_layers
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.program.resolve import (
    load,
    load_again,
    read_flags,
    say_model_settings,
)


def test_only_the_flags_that_were_given_count():
    parameters = {"seed": 0, "limit": None, "skip_bad": False, "samples": 3, "quiet": True}
    assert read_flags(parameters, "eval") == {"seed": 0, "eval.samples": 3}
    assert read_flags(parameters, "train") == {"seed": 0, "rollout.samples": 3}
    assert read_flags({"skip_bad": True}, "sample") == {"data.skip_bad": True}


@pytest.fixture
def model(tmp_path):
    """A model directory with settings of its own."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")

    def says(text: str) -> str:
        (directory / "rlvr.yaml").write_text(text)
        return str(directory)

    return says


def test_each_source_is_stronger_than_the_one_before(tmp_path, model):
    name = model("rollout: {samples: 2, prompts: 2, max_tokens: 2}\noptim: {lr: 0.2}\n")
    file = tmp_path / "c.yaml"
    file.write_text("rollout: {samples: 3, prompts: 3, max_tokens: 3}\n")
    flags = {"model": name, "rollout.samples": 4, "rollout.prompts": 4}
    config = load("train", flags, ["rollout.samples=5"], file)
    rollout = config.rollout
    assert (rollout.samples, rollout.prompts, rollout.max_tokens) == (5, 4, 3)
    assert config.optim.lr == 0.2
    assert load("train", {"model": name}).rollout.max_tokens == 2


@pytest.mark.parametrize(
    ("command", "assignment", "message"),
    [
        ("eval", "optim.lr=1", "only rlvr train reads optim.lr"),
        ("sample", "data.source=x", "only rlvr train and eval read data.source"),
        ("responses", "seed=1", "--responses does not read seed"),
        ("responses", "optim.lr=1", "only rlvr train reads optim.lr"),
    ],
)
def test_a_setting_that_the_command_does_not_read_is_refused(command, assignment, message):
    with pytest.raises(UserError, match=f"^--set {re.escape(assignment)}: {message}$"):
        load(command, {}, [assignment])
    load(command, {}, ["data.answer_format=any"])


def test_a_stranger_says_only_what_a_checkpoint_keeps(model, capsys):
    name = model(
        "rollout: {samples: 2, kv_budget_mb: 9}\nsteps: 3\ndata: {source: x, prompt: boxed}\n"
    )
    config = load("train", {"model": name})
    assert (config.rollout.samples, config.data.prompt) == (2, "boxed")
    default = resolve_layers([])
    assert (config.steps, config.data.source) == (default.steps, default.data.source)
    assert config.rollout.kv_budget_mb == default.rollout.kv_budget_mb != 9
    say_model_settings([name, name, "tiny"], Display())
    message = capsys.readouterr().err
    assert message.count("data.prompt 'boxed', rollout.samples 2") == 1
    assert "not read: steps, rollout.kv_budget_mb, data.source;" in message
    assert len(message.splitlines()) == 2


def test_no_file_is_read_because_a_stranger_names_it(model, tmp_path):
    (tmp_path / "secret").write_text("{problem}")
    with pytest.raises(UserError, match="no other file is read for a model; give it with --prompt"):
        load("eval", {"model": model(f"data: {{prompt: {tmp_path}/secret}}")})
    inline = load("eval", {"model": model("data: {prompt: 'Solve {problem}'}")})
    assert inline.data.prompt == "Solve {problem}"


@pytest.fixture
def run(tmp_path):
    config = resolve_layers(set_layer(["steps=4", "rollout.samples=3", "checkpoint.every=2"]))
    (tmp_path / "config.yaml").write_text(as_yaml(config))
    return tmp_path


def test_a_run_goes_on_as_it_was_and_can_be_made_longer(run):
    assert load_again(run, {}, None).rollout.samples == 3
    longer = load_again(run, {"steps": 9}, ["checkpoint.keep=5", "guards.max_kl=1"])
    assert (longer.steps, longer.checkpoint.every, longer.checkpoint.keep) == (9, 2, 5)


@pytest.mark.parametrize(
    ("flags", "assignments", "options", "named"),
    [
        ({"seed": 1}, None, (), "seed"),
        ({}, ["rollout.samples=3"], (), "rollout.samples"),
        ({"steps": 9}, None, ("--out",), "--out"),
        ({}, ["model=x"], (), "model"),
    ],
)
def test_what_it_computes_cannot_be_changed(run, flags, assignments, options, named):
    with pytest.raises(UserError, match=f"as it was: {named} cannot change, only steps"):
        load_again(run, flags, assignments, options)


def test_no_run_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no config.yaml in it; give the directory of a run"):
        load_again(tmp_path, {}, None)
