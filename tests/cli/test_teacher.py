"""`rlvr train --algo opd --teacher MODEL`: the policy's own responses, marked by another model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import jsonl, refused
from safetensors.torch import load_file, save_file

import rlvr_cli

TINY = Path(rlvr_cli.__file__).parent / "tiny"
QUESTIONS = [{"problem": f"What is {n} + 4?"} for n in range(3, 11)]
SETTINGS = ("--set", "eval.limit=0", "--set", "optim.warmup_steps=0", "--lr", "1e-4")
FLAGS = ("--algo", "opd", "--prompts", "8", "-n", "4", "--max-tokens", "16", *SETTINGS)


def perturbed(directory: Path, seed: int = 0) -> Path:
    """Copy the built-in policy, with its weights changed a little."""
    shutil.copytree(TINY, directory, dirs_exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, tensor in load_file(TINY / "model.safetensors").items():
        noise = torch.randn(tensor.shape, generator=generator)
        weights[name] = tensor + 0.3 * tensor.std() * noise
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    return directory


def printed(result) -> str:
    return " ".join(result.stderr.split())


def rows_of(result) -> list[dict]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_policy_comes_nearer_without_a_gold_answer_and_a_resume_is_exact(rlvr, tmp_path):
    (tmp_path / "questions.jsonl").write_text(jsonl(*QUESTIONS))
    perturbed(tmp_path / "teacher")

    def train(steps: int, out: str):
        words = f"train questions.jsonl --teacher teacher --steps {steps} --out {out}"
        return rlvr(*words.split(), *FLAGS)

    result = train(4, "whole")
    history = rows_of(result)
    assert "teacher teacher: Qwen2ForCausalLM: its responses run packed" in printed(result)
    assert "golds" not in result.stderr
    assert history[-1]["ref_kl"] < history[0]["ref_kl"] / 2
    assert {(row["pass@1"], row["reward"], row["no_update"]) for row in history} == {(None,) * 3}

    rows_of(train(2, "half"))
    resumed = rows_of(rlvr("train", "--resume", "half", "--steps", "4"))
    assert [row["loss"] for row in resumed] == [row["loss"] for row in history[2:]]
    weights = [
        (tmp_path / run / "checkpoints" / "step-4" / "model.safetensors").read_bytes()
        for run in ("whole", "half")
    ]
    assert weights[0] == weights[1]

    perturbed(tmp_path / "teacher", seed=1)
    result = rlvr("train", "--resume", "half", "--steps", "5")
    assert result.returncode == 2
    assert "the weights of teacher, the reference policy, are not those" in result.stderr


def without_weights(directory: Path) -> None:
    shutil.copytree(TINY, directory, ignore=shutil.ignore_patterns("*.safetensors"))


def with_another_vocabulary(directory: Path) -> None:
    perturbed(directory)
    text = (directory / "tokenizer.json").read_text()
    tokenizer = json.loads(text)
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("copy", lambda at: shutil.copytree(TINY, at), "it is the policy itself"),
        ("empty", without_weights, "cannot be loaded"),
        ("foreign", with_another_vocabulary, "its tokens are not those of the policy tiny"),
        ("./gone", None, "no such directory"),
    ],
)
def test_what_is_no_teacher_is_refused_in_one_line(tmp_path, monkeypatch, name, make, message):
    monkeypatch.chdir(tmp_path)
    if make is not None:
        make(tmp_path / name)
    (tmp_path / "questions.jsonl").write_text(jsonl(*QUESTIONS))
    line = refused("train", "questions.jsonl", *FLAGS, "--teacher", name, "--out", "run")
    assert line.startswith(f"rlvr: error: --teacher {name}: ")
    assert message in line
    assert not (tmp_path / "run").exists()
    if name == "copy":  # an adapter does nothing yet
        line = refused("train", "questions.jsonl", *FLAGS, "--teacher", "tiny", "--lora", "2")
        assert "--teacher tiny: it is the policy itself" in line
