"""A run of several processes, through the command line: the same files, whatever their number."""

import json
import re
from pathlib import Path

import pytest
import torch
from conftest import invoke
from side_by_side import side_by_side
from transformers import Qwen2ForCausalLM

from rlvr_cli.__main__ import _run
from rlvr_cli.cli.main import app
from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks import group
from rlvr_cli.ranks.group import (
    broadcast_from_first,
    by_the_first,
    deal,
    gather,
    is_first,
    join_group,
    meet,
    share,
    sum_values,
)
from rlvr_cli.runs import checkpoint
from rlvr_cli.runs.checkpoint import read_tensors

SMALL = (
    "--prompts",
    "3",
    "-n",
    "4",
    "--max-tokens",
    "30",
    "--limit",
    "16",
    "--quiet",
    "--set",
    "checkpoint.every=1",
    "--set",
    "eval.limit=3",
    "--set",
    "checkpoint.keep=9",
    "--set",
    "optim.micro_tokens=150",
)
CREATED = re.compile(r'"created": "[^"]*"|"speed": \[[^]]*\]')


def command(*args: object) -> None:
    """The command line in this process."""
    app(list(map(str, args)), standalone_mode=False)


def listed(run: Path) -> list[Path]:
    """The files of a run. Those that share one set of tensors count as one."""
    actual = (p.relative_to(run) for p in run.rglob("*") if p.is_file())
    names = (Path(re.sub(r"-\d{5}-of-\d{5}", "", str(p))) for p in actual)
    return sorted({p for p in names if not p.name.endswith(".index.json")})


def same_files(first: Path, other: Path) -> None:
    """Compare all rollouts to the byte, and weights, state and tokens to float32 rounding."""
    names = listed(first)
    assert names == listed(other)
    for path in names:
        if path.suffix == ".safetensors":
            actual, expected = read_tensors(first / path), read_tensors(other / path)
            assert actual.keys() == expected.keys()
            for key, tensor in expected.items():
                torch.testing.assert_close(actual[key], tensor, rtol=0, atol=1e-5)
        elif path.name.startswith("tokens-"):
            actual, expected = (json.loads((place / path).read_text()) for place in (first, other))
            for row, same in zip(actual, expected, strict=True):
                assert row["text"] == same["text"]
                for key, values in same["figures"].items():
                    assert row["figures"][key] == pytest.approx(values, abs=1e-3), (path, key)
        elif path.name not in ("manifest.json", "manifest.jsonl") and path.parts[0] in (
            "rollouts",
            "config.yaml",
        ):
            assert (first / path).read_bytes() == (other / path).read_bytes(), path


@pytest.fixture
def small_files(monkeypatch) -> None:
    """Checkpoints of several files, which the forked processes write too."""
    monkeypatch.setattr(checkpoint, "_LARGEST_FILE", 1 << 20)


@pytest.fixture(scope="module")
def one_process_run(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("one") / "run"
    assert invoke("train", *SMALL, "--steps", "3", "--out", run).exit_code == 0
    return run


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    "counts", [(2, 1, 1), pytest.param((2, 1, 3), marks=pytest.mark.slow)], ids=str
)
def test_a_run_goes_on_with_any_number_of_processes(counts, one_process_run, tmp_path):
    """A step with each number of processes."""
    run = tmp_path / "run"
    for step, processes in enumerate(counts, 1):
        which = ("--resume", run) if step > 1 else (*SMALL, "--out", run)
        arguments = ("train", *which, "--steps", step)
        if processes == 1:
            assert invoke(*arguments).exit_code == 0
        else:
            side_by_side(processes, lambda arguments=arguments: command(*arguments), tmp_path)
    assert len(list((run / "checkpoints" / "step-3").glob("model-*"))) > 1
    assert len(list((run / "checkpoints" / "step-3" / "trainer").glob("state-*"))) > 2
    same_files(run, one_process_run)


def test_a_result_is_that_of_one_process_to_the_byte(tmp_path):
    arguments = ("eval", "chains", "--limit", "5", "-n", "3", "--max-tokens", "30", "--quiet")
    assert invoke(*arguments, "--out", tmp_path / "one").exit_code == 0
    side_by_side(2, lambda: command(*arguments, "--out", tmp_path / "two"), tmp_path)
    files = sorted(p for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert len(files) >= 2
    for path in files:
        actual = (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_text()
        assert CREATED.sub("", actual) == CREATED.sub("", path.read_text()), path


def exchange() -> None:
    """What the processes tell each other, of which 0 has one more item than 1."""
    first = is_first()
    assert share(range(5)) == (range(0, 5, 2) if first else range(1, 5, 2))
    assert deal("abc") == ([("a", 1), ("c", 1)] if first else [("b", 1), ("a", 0)])
    assert deal([]) == []
    assert gather({"text": "é\ud800", "n": 0.1}) == [{"text": "é\ud800", "n": 0.1}] * 2
    assert gather(None if first else [1, "x" * 10_000]) == [None, [1, "x" * 10_000]]
    assert broadcast_from_first("mine" if first else "theirs") == "mine"
    assert meet()
    with pytest.raises(OSError, match="no room") as failed:
        gather(None, None if first else OSError(28, "no room", "there"))
    assert (failed.value.errno, failed.value.filename) == (28, "there")
    calls: list[int] = []
    by_the_first(lambda: calls.append(1))
    assert calls == [1] * first
    assert sum_values({"a": 0.5, "b": 1.0 if first else 2.0}) == {"a": 1.0, "b": 3.0}


def test_processes_tell_each_other_what_they_found(tmp_path):
    side_by_side(2, exchange, tmp_path)


def leave_alone() -> None:
    """The first, which keeps the count, ends while the other waits for it."""
    assert gather(1) == [1, 1]
    if not is_first():
        assert not meet()


def test_one_that_waits_for_the_first_is_told_that_it_is_gone(tmp_path):
    side_by_side(2, leave_alone, tmp_path)


def test_one_process_keeps_what_it_has():
    assert gather({"a": 1}) == [{"a": 1}]
    assert (broadcast_from_first(3), share([1, 2]), sum_values({"a": 1.0})) == (
        3,
        [1, 2],
        {"a": 1.0},
    )
    assert (deal([1, 2]), meet(), is_first()) == ([(1, 1), (2, 1)], True, True)


def test_a_port_in_use_is_one_line(monkeypatch):
    import socket

    monkeypatch.setattr(group, "report_claims", [])
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        environment = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": "2",
            "RANK": "0",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(UserError, match=f"do not meet at 127.0.0.1:{port}.*address.* in use"):
            join_group()


def test_more_processes_than_gpus_are_one_line(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)  # vLLM sets it, in a test before
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="--processes 4: one a GPU, and this machine has 2"):
        join_group()


def test_a_model_that_cannot_be_sharded_is_one_line(monkeypatch, tmp_path):
    original_init = Qwen2ForCausalLM.__init__

    def with_a_scale(self, config) -> None:
        original_init(self, config)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def work() -> None:
        assert _run(["train", *SMALL, "--out", str(tmp_path / "run")]) == 2

    monkeypatch.setattr(Qwen2ForCausalLM, "__init__", with_a_scale)
    side_by_side(2, work, tmp_path)
    message = "".join((tmp_path / f"log-{rank}").read_text() for rank in (0, 1))
    (line,) = (line for line in message.splitlines() if line.startswith("rlvr: error: "))
    assert "several processes cannot shard Qwen2ForCausalLM (" in line
    assert line.endswith("leave --processes out")
    assert not (tmp_path / "run").exists()
