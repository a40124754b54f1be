"""Every form of weights goes on bit for bit, and is read like any other."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_resume import same_files, small_run
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from rlvr_cli.cli.main import app
from rlvr_cli.model.loading import load_model

FORMS = {
    "bfloat16 start": (),
    "bfloat16": ("--set", "optim.weights=bfloat16"),
    "lora": ("--lora", "4"),
    "lora on bfloat16": ("--lora", "4", "--set", "optim.weights=bfloat16"),
    "computed again": ("--set", "optim.checkpointing=on", "--set", "optim.precision=bfloat16"),
}


def invoke(*args: str):
    done = CliRunner().invoke(app, list(args))
    assert done.exit_code == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """The built-in policy in bfloat16, as most models are published."""
    directory = tmp_path_factory.mktemp("start") / "model"
    tiny = load_model("tiny")
    tiny.model.bfloat16().save_pretrained(directory)
    tiny.tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.parametrize("form", FORMS)
def test_it_goes_on_bit_for_bit(form, start, tmp_path):
    settings = (*FORMS[form], "--model", str(start), "--lr", "0.001", "--quiet")
    settings += ("--set", "data.answer_format=any", "--set", "optim.warmup_steps=0")
    whole, run = tmp_path / "whole", tmp_path / "run"
    invoke(*small_run("--steps", "3", *settings, "--out", str(whole)))
    invoke(*small_run("--steps", "1", *settings, "--out", str(run)))
    invoke("train", "--resume", str(run), "--steps", "3", "--quiet")
    for pattern in ("rollouts/*.jsonl", "checkpoints/step-3/**/*.safetensors"):
        assert same_files(whole, run, pattern)
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert any(row["groups_trained"] for row in rows)
    assert all(row.get("mismatch", 0) < 0.05 for row in rows)
    step = whole / "checkpoints" / "step-3"
    evaluated = invoke("eval", "--model", str(whole), "--limit", "4", "--max-tokens", "40")
    assert len(evaluated.stdout.splitlines()) == 16
    if "lora" in form:
        names = {path.name for path in step.iterdir()}
        assert not names & {"model.safetensors"}
        assert (step / "adapter_model.safetensors").stat().st_size < 300_000
        return
    written = load_file(step / "model.safetensors")
    exact = torch.bfloat16 if form == "bfloat16" else torch.float32
    assert {tensor.dtype for tensor in written.values()} == {exact}
    theirs = AutoModelForCausalLM.from_pretrained(step)
    assert theirs.dtype == exact
