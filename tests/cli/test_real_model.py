"""A real pretrained chat model through every command: check, train, resume, eval, sample."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path

import pytest
import torch
from conftest import jsonl
from small_runs import repeatable
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.slow  # tests/model and tests/rollout have the real model in the quick tier
Command = Callable[..., subprocess.CompletedProcess[str]]
ENGINE = "transformers" if util.find_spec("vllm") is None else "vllm"
QUESTION = "Calculate {} + {}. Reply with the sum only."
PROBLEMS = [
    {"problem": QUESTION.format(a, b), "answer": a + b}
    for a, b in [(7, 5), (18, 9), (3, 4), (12, 30)]
]
GREEDY = ("--temperature", "0", "-n", "1", "--max-tokens", "12", "--set", "threads=1")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Run `rlvr ARGS…` in the directory that all of this file share."""
    directory = tmp_path_factory.mktemp("real")
    (directory / "problems.jsonl").write_text(jsonl(*PROBLEMS))

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "rlvr_cli", *args],
            capture_output=True,
            text=True,
            cwd=directory,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result

    run.directory = directory
    yield run
    shutil.rmtree(directory)  # two checkpoints with AdamW's state: 3 GB


@pytest.fixture(scope="module")
def trained(command: Command, real_model: Path) -> Path:
    """A run of two tiny steps."""
    command(
        "train", "problems.jsonl", *settings(real_model, ENGINE), "--steps", "2", "--out", "run"
    )
    return command.directory / "run"


def settings(model: Path, engine: str = "transformers") -> list[str]:
    flags = (
        "--algo dr_grpo --seed 1 --prompts 2 -n 4 --max-tokens 12 --temperature 0.7 --lr 1e-5 "
        "--set data.prompt=plain --set eval.limit=0 --set threads=1 --set optim.warmup_steps=0 "
        "--set rollout.kv_budget_mb=256"
    )
    return ["--model", str(model), "--engine", engine, *flags.split()]


def steps(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_check_finds_nothing_in_the_way(command, real_model):
    result = command("train", "--check", "problems.jsonl", *settings(real_model))
    assert "nothing stands in the way of this run" in result.stderr
    assert "a response ends with <|im_end|>" in result.stderr
    assert "<|im_start|>user\nCalculate" in result.stderr


def test_engine_and_trainer_agree_and_the_policy_learns(trained):
    rows = steps(trained)
    assert [row["no_update"] for row in rows] == [None, None]
    assert all(row["mismatch"] < 1e-4 for row in rows)
    assert rows[0]["verdicts"]["correct"] > 0


def test_a_resumed_run_is_the_same_run(command, trained):
    unbroken = steps(trained)
    shutil.rmtree(trained / "checkpoints" / "step-2")
    command("train", "--resume", "run")
    assert [repeatable(row) for row in steps(trained)] == [repeatable(row) for row in unbroken]
    assert (trained / "checkpoints" / "step-2" / "config.json").is_file()


def test_a_checkpoint_says_the_same_in_transformers_and_in_each_engine(command, trained):
    checkpoint = trained / "checkpoints" / "step-2"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    expected = {}
    for problem in PROBLEMS:
        chat = [{"role": "user", "content": problem["problem"]}]
        inputs = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
        text = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        expected[problem["problem"]] = text
    for engine in {"transformers", ENGINE}:
        words = f"eval problems.jsonl --model run --engine {engine} --prompt plain"
        result = command(*words.split(), *GREEDY)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert {row["problem"]: row["response"] for row in rows} == expected
    question = PROBLEMS[0]["problem"]
    result = command("sample", question, "--model", "run", *GREEDY)
    assert json.loads(result.stdout)["response"] == expected[question]
