"""What people install: a wheel of the program alone, small, which runs outside of the clone."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import rlvr_cli

ROOT = Path(rlvr_cli.__file__).parents[1]
LARGEST = 6_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_program_alone(wheel):
    assert wheel.stat().st_size < LARGEST
    assert f"-{rlvr_cli.__version__}-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    info = f"rlvr_cli-{rlvr_cli.__version__}.dist-info"
    assert folders == {"rlvr_cli", "verifiers", "datasets_cfg", info}
    assert not [name for name in names if "test" in name or "benchmark" in name]
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "rlvr_cli").rglob("*.py")}
    assert here <= set(names)


@pytest.mark.slow
def test_a_run_works_from_the_unpacked_wheel_outside_of_the_clone(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args],
            cwd=tmp_path / "empty",
            env=environment,
            capture_output=True,
            text=True,
        )

    where = run("-c", "import rlvr_cli, verifiers; print(rlvr_cli.__file__, verifiers.__file__)")
    assert all(path.startswith(str(tmp_path)) for path in where.stdout.split())
    printed = run("-m", "rlvr_cli", "train", "--config", "recipes/builtin.yaml", "--print-config")
    assert (printed.returncode, printed.stdout[:11]) == (0, "algo: dapo\n"), printed.stderr
    command = "-m rlvr_cli train --steps 1 --prompts 4 --set eval.limit=4 --out run"
    result = run(*command.split())
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "empty" / "run" / "checkpoints" / "step-1" / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_a_newer_python_compiles_all_and_runs_the_verifiers(version, wheel, tmp_path):
    """torch for another Python is gigabytes: the verifiers are run, the rest is compiled."""
    python = f"python{version}"
    environment = {**os.environ, "PYENV_VERSION": version}

    def run(*args: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *map(str, args)], env=environment, input=stdin, capture_output=True, text=True
        )

    if shutil.which(python) is None or run("--version").returncode:
        pytest.skip(f"needs a {python}")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    (site / "mpmath").symlink_to(Path(str(find_spec("mpmath").origin)).parent)
    compiled = run("-W", "error", "-m", "compileall", "-q", site / "rlvr_cli", site / "verifiers")
    assert compiled.returncode == 0, compiled.stdout
    environment |= {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    rows = [
        {"response": "so it is \\boxed{0.5}.", "answer": "1/2"},
        {"response": "The answer is 7.", "answer": "8"},
    ]
    actual = run("-m", "verifiers", stdin="".join(json.dumps(row) + "\n" for row in rows))
    verdicts = [json.loads(line)["verdict"] for line in actual.stdout.splitlines()]
    assert verdicts == ["correct", "wrong"], actual.stderr


def test_the_version_and_the_extras_stand_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert f"version: {rlvr_cli.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    extras = project["optional-dependencies"]
    assert extras.keys() >= {"vllm", "track", "dev", "docs"}
    parts = {item for name in ("tensorboard", "wandb", "trackio") for item in extras[name]}
    assert set(extras["track"]) == parts
    core = {re.split(r"[<>=]", item)[0] for item in project["dependencies"]}
    assert not core & {"vllm", "wandb", "tensorboard", "sphinx", "pytest"}
