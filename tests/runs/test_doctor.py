"""`rlvr doctor`: the exit code, what is missing for what, and a package that has our name."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
import torch
from conftest import invoke

from rlvr_cli.core import versions
from rlvr_cli.model import loading
from rlvr_cli.model.card import Card
from rlvr_cli.runs import doctor
from rlvr_cli.setup.plan import EngineChoice


def test_a_whole_installation_says_what_it_has_and_ends_with_0(rlvr):
    result = rlvr("doctor")
    assert result.returncode == 0, result.stderr
    assert f"torch {metadata.version('torch')}" in result.stdout
    assert "the default run can run" in result.stdout


def doctored(monkeypatch, *requirements: str):
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: list(requirements))
    return invoke("doctor")


def test_a_library_that_is_missing_stops_and_one_of_an_extra_does_not(monkeypatch):
    result = doctored(monkeypatch, "no-lib>=2", 'no-such>=1; extra == "track"')
    assert result.exit_code == 2
    assert "no-lib is not installed: pip install --upgrade rlvr-cli" in result.stderr
    assert "for track: no-such is not installed; pip install" in result.stdout
    assert doctored(monkeypatch, "torch>=2", 'no-such; extra == "dev"').exit_code == 0


def test_a_library_out_of_range_is_warned_of(monkeypatch):
    result = doctored(monkeypatch, "peft<0.1")
    text = f"peft {metadata.version('peft')} is not <0.1, the range that was tried"
    assert f"{text}: pip install 'peft<0.1'" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (None, "its model runner V2 for dense models, which a CPU does not take"),
        ("1", "its model runner V2 for dense models, which a CPU does not take"),
        ("0", "its model runner V1, by VLLM_USE_V2_MODEL_RUNNER=0"),
    ],
)
def test_the_model_runner_that_vllm_takes_on_a_card_is_said(monkeypatch, variable, said):
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER", raising=False)
    if variable is not None:
        monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", variable)
    monkeypatch.setattr(doctor, "choose_engine", lambda _: EngineChoice("vllm", "0.33.0"))
    assert "model runner" not in invoke("doctor").stdout  # on a CPU
    monkeypatch.setattr(doctor, "default_device", lambda: "cuda")
    monkeypatch.setattr(doctor, "present_card", lambda: Card("NVIDIA H100", (9, 0)))
    monkeypatch.setattr(doctor, "kernel_error", lambda _: None)
    properties = SimpleNamespace(total_memory=80 << 30)
    monkeypatch.setattr(doctor.torch.cuda, "get_device_properties", lambda _: properties)
    assert said in " ".join(invoke("doctor").stdout.split())


def test_the_versions_and_what_was_tried_are_said(monkeypatch):
    found = {"torch": "2.16.0", "transformers": "5.20.0", "vllm": None}
    monkeypatch.setattr(versions, "installed_version", found.get)
    monkeypatch.setattr(doctor, "installed_version", found.get)
    result = invoke("doctor")
    assert "torch 2.16.0 (tried: 2.11 to 2.15), transformers 5.20.0 (tried: " in result.stdout
    assert (
        "torch 2.16.0 was not tried (2.11 to 2.15 were); to be safe: pip install" in result.stdout
    )
    assert "transformers 5.20.0 was not tried" not in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(("hidden", "is_there"), [(None, True), ("", True), (None, False)])
def test_a_gpu_that_torch_cannot_use_is_said_and_why(monkeypatch, tmp_path, hidden, is_there):
    """Torch for CPUs beside a card; one that its user hides is none."""
    if torch.cuda.is_available():
        pytest.skip("torch can use the GPU here")
    card = tmp_path / "nvidia0"
    if is_there:
        card.touch()
    monkeypatch.setattr(loading, "_GPU", card)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    texts = invoke("doctor").stdout, invoke("sample", "What is 1 + 1?", "-n", "1").stderr
    for text in (" ".join(text.split()) for text in texts):
        # Torch for CPUs is not compiled with CUDA; one for GPUs finds no driver.
        is_said = re.search("the GPU that is there is not used: (Torch|Found no NVIDIA)", text)
        assert bool(is_said) == (is_there and hidden is None)


def test_a_full_disk_and_a_lost_file_are_said(monkeypatch, tmp_path):
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(1, 1, 0)
    )
    monkeypatch.setattr(doctor, "model_directory", lambda name: tmp_path)
    result = invoke("doctor")
    assert result.exit_code == 2
    assert "a run needs 0.2 GiB" in result.stderr
    assert "config.json is missing" in result.stderr


@pytest.mark.parametrize("arguments", [["doctor"], ["train", "--list"]])
def test_another_package_of_the_verifiers_name_is_one_line(tmp_path, arguments):
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "rlvr_cli", *arguments]
    result = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert "another distribution has the name verifiers in this environment" in line
    assert str(tmp_path / "verifiers") in line
