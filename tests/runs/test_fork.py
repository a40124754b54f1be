"""A new run from an old one: its weights, its optimizer, other settings."""

import json
import shutil

import pytest
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from rlvr_cli.cli.main import app

SMALL = ("--prompts", "2", "-n", "4", "--max-tokens", "48", "-q")
EASY = ("--limit", "32", "--set", "eval.limit=0", "--set", "data.where=level=1")


@pytest.fixture
def rlvr(tmp_path, monkeypatch):
    """Run `rlvr ARGS…` in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, args)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run of two steps, each of one update."""
    run = tmp_path_factory.mktemp("first") / "a"
    options = ("--algo", "reinforce", "--steps", "2", "--out", str(run), *SMALL, *EASY)
    result = CliRunner().invoke(app, ("train", *options))
    assert result.exit_code == 0, result.stderr
    return run


@pytest.fixture
def parent(first, rlvr, tmp_path):
    shutil.copytree(first, tmp_path / "a")
    return rlvr


def state(path, step):
    return load_file(path / "checkpoints" / f"step-{step}" / "trainer" / "state.safetensors")


def test_a_fork_begins_with_weights_and_optimizer_and_trains_with_its_own_settings(
    parent, tmp_path
):
    result = parent("train", "--from", "a", "--lr", "0", "--steps", "1", "--out", "b", "-q")
    assert result.exit_code == 0, result.stderr
    config = yaml.safe_load((tmp_path / "b" / "config.yaml").read_text())
    assert config["parent"] == "a/checkpoints/step-2"
    assert (config["optim"]["lr"], config["steps"], config["algo"]) == (0, 1, "reinforce")
    weights = [
        load_file(tmp_path / run / "model.safetensors")
        for run in ("a/checkpoints/step-2", "b/checkpoints/step-1")
    ]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])  # lr is 0
    counts = [state(tmp_path / run, step)["optimizer.0.step"] for run, step in (("a", 2), ("b", 1))]
    updates = [
        sum(
            row["no_update"] is None
            for row in map(json.loads, (tmp_path / run / "metrics.jsonl").open())
        )
        for run in ("a", "b")
    ]
    assert counts[0] == updates[0] > 0
    assert counts[1] == updates[0] + updates[1]


def test_a_fork_can_be_resumed_as_it_would_have_gone_on(parent, tmp_path):
    unbroken = parent("train", "--from", "a", "--lr", "1e-3", "--steps", "2", "--out", "b", "-q")
    assert unbroken.exit_code == 0, unbroken.stderr
    assert (
        parent("train", "--from", "a", "--lr", "1e-3", "--steps", "1", "--out", "c", "-q").exit_code
        == 0
    )
    repeated = parent("train", "--resume", "c", "--steps", "2", "-q")
    assert repeated.exit_code == 0, repeated.stderr
    left, two = (load_file(tmp_path / r / "checkpoints/step-2/model.safetensors") for r in "bc")
    assert all(left[name].equal(two[name]) for name in left)


def test_another_algorithm_begins_with_a_new_optimizer_and_says_so(parent):
    result = parent("train", "--from", "a", "--algo", "ppo", "--steps", "1", "--out", "b", "-q")
    assert result.exit_code == 0, result.stderr
    assert "its optimizer does not fit and begins anew" in result.stderr


def test_a_fork_of_an_adapter_keeps_its_rank(rlvr):
    pytest.importorskip("peft")
    more = ("--algo", "reinforce", "--steps", "1", *SMALL, *EASY)
    for args in (("--lora", "2", "--out", "a"), ("--from", "a", "--out", "b")):
        result = rlvr("train", *more, *args)
        assert result.exit_code == 0, result.stderr
    result = rlvr("train", *more, "--from", "a", "--algo", "grpo", "--out", "d")
    assert json.loads(result.stdout)["ref_kl"] == 0.0  # the start policy is the reference, not tiny
    result = rlvr("train", *more, "--from", "a", "--lora", "4", "--out", "c")
    assert result.exit_code == 2
    assert "its weights are not those of a model with lora.rank 4" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--from gone", "--from gone: no config.yaml in it; give the directory of a run"),
        ("--from a --model tiny", "--from a brings its own model; leave --model out"),
        ("--resume a --lr 1", "rlvr train --from a begins a new run from its weights"),
        ("--resume a --from a", "--resume goes on with a as it was: --from cannot change"),
    ],
)
def test_what_cannot_be_a_fork_is_one_line(rlvr, tmp_path, args, message):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("steps: 1\n")
    result = rlvr("train", *args.split())
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert message in line
