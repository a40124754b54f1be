"""A run handed on: a plain model of the type asked for, which others load, with its card."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from rlvr_cli.cli.main import app
from rlvr_cli.model.loading import load_model


def invoke(*args: str):
    return CliRunner().invoke(app, list(args))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A short run with an adapter, measured at each step."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    few = ("--steps", "2", "--prompts", "4", "-n", "4", "--max-tokens", "40", "--limit", "32")
    measured = ("--set", "eval.limit=4", "--set", "eval.every=1", "--set", "checkpoint.every=1")
    result = invoke("train", "--lora", "2", *few, *measured, "--out", str(directory), "-q")
    assert result.exit_code == 0, result.stderr
    return directory


def test_it_is_merged_and_loads_without_rlvr(run, tmp_path):
    out = tmp_path / "mine"
    result = invoke("export", str(run), "--out", str(out))
    assert result.exit_code == 0, result.stderr
    model = AutoModelForCausalLM.from_pretrained(out)
    assert AutoTokenizer.from_pretrained(out).eos_token_id is not None
    ours = load_model(str(run)).model
    assert model.dtype == torch.float32
    assert all(map(torch.equal, model.parameters(), ours.parameters()))
    start = load_model("tiny").model
    assert not all(map(torch.equal, model.parameters(), start.parameters()))
    card = (out / "README.md").read_text()
    rows = [json.loads(line) for line in (run / "rollouts/held-out-after.jsonl").open()]
    after = sum(row["verdict"] == "correct" for row in rows) / len(rows)
    assert f"| after training | {after:.3f} [" in card
    assert 'license: "apache-2.0"' in card
    assert "rank: 2" in card
    repeated = invoke("export", str(run), "--out", str(out))
    assert repeated.exit_code == 2
    assert "it exists already" in repeated.stderr


def test_the_best_and_a_number_in_bfloat16(run):
    best = json.loads((run / "summary.json").read_text())["best"]["step"]
    result = invoke("export", str(run), "--step", "best", "--dtype", "bfloat16")
    assert result.exit_code == 0, result.stderr
    weights = load_file(run / f"export-{best}" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}


def test_the_card_of_an_earlier_step_has_its_own_figure(run, tmp_path):
    """The first of two steps, as if it were the best: what was measured last is of the second."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    summary = json.loads((copy / "summary.json").read_text())
    summary["best"] = {"step": 1, "pass@1": 0.875}
    (copy / "summary.json").write_text(json.dumps(summary))
    out = tmp_path / "model"
    result = invoke("export", str(copy), "--step", "best", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    card = (out / "README.md").read_text()
    assert "| after training |" not in card
    assert "| after all 2 steps, which is another model than this | " in card
    assert "| after 1 step | 0.875 |" in card


@pytest.mark.parametrize(
    ("step", "says"), [("9", "kept are: 2, 1"), ("x", "kept are: 2, 1"), ("-1", "kept are")]
)
def test_a_step_that_is_not_there(run, step, says):
    result = invoke("export", str(run), "--step", step)
    assert result.exit_code == 2
    assert says in result.stderr


def test_no_run_and_a_hub_that_refuses(run, tmp_path, monkeypatch):
    assert "no config.yaml in it" in invoke("export", str(tmp_path)).stderr
    import huggingface_hub

    def refused(*args, **options):
        raise OSError("no\nnetwork")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refused)
    result = invoke("export", str(run), "--out", str(tmp_path / "kept"), "--push", "me/mine")
    assert result.exit_code == 2
    assert "--push me/mine: no network; what was written stays in" in result.stderr
    assert (tmp_path / "kept" / "model.safetensors").is_file()
