"""Options that commands share are the same everywhere, and every one is used."""

import inspect
from typing import Annotated, get_args, get_origin

import pytest
from typer.main import get_command

from rlvr_cli.cli import options
from rlvr_cli.cli.main import app

COMMANDS = get_command(app).commands
SHARED = {
    name: get_args(value) for name, value in vars(options).items() if get_origin(value) is Annotated
}


def uses(info: object) -> dict[str, tuple]:
    """The parameters of all commands that are declared by this option: flags and panel."""
    actual = {}
    for registered in app.registered_commands:
        name = registered.name or registered.callback.__name__
        for parameter, declared in inspect.signature(registered.callback).parameters.items():
            if info in get_args(declared.annotation)[1:]:
                item = parameters(name)[parameter]
                actual[f"{name}.{parameter}"] = tuple(item.opts), item.rich_help_panel
    return actual


@pytest.mark.parametrize("name", SHARED)
def test_an_option_has_one_name_and_one_place(name):
    _, info = SHARED[name]
    actual = uses(info)
    assert actual, "no command uses it"
    assert len(set(actual.values())) == 1, actual
    ((_, panel),) = set(actual.values())
    assert panel == info.rich_help_panel


def test_short_names_and_panels():
    flags = {name: set(item.opts) for name, item in parameters("eval").items()}
    assert flags["samples"] == {"-n", "--samples"}
    assert flags["quiet"] == {"-q", "--quiet"}
    panels = {info.rich_help_panel for _, info in SHARED.values()} - {None}
    assert panels <= {*options.PANELS}
    actual_panels = {
        item.rich_help_panel for item in parameters("train").values() if item.opts[0] != "data"
    }
    assert actual_panels <= {None, *options.PANELS}


@pytest.mark.parametrize("name", ["seed", "samples", "temperature", "top_p", "skip_bad", "quiet"])
def test_commands_that_sample_have_the_same_option(name):
    train, evaluate, sample = (parameters(command)[name] for command in ("train", "eval", "sample"))
    for command_option in (evaluate, sample):
        assert (command_option.opts, command_option.is_flag) == (train.opts, train.is_flag)


def parameters(command: str) -> dict:
    return {item.name: item for item in COMMANDS[command].params}
