"""The pages: links resolve, commands are known and the tutorial's numbers are the functions'."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from conftest import invoke
from typer.main import get_command

import rlvr_cli
import verifiers
from rlvr_cli.cli.main import app
from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.settings import ENTRY_POINTS
from rlvr_cli.data.rows import ROW_VERSION
from rlvr_cli.rewards.functions import GROUP

ROOT = Path(rlvr_cli.__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *(ROOT / name / "README.md" for name in ("constraints", "verifiers", "examples/rlvr-example")),
]
OTHERS = (
    "cat echo jq less source git cd pip pipx uvx torchrun pytest pre-commit .ci/run rlvr-verify PY"
)

RUN = {
    "rlvr doctor",
    "rlvr eval --list",
    "rlvr train --list",
    "rlvr train --settings optim",
    'rlvr sample "Start at 7, keep last digits: (a) +5 (b) *3" -n 3',
    """echo '{"answer": "0.5", "response": "So the answer is **1/2**."}' | """
    "rlvr-verify --workers 2",
    """echo '{"problem": "1/2 + 1/2?", "answer": 1, "response": "It is 1."}' | """
    "rlvr eval --responses -",
}
"""Commands of the pages and of help that end in seconds, without a file."""


def shell_lines(page: Path) -> list[str]:
    """The command lines of the shell blocks of a page, without comments and prompts."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    lines = [re.sub(r"\s+#\s.*$|^#.*$", "", line).strip() for line in lines]
    return [line for line in lines if line]


def help_lines() -> list[str]:
    """The examples in the help of all commands, which are its indented lines."""
    group: click.Group = get_command(app)
    lines = [line for command in group.commands.values() for line in str(command.help).splitlines()]
    return [line.strip() for line in lines if line.startswith("  ")]


def commands(line: str) -> list[list[str]]:
    """The commands of a line, each as its words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    actual: list[list[str]] = [[]]
    for token in lexer:
        if token in ("|", "&&", "||", ";"):
            actual.append([])
        else:
            actual[-1].append(token)
    cut = (next((n for n, word in enumerate(item) if word in "<>>"), None) for item in actual)
    return [item[:end] for item, end in zip(actual, cut, strict=True)]


def check_rlvr(words: list[str]) -> None:
    """Raise if the command line knows no such option or setting."""
    name, *args = words
    group: click.Group = get_command(app)
    assert name in group.commands, f"rlvr {name}"
    parsed = group.commands[name].make_context(name, list(args)).params
    begins = {key: parsed.get(key) for key in ("resume", "from_", "settings", "list_")}
    if name == "train" and not any(begins.values()):
        if "--processes" in args:
            at = args.index("--processes")
            del args[at : at + 2]
        result = invoke("train", *args, "--print-config")
        assert result.exit_code == 0, result.stderr
    else:
        resolve(set_layer(parsed.get("set_") or []))


def check_python(words: list[str]) -> None:
    script = ROOT / words[0]
    if words[0] == "-m" or not words[0].startswith("benchmarks/"):
        return
    for flag in (word for word in words[1:] if word.startswith("--") and word != "--"):
        assert f'"{flag}"' in script.read_text() or "parse_known_args" in script.read_text(), flag


@pytest.fixture
def a_directory_of_runs(tmp_path, monkeypatch):
    """The files that the commands of the pages name."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "my_grpo.yaml").write_text("base: grpo\nkl: none\n")
    for name in ("RUN", "A", "sft"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("a_directory_of_runs")
def test_every_example_in_the_help_of_a_command_is_known():
    assert len(help_lines()) > 20
    for line in help_lines():
        for words in commands(line):
            assert words[0] in ("rlvr", *OTHERS.split()), line
            if words[0] == "rlvr":
                check_rlvr(words[1:])


@pytest.mark.usefixtures("a_directory_of_runs")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_known(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in shell_lines(page):
        for words in commands(line):
            head = words[0]
            if head == "rlvr":
                check_rlvr(words[1:])
            elif head == "make":
                assert words[1] in targets, line
            elif head.startswith("python"):
                check_python(words[1:])
            else:
                assert head in OTHERS.split(), line


@pytest.mark.slow
def test_the_quick_commands_run(tmp_path):
    there = {*help_lines(), *(line for page in PAGES for line in shell_lines(page))}
    assert there >= RUN
    as_here = f'rlvr() {{ {sys.executable} -m rlvr_cli "$@"; }}; '
    as_here += f'rlvr-verify() {{ {sys.executable} -P -m verifiers "$@"; }}; set -eo pipefail'
    for line in sorted(RUN):
        result = subprocess.run(
            ["bash", "-c", f"{as_here}; {line}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )
        assert result.returncode == 0, (line, result.stderr)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {item.strip().replace(" ", "-") for item in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_anchor_resolves(page):
    for target in re.findall(r"(?:\]\(|<a href=\")([^)\"\s]+)[)\"]", page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        actual = page.parent / path if path else page
        assert actual.exists(), target
        assert not anchor or anchor in anchors(actual), target


def test_every_page_is_in_the_table_of_contents():
    listing = re.findall(r"^[\w-]+$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert sorted(listing) == sorted(
        p.stem for p in PAGES if p.parent.name == "docs" and p.stem != "index"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_function_and_file_that_a_page_names_is_there(page):
    """A link `[`name`](file.py)` names a function of that file; a path in backticks is a file."""
    text = page.read_text()
    for name, path in re.findall(r"\[`(\w+)`\]\(([\w/]+\.py)\)", text):
        assert re.search(rf"^def {name}\(", (page.parent / path).read_text(), re.M), (name, path)
    roots = [ROOT, ROOT / "rlvr_cli", ROOT / "verifiers", page.parent]
    for path in re.findall(r"`(\w+/[\w/.-]+\.(?:py|md|yaml|txt))`", text):
        if path.split("/")[0] not in ("runs", "RUN", "problems"):
            assert any((root / path).exists() for root in roots), path


@pytest.mark.parametrize(("page", "least"), [("tutorial.md", 30), ("objectives.md", 10)])
def test_the_numbers_of_the_tutorial_are_those_of_the_functions(page, least):
    actual = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert (actual.failed, actual.attempted > least) == (0, True)


def test_each_term_of_the_objectives_names_a_function_that_is_there():
    page = (ROOT / "docs" / "objectives.md").read_text()
    named = re.findall(r"^\|[^`]*`(\w+)\.(\w+)` \|", page, re.MULTILINE)
    assert len(named) == 10
    for module, name in named:
        assert hasattr(importlib.import_module(f"rlvr_cli.algorithm.{module}"), name), name


def test_what_is_called_stable_is_there():
    page = (ROOT / "docs" / "stability.md").read_text()
    assert set(re.findall(r"`(rlvr\.\w+)`", page)) == {GROUP, *ENTRY_POINTS.values()}
    assert f"`row_version` ({ROW_VERSION})" in page
    assert f"stable within {rlvr_cli.__version__.rpartition('.')[0]} |" in page
    (python,) = re.findall(r"^\| Python \| (.*) \|$", page, re.MULTILINE)
    functions, _, judging = python.partition("`verify`")
    assert set(re.findall(r"`(\w+)`", functions)) <= set(rlvr_cli.__all__)
    assert "`Attempt`" in judging
    assert {"verify", "Attempt"} <= set(verifiers.__all__)


def test_the_recipes_named_in_the_pages_are_there():
    named = {
        name for page in PAGES for name in re.findall(r"recipes/([\w.-]+\.yaml)", page.read_text())
    }
    assert named
    for name in named:
        assert yaml.safe_load((ROOT / "recipes" / name).read_text())["algo"]


def test_every_term_of_the_glossary_is_a_name_in_the_code():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    terms = re.findall(r"^- \*\*([\w -]+)\*\*, `([\w.]+)`: ", text, re.MULTILINE)
    assert len(terms) >= 25
    for term, path in terms:
        room, module, *names = path.split(".")
        package = ROOT if room == "verifiers" else ROOT / "rlvr_cli"
        source = (package / room / f"{module}.py").read_text()
        assert names, term
        for name in names:
            assert re.search(rf"\b{name}\b", source), (term, name)
