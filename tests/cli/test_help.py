"""What help says of the flags is what the settings say."""

import os
import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rlvr_cli.__main__ import _run
from rlvr_cli.cli.main import app
from rlvr_cli.config import Config, flags_of
from rlvr_cli.core.settings import settings_of

REPORT = {"against", "pairs", "by", "k", "judge", "format", "responses"}
NO_SETTINGS = {
    "train": {"list_", "resume", "check", "out", "quiet", "config", "set_"}
    | {"from_", "settings", "print_config", "translate", "verbose", "track", "processes"},
    "eval": {"list_", "out", "quiet", "config", "set_", "processes"} | REPORT,
    "sample": {"inputs", "out", "quiet", "config", "set_"},
}
COMMANDS = list(NO_SETTINGS)
FRAGMENT = re.compile(r"(Of|So many|Those|As|None:|\w+ed) ")
"""How a sentence begins that lacks its noun."""


def lines(command: str) -> dict[str, str]:
    """Return the help of each flag and argument."""
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"})
    start = re.search("^(Arguments|Options):$", result.stdout, re.MULTILINE).start()
    texts: dict[str, str] = {}
    for line in result.stdout[start:].splitlines():
        row = re.match(r"  (?:-\w, )?(?:--)?([A-Za-z|-]+)( \S+)?(  .*)?$", line)
        if row:
            name = row[1].lower()
            texts[name] = (row[3] or "").strip()
        elif line.startswith(" "):
            texts[name] += f" {line.strip()}"
    return {name: text.strip() for name, text in texts.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_a_setting_or_known_to_be_none(command):
    parameters = {item.name for item in get_command(app).commands[command].params}
    assert parameters == set(flags_of(command)) | NO_SETTINGS[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_defaults_of_the_model(command):
    help_lines = lines(command)
    checked = 0
    for name, item in flags_of(command).items():
        default = item.default
        text = help_lines[name.replace("_", "-")]
        if command in item.use.default_in:
            assert "[default: " in text
        elif default is None or default is False or default == {}:
            assert "[default" not in text
        else:
            (message,) = re.findall(r"\[default: ([^];]+)[];]", text)
            assert (
                type(default)(message.split() if isinstance(default, tuple) else message) == default
            )
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("command", [*COMMANDS, "export"])
def test_every_option_says_what_it_means(command):
    for name, text in lines(command).items():
        meaning = re.sub(r"^-\w|<[^>]*>|\[[^]]*\]|[A-Z=|]+(?= )", "", text).strip()
        assert len(meaning.split()) > 1, (name, text)
        assert not FRAGMENT.match(meaning), (name, text)


def test_no_meaning_of_a_setting_is_a_fragment():
    meanings = {item.name: item.meaning for item in settings_of(Config)}
    assert len(meanings) > 100
    assert not {name: text for name, text in meanings.items() if FRAGMENT.match(text)}


def test_help_has_the_defaults_of_the_command():
    message = {command: lines(command) for command in COMMANDS}
    for command, samples in (("train", 8), ("eval", 4), ("sample", 1)):
        assert message[command]["samples"].endswith(f"[default: {samples}]")
    assert message["train"]["max-tokens"].endswith("[default: 1024; tiny: 80]")
    assert "up to 32768" in message["eval"]["max-tokens"]
    assert "[default" not in message["train"]["limit"]


@pytest.mark.parametrize("command", get_command(app).commands)
def test_a_value_and_its_default_stand_whole_in_plain_help(command):
    """`HERE[:THERE]` has both brackets, and click's own defaults are there too."""
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"})
    names = re.findall(r"^  (-\S+(?: \S+)*)", result.stdout, re.MULTILINE)
    assert names
    for name in names:
        assert name.count("[") == name.count("]"), name
    assert not re.search(r"[{}<]", result.stdout.partition("\n\nExamples:")[0])
    for option in get_command(app).commands[command].params:
        default = option.default
        if isinstance(option.show_default, str):
            default = f"({option.show_default})"
        if isinstance(default, str | int) and not isinstance(default, bool):
            assert f"[default: {default}]" in " ".join(result.stdout.split()), option.name


@pytest.mark.parametrize("command", get_command(app).commands)
def test_examples_come_first_and_fit_80_columns(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80", "NO_COLOR": "1"})
    text = get_command(app).commands[command].help
    examples = [line.strip() for line in text.splitlines() if line.startswith("  rlvr ")]
    assert examples
    for example in examples:
        assert f" {example}\n" in re.sub(" +\n", "\n", result.stdout), example
    assert result.stdout.index(examples[0]) < result.stdout.index("Options:\n")
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("shell", "environment"),
    [
        ("bash", {"COMP_WORDS": "rlvr train --mo", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "rlvr train --mo"}),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "rlvr train --mo",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
        ),
    ],
)
def test_a_shell_completes_an_option(shell, environment):
    command = [sys.executable, "-m", "rlvr_cli"]
    variables = {**environment, **os.environ, "_RLVR_COMPLETE": f"complete_{shell}"}
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert (result.returncode, "--model" in result.stdout, "--algo" in result.stdout) == (
        0,
        True,
        False,
    )


def test_options_stand_in_the_order_in_which_people_look_for_them():
    names = [*lines("train")]
    wanted = ["algo", "steps", "check", "reward", "lr", "prompts", "teacher"]
    assert [name for name in names if name in wanted] == wanted
    program = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    assert program.index("  sample ") < program.index("  show ") < program.index("  doctor ")


@pytest.mark.parametrize("columns", [80, 120])
def test_help_is_plain_columns_whose_defaults_are_whole(columns):
    result = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": str(columns)})
    texts = result.stdout.splitlines()
    assert max(map(len, texts)) <= min(columns, 100)
    assert set("│╭╰") & set(result.stdout) == set()
    defaults = re.findall(r"\[default: [^]]*\]", result.stdout)
    assert len(defaults) > 10
    assert not any("\n" in default for default in defaults)


def test_the_nearest_option_is_offered_first(capsys):
    assert _run(["train", "--stpes", "3"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("rlvr: error: No such option: --stpes. Did you mean --steps?")
