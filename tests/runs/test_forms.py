"""Every form of weights goes on bit for bit, and is read like any other."""

import json
from pathlib import Path

import pytest
import torch
from conftest import small_run
from safetensors.torch import load_file
from test_resume import same_files
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
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """The built-in policy in bfloat16, as most models are published."""
    directory = tmp_path_factory.mktemp("start") / "model"
    tiny = load_model("tiny")
    tiny.model.bfloat16().save_pretrained(directory)
    tiny.tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.slow  # test_resume.py has an adapter and bfloat16 in the quick tier
@pytest.mark.parametrize("form", FORMS)
def test_it_goes_on_bit_for_bit(form, start, tmp_path):
    settings = (*FORMS[form], "--model", str(start), "--lr", "0.001", "--quiet")
    settings += ("--set", "data.answer_format=any", "--set", "optim.warmup_steps=0")
    unbroken, run = tmp_path / "whole", tmp_path / "run"
    invoke(*small_run("--steps", "3", *settings, "--out", str(unbroken)))
    invoke(*small_run("--steps", "1", *settings, "--out", str(run)))
    invoke("train", "--resume", str(run), "--steps", "3", "--quiet")
    for pattern in ("rollouts/*.jsonl", "checkpoints/step-3/**/*.safetensors"):
        assert same_files(unbroken, run, pattern)
    rows = [json.loads(line) for line in (unbroken / "metrics.jsonl").read_text().splitlines()]
    assert any(row["groups_trained"] for row in rows)
    assert all(row.get("mismatch", 0) < 0.05 for row in rows)
    step = unbroken / "checkpoints" / "step-3"
    evaluated = invoke("eval", "--model", str(unbroken), "--limit", "4", "--max-tokens", "40")
    assert len(evaluated.stdout.splitlines()) == 16
    if "lora" in form:
        names = {path.name for path in step.iterdir()}
        assert not names & {"model.safetensors"}
        assert (step / "adapter_model.safetensors").stat().st_size < 300_000
        return
    written = load_file(step / "model.safetensors")
    exact = torch.bfloat16 if form == "bfloat16" else torch.float32
    assert {tensor.dtype for tensor in written.values()} == {exact}
    reference = AutoModelForCausalLM.from_pretrained(step)
    assert reference.dtype == exact


REFUSED = {
    "--lora=0": "--lora 0: lora.rank must be 1 or more, not 0",
    "--set lora.rank=4 --set lora.targets=[nowhere]": "nowhere: not a linear layer of Qwen2",
    "--set optim.offload=all": "there is no GPU whose memory it would spare; leave it out",
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to spare")
@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_save_memory_is_one_line(options, tmp_path):
    result = CliRunner().invoke(app, [*small_run("--out", str(tmp_path / "run")), *options.split()])
    assert result.exit_code == 2
    (line,) = [item for item in result.stderr.splitlines() if item.startswith("rlvr: error")]
    assert REFUSED[options] in line


def test_an_adapter_is_not_put_on_another(tmp_path):
    run = tmp_path / "run"
    invoke(*small_run("--steps", "1", "--lora", "4", "--quiet", "--out", str(run)))
    repeated = small_run("--model", str(run), "--lora", "4", "--out", str(tmp_path / "two"))
    result = CliRunner().invoke(app, repeated)
    assert result.exit_code == 2
    assert "has an adapter already: merge it with rlvr export" in " ".join(result.stderr.split())
