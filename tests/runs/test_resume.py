"""A run that goes on is the run that never stopped: bit for bit, from any step, after any death."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from conftest import TESTS_SEED, finished_command, quantizes, small_run
from forked import Fork, forked
from kill_resume import differences, kill_in_write
from killed_runs import killed_with_responses_under_way_and_a_batch_ahead
from safetensors.torch import load, save
from small_models import save_small_model
from small_runs import repeatable
from small_trainer import has_even, make_trainer, weights, written
from typer.testing import CliRunner

from rlvr_cli.__main__ import main
from rlvr_cli.cli.main import app
from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks.group import full_tensor
from rlvr_cli.runs.checkpoint import State, restore, state_of
from rlvr_cli.runs.run_dir import create_run
from rlvr_cli.runs.summary import Progress
from rlvr_cli.setup import plan
from rlvr_cli.setup.plan import choose
from rlvr_cli.training.trainer import Trainer
from verifiers import Verdict, Verification, Verifier

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kill_resume.py"
PARTIAL = (
    "rollout.partial=on",
    "rollout.partial.tokens=1",
    "rollout.partial.age=1",
    "rollout.partial.too_old=drop",
)
PRESETS = {
    "dapo": ("algo=dapo", "rollout.prompts=2"),
    "grpo": ("algo=grpo",),
    "iterative": (
        "algo=grpo",
        "algorithm.kl.reference=iterative",
        "algorithm.kl.reference.every=2",
        "algorithm.kl.reference.resets_optimizer=true",
    ),
    "ppo": ("algo=ppo", "algorithm.advantage.critic.warmup=1"),
    "shared critic": (
        "algo=ppo",
        "algorithm.advantage.critic=shared",
        "algorithm.advantage.critic.warmup=0",
    ),
    "adaptive": ("algo=ppo", "algorithm.kl.control=doubling", "algorithm.kl.control.target=0.001"),
    "cosine": ("algo=rloo", "optim.schedule=cosine"),
    "lora": ("algo=grpo", "lora.rank=2"),
    "lora, iterative": (
        "algo=grpo",
        "lora.rank=2",
        "algorithm.kl.reference=iterative",
        "algorithm.kl.reference.every=2",
    ),
    "lora, critic": ("algo=ppo", "lora.rank=2", "lora.targets=[q_proj,down_proj]"),
    "bfloat16": ("algo=ppo", "optim.weights=bfloat16", "rollout.mismatch_limit=1"),
    "8 bits": (
        "algo=rloo",
        "optim.moments=8bit",
        "optim.precision=bfloat16",
        "rollout.mismatch_limit=1",
    ),
    "4 bits": ("algo=grpo", "lora.rank=2", "lora.base=nf4"),
    "float16, lora": ("algo=grpo", "lora.rank=2", "optim.weights=float16"),
    "computed again": ("algo=grpo", "optim.checkpointing=on"),
    "teacher": ("algo=opd", "rollout.samples=1"),
    "teacher, lora": ("algo=opd", "lora.rank=2"),
    "partial": ("algo=dapo", *PARTIAL),
    "partial, own old": ("algo=ppo", *PARTIAL, "algorithm.importance_correction=none"),
    "ahead": ("algo=dapo", "rollout.prompts=2", "rollout.ahead=1"),
    "ahead, partial": ("algo=ppo", *PARTIAL, "rollout.ahead=1"),
    "ahead, rests": ("algo=grpo", "data.rest=true", "rollout.ahead=1"),
    "rests": ("algo=dapo", "rollout.prompts=4", "data.rest=true"),
}
MARKS = {"float16": pytest.mark.slow, "8 bits": quantizes, "4 bits": quantizes}
STEPS = 4
CRITIC = "algorithm.advantage.critic.warmup=0"


def on_disk(state: State) -> State:
    """The state as it comes back from JSON and safetensors."""
    values = json.loads(json.dumps(state.values))
    return State(
        values, load(save({k: full_tensor(t).contiguous() for k, t in state.tensors.items()}))
    )


def copy(trainer: Trainer, settings: tuple[str, ...]) -> Trainer:
    """Another trainer, put where this one is."""
    state = on_disk(state_of(trainer, Progress()))
    other = make_trainer(has_even, *settings)
    other.session.policy.model.load_state_dict(trainer.session.policy.model.state_dict())
    restore(other, state)
    assert other.step == trainer.step
    return other


@pytest.mark.parametrize(
    "preset",
    [pytest.param(name, marks=MARKS.get(name.partition(",")[0], ())) for name in PRESETS],
)
def test_from_every_step_the_rest_is_the_same(tmp_path, preset):
    settings = (*PRESETS[preset], f"steps={STEPS}")
    trainer = make_trainer(has_even, *settings)
    others = {}
    expected = []
    unbroken = create_run(tmp_path / "whole", trainer.config)
    for result in trainer.train_steps():
        expected.append(repeatable(written(unbroken, result)))
        if result.step in (1, STEPS // 2, STEPS - 1):
            others[result.step] = copy(trainer, settings)
    assert any(row["groups_trained"] for row in expected)
    final = on_disk(state_of(trainer, Progress()))
    for step, other in others.items():
        run = create_run(tmp_path / str(step), other.config)
        actual = [repeatable(written(run, result)) for result in other.train_steps()]
        assert actual == expected[step:]
        assert all(map(torch.equal, weights(trainer), weights(other)))
        state = on_disk(state_of(other, Progress()))
        assert state.values == final.values
        assert state.tensors.keys() == final.tensors.keys()
        assert all(torch.equal(final.tensors[k], t) for k, t in state.tensors.items())
        tokens = list(run.directory.glob("rollouts/tokens-*"))
        assert len(tokens) == sum(row["groups_trained"] > 0 for row in actual)
        for path in [*tokens, *run.directory.glob("rollouts/*step-*.jsonl")]:
            assert path.read_bytes() == (tmp_path / "whole" / "rollouts" / path.name).read_bytes()


def test_carried_groups_are_part_of_the_state(tmp_path):
    settings = ("algo=dapo", "rollout.prompts=4", "steps=6")
    trainer = make_trainer(lambda text: text.startswith("5 "), *settings)
    for _ in trainer.train_steps():
        if trainer.carried_groups:
            break
    groups = trainer.carried_groups
    assert groups
    other = copy(trainer, settings)
    for group, repeated in zip(groups, other.carried_groups, strict=True):
        assert repeated.prompt is other.prompts[trainer.prompts.index(group.prompt)]
        assert (repeated.rollouts, repeated.weight_version) == (
            group.rollouts,
            group.weight_version,
        )
        assert repeated.is_mixed


@pytest.mark.parametrize("what", ["problems", "start"])
def test_another_start_is_refused(what):
    trainer = make_trainer(has_even, "algo=grpo")
    state = state_of(trainer, Progress())
    state.values[what] = "0" * 64
    with pytest.raises(UserError, match="not those that the run began with"):
        restore(trainer, state)


def test_killed_inside_three_writes_it_is_the_unbroken_run(finished_run, tmp_path):
    """The first is in the first step, the second in a checkpoint, the third near the end."""
    run = tmp_path / "run"
    command = finished_command(tmp_path / "run")
    for number in (2, 25, 40):
        died = forked(command, tmp_path, program=lambda n=number: (kill_in_write(n), main()))
        assert died.rc == -signal.SIGKILL, died.err
        if (run / "config.yaml").exists():
            command = ("train", "--resume", str(run))
    result = forked(command, tmp_path)
    assert result.rc == 0, result.err
    assert differences(finished_run, run) == []


def test_killed_with_responses_under_way_and_a_batch_ahead_it_is_the_unbroken_run(tmp_path):
    killed_with_responses_under_way_and_a_batch_ahead(tmp_path, "transformers")


@pytest.mark.slow
def test_a_killed_run_in_float16_is_the_unbroken_run(tmp_path, monkeypatch):
    """It dies in the second step, behind the checkpoint of the first."""
    verdicts = [Verification(v, None, True, "") for v in (Verdict.WRONG, Verdict.CORRECT)]
    monkeypatch.setattr(
        Verifier, "verify_many", lambda self, attempts: (verdicts * len(attempts))[: len(attempts)]
    )
    model = str(save_small_model(tmp_path / "model"))
    names = ("optim.precision=float16", "rollout.precision=float16", "eval.limit=0", CRITIC)
    settings = [part for name in (*names, "checkpoint.every=1") for part in ("--set", name)]
    short = ("--algo", "ppo", "--steps", "2", "--prompts", "1", "--max-tokens", "6", "-q")
    command = small_run(*short, "--model", model, *settings)
    unbroken, run = tmp_path / "whole", tmp_path / "run"
    assert forked([*command, "--out", str(unbroken)], tmp_path).rc == 0
    died = forked(
        [*command, "--out", str(run)], tmp_path, program=lambda: (kill_in_write(47), main())
    )
    assert died.rc == -signal.SIGKILL, died.err
    assert [path.name for path in run.glob("checkpoints/step-*")] == ["step-1"]
    result = forked(["train", "--resume", str(run), "-q"], tmp_path)
    assert result.rc == 0, result.err
    assert differences(unbroken, run) == []
    rows = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    assert [(row["no_update"], row["updates_skipped"]) for row in rows] == [(None, 0)] * 2
    state = json.loads((run / "checkpoints/step-2/trainer/state.json").read_text())
    assert state["loss_scale"]["scale"] * 2 ** sum(row["overflows"] for row in rows) == 2**16


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dapo", "ppo"])
def test_killed_at_ten_random_moments_it_is_the_unbroken_run(algo, tmp_path):
    print(f"TESTS_SEED={TESTS_SEED}")  # shown with a failure, which it repeats
    result = subprocess.run(
        [sys.executable, str(BENCHMARK), "--algo", algo, "--kills", "10", "--seed", TESTS_SEED],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{algo}: 10 kills of " in result.stdout
    assert "inside a write" in result.stdout
    assert result.stdout.endswith("equal bit for bit\n")


def same_files(first: Path, other: Path, pattern: str) -> bool:
    names = {path.relative_to(run) for run in (first, other) for path in run.glob(pattern)}
    return bool(names) and all(
        (first / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def test_a_run_goes_on_with_the_engine_it_began_with(tmp_path, monkeypatch):
    run = tmp_path / "run"
    result = CliRunner().invoke(app, small_run("--steps", "1", "--out", str(run), "-q"))
    assert result.exit_code == 0, result.stderr
    monkeypatch.setattr(plan, "choose_engine", lambda asked, _: choose(asked, "0.32.0", None, True))
    repeated = CliRunner().invoke(app, ["train", "--resume", str(run), "--steps", "2"])
    assert repeated.exit_code == 0, repeated.stderr
    assert "engine transformers (as set)" in repeated.stderr
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert (saved["engine"], saved["optim"]["precision"]) == ("transformers", "float32")
    defaults = yaml.safe_load((run / "checkpoints" / "step-2" / "rlvr.yaml").read_text())
    assert "precision" not in defaults["optim"]


def test_another_torch_goes_on_and_says_that_bits_may_differ(tmp_path, monkeypatch):
    run = tmp_path / "run"
    here = torch.__version__
    with monkeypatch.context() as patched:
        patched.setattr(torch, "__version__", "2.0.0+cu999")
        result = CliRunner().invoke(app, small_run("--steps", "1", "--out", str(run), "-q"))
    assert result.exit_code == 0, result.output
    text = f"torch 2.0.0+cu999 computed it, and torch {here} goes on: bits may differ"
    repeated = CliRunner().invoke(app, ["train", "--resume", str(run), "--steps", "2", "-q"])
    assert repeated.exit_code == 0, repeated.output
    assert text in repeated.stderr
    same = CliRunner().invoke(app, ["train", "--resume", str(run), "--steps", "3", "-q"])
    assert same.exit_code == 0, same.output
    assert "bits may differ" not in same.stderr


def test_signals_save_and_say_how_to_go_on(finished_run, tmp_path):
    command = finished_command(tmp_path / "run")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = Fork(command, tmp_path)
        process.await_(lambda fork=process: "\n" in fork.out)
        os.kill(process.pid, number)
        result = process.done()
        assert result.rc == 130, result.err
        assert "interrupted after" in result.err
        assert re.search(r"go on with rlvr train --resume \S*run\n", result.err)
        assert "Traceback" not in result.err
        command = ("train", "--resume", "run")
    result = forked((*command, "--quiet"), tmp_path)
    assert result.rc == 0, result.err
    assert same_files(finished_run, tmp_path / "run", "rollouts/*")
    assert same_files(finished_run, tmp_path / "run", "checkpoints/step-4/*.safetensors")


def test_without_a_reader_a_run_says_how_to_go_on(tmp_path):
    reader, writer = os.pipe()
    command = small_run("--steps", "9", "--out", "run")
    process = Fork(command, tmp_path, stdout=writer, unread=reader)
    os.close(writer)
    assert os.read(reader, 1)
    os.close(reader)
    result = process.done()
    assert result.rc == 141, result.err
    assert "nobody reads stdout any more" in result.err
    assert "go on with rlvr train --resume run" in result.err
    assert "Traceback" not in result.err


def test_an_end_before_the_first_step_is_one_to_go_on_from(tmp_path, monkeypatch):
    run = tmp_path / "run"

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "measure", interrupted)
        result = CliRunner().invoke(app, small_run("--steps", "1", "--out", str(run), "-q"))
    assert result.exit_code == 130, result.stderr
    assert "saved up to step 0; go on with rlvr train --resume" in result.stderr
    repeated = CliRunner().invoke(app, ["train", "--resume", str(run), "-q"])
    assert repeated.exit_code == 0, repeated.stderr
    assert json.loads((run / "summary.json").read_text())["steps"] == 1


def test_piped_problems_are_kept_and_the_run_made_longer(rlvr, tmp_path):
    problems = "".join(
        json.dumps(
            {
                "question": f"Start at {n}, keep last digits: (a) +{n}",
                "answer": 2 * n % 10,
                "x": [n],
            }
        )
        + "\n"
        for n in range(1, 9)
    )
    args = ("train", "-", "--prompts", "2", "-n", "4", "--max-tokens", "40")
    unbroken = rlvr(*args, "--steps", "3", "--out", "whole", stdin=problems)
    assert unbroken.returncode == 0, unbroken.stderr
    first = rlvr(*args, "--steps", "1", "--out", "run", stdin=problems)
    assert first.returncode == 0, first.stderr
    result = rlvr("train", "--resume", "run", "--steps", "3")
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["step"] for line in result.stdout.splitlines()] == [2, 3]
    assert same_files(tmp_path / "whole", tmp_path / "run", "rollouts/*")
    assert same_files(tmp_path / "whole", tmp_path / "run", "checkpoints/step-3/*.safetensors")
    assert "steps: 3" in (tmp_path / "run" / "config.yaml").read_text()
    fewer = rlvr("train", "--resume", "run", "--steps", "2")
    assert fewer.returncode == 2
    assert "3 steps are done, more than the 2 asked for" in fewer.stderr
    assert "steps: 3" in (tmp_path / "run" / "config.yaml").read_text()
    refused = rlvr("train", "--resume", "run", "--lr", "0.1")
    assert refused.returncode == 2
    assert "optim.lr cannot change" in refused.stderr
