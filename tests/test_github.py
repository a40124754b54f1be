"""The workflows and forms of GitHub: they are valid, and name targets and files that exist."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import rlvr_cli

ROOT = Path(rlvr_cli.__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))


def load(path: Path) -> dict:
    """Load a YAML file as GitHub does, which reads `on` as a key and not as true."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)


def matrix_values(job: dict) -> list[dict[str, str]]:
    """List the values of a job's matrix, one dict for each run of the job."""
    matrix = job.get("strategy", {}).get("matrix", {})
    if "include" in matrix:
        return matrix["include"]
    return [{name: value} for name, values in matrix.items() for value in values] or [{}]


def with_values(text: str, values: dict[str, str]) -> str:
    """Replace the variables of a matrix by their values."""
    for name, value in values.items():
        text = text.replace(f"${{{{ matrix.{name} }}}}", value)
    return text


def steps(path: Path) -> list[tuple[dict, dict[str, str]]]:
    """List every step of a workflow with every set of values that its job runs it with."""
    jobs = load(path)["jobs"].values()
    runs = [(job, values) for job in jobs for values in matrix_values(job)]
    return [(step, values) for job, values in runs for step in job["steps"]]


def commands(path: Path) -> list[str]:
    return [with_values(step["run"], values) for step, values in steps(path) if "run" in step]


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z][a-z-]*)", text))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_target_and_file_of_a_workflow_exists(path):
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(commands(path))
    assert "${{" not in text, "a variable that no matrix gives"
    assert make_targets(text)
    assert make_targets(text) <= known
    for step, values in steps(path):
        assert ("uses" in step) != ("run" in step), step
        cached = step.get("with", {}).get("cache-dependency-path", "")
        for name in with_values(cached, values).splitlines():
            assert (ROOT / name).exists(), name


def test_the_jobs_run_every_stage_of_the_local_ci():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    jobs = make_targets("\n".join(commands(GITHUB / "workflows" / "ci.yml")))
    stages = set(re.findall(r"^make ([a-z-]+)", script.read_text(), re.MULTILINE))
    assert len(stages) >= 7
    assert stages <= jobs
    coverage = re.search(r"^coverage:.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert coverage is not None
    assert coverage[1].startswith(
        "$(PYTEST) --cov"
    )  # else the Python that runs it would miss tests


def test_a_python_is_claimed_once_the_workflow_needs_it():
    """What runs on trial may fail without a word to those who install the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = [item.rpartition(" ")[2] for item in project["classifiers"] if "Python :: 3" in item]
    quick = load(GITHUB / "workflows" / "ci.yml")["jobs"]["quick"]
    runs = matrix_values(quick)
    needed = [run for run in runs if run.get("trial") != "yes"]
    assert [run["python"] for run in needed] == claimed
    assert {run["system"] for run in needed} == {"ubuntu-latest"}
    trials = {(run["system"], run["python"]) for run in runs if run not in needed}
    assert trials == {("ubuntu-latest", "3.14"), ("macos-latest", "3.13")}
    assert quick["continue-on-error"] == "${{ matrix.trial == 'yes' }}"


def test_a_release_needs_the_version_as_its_tag_and_publishes_without_a_password():
    jobs = load(GITHUB / "workflows" / "release.yml")["jobs"]
    (check,) = [step["run"] for step in jobs["build"]["steps"] if "GITHUB_REF_NAME" in str(step)]
    pattern = re.search(r"s/\^(.*?) = ", check)
    assert pattern is not None
    assert f'{pattern[1]} = "{rlvr_cli.__version__}"' in (ROOT / "rlvr_cli/__init__.py").read_text()
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (GITHUB / "workflows" / "release.yml").read_text()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_what_an_answer_needs(path):
    form = load(path)
    if path.name == "config.yml":
        assert form["blank_issues_enabled"] == "true"
        return
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(names) == len(set(names))
    assert all(field["attributes"]["label"] for field in fields)
    required = [field for field in fields if field.get("validations", {}).get("required") == "true"]
    assert required
    if path.name == "bug.yml":
        assert "doctor" in {field["id"] for field in required}


def test_dependabot_looks_at_the_packages_and_at_the_actions():
    updates = load(GITHUB / "dependabot.yml")["updates"]
    assert {item["package-ecosystem"] for item in updates} == {"pip", "github-actions"}
    assert {item["directory"] for item in updates} == {"/"}


def test_every_test_that_a_target_of_the_makefile_names_exists():
    """The lists of what runs beside other versions, which a moved file would leave silently."""
    named = set()
    for name in ("lowest", "highest", "vllm"):
        command = ["make", "--dry-run", "--old-file", f".venv-{name}/installed", f"test-{name}"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        named |= set(re.findall(r"\btests/[\w./]+", result.stdout))
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).exists(), path
