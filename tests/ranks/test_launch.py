"""Processes end as one: one exit code, one line, nothing left behind, nothing lost."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import invoke
from side_by_side import side_by_side
from test_group import SMALL, one_process_run, same_files  # noqa: F401

from rlvr_cli.__main__ import _run
from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks.group import is_first
from rlvr_cli.ranks.launch import begin, exit_code, reports_errors
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ({0: 2, 1: 2}, 2),
        ({1: 3, 2: -signal.SIGTERM}, 3),
        ({1: 2, 0: 130}, 130),
        ({0: -signal.SIGTERM}, 130),
    ],
)
def test_the_code_is_that_of_the_first_process_or_of_the_first_to_fail(failed, code):
    assert exit_code(failed, 3) == code


def test_a_killed_process_is_named():
    with pytest.raises(UserError, match=r"process 1 of 3 was killed \(SIGKILL\), so"):
        exit_code({0: 2, 1: -signal.SIGKILL}, 3)


def test_what_the_processes_cannot_agree_on_is_one_line(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)  # vLLM sets it, in a test before
    with pytest.raises(UserError, match="--processes 3: 2 of 2 were started here already"):
        begin(3, False)
    with pytest.raises(UserError, match="with torchrun every process needs the problems"):
        begin(None, True)
    assert not reports_errors()


def failing(run: Path) -> None:
    """A run whose second process meets a fault as it samples for the second step."""
    generate = TransformersEngine.generate

    def fails(self, *args):
        if not is_first() and (run / "checkpoints" / "step-1").is_dir():
            raise RuntimeError("an illegal memory access")
        yield from generate(self, *args)

    TransformersEngine.generate = fails
    assert _run(["train", *SMALL, "--steps", "9", "--out", str(run)]) == 2


def test_a_fault_in_one_process_ends_all_with_one_line_and_loses_no_step(tmp_path):
    side_by_side(2, lambda: failing(tmp_path / "run"), tmp_path)
    message = "".join((tmp_path / f"log-{rank}").read_text() for rank in (0, 1))
    (line,) = (line for line in message.splitlines() if "error" in line)
    assert "illegal memory access" in line
    step = int(re.search(r"saved up to step (\d)", line)[1])
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == step >= 1
    assert (tmp_path / "run" / "checkpoints" / f"step-{step}").is_dir()


def started(*args: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rlvr_cli", "train", *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def children_of(parent: int) -> list[int]:
    listing = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return list(map(int, listing.split()))


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes under /proc")
@pytest.mark.slow
def test_a_run_of_three_goes_on_after_a_kill_and_after_a_signal(one_process_run, tmp_path):  # noqa: F811
    run = tmp_path / "run"
    command = started(*SMALL, "--steps", 3, "--out", run, "--processes", 3)
    assert '"step": 1' in command.stdout.readline()
    of_it = children_of(command.pid)
    os.kill(of_it[1], signal.SIGKILL)
    _, message = command.communicate(timeout=600)
    assert command.returncode == 2
    assert message.strip().splitlines()[-1].startswith("rlvr: error: process 1 of 3 was killed")
    assert not any(Path(f"/proc/{child}").exists() for child in of_it)

    stopped = started("--resume", run, "--processes", 2, "--quiet")
    assert '"step"' in stopped.stdout.readline()
    stopped.send_signal(signal.SIGTERM)
    _, message = stopped.communicate(timeout=600)
    if stopped.returncode:
        assert stopped.returncode == 130, message
        assert "go on with rlvr train --resume" in message
        assert invoke("train", "--resume", run).exit_code == 0
    same_files(run, one_process_run)


def on_two_nodes(places: Sequence[Path], *args: object) -> list[str]:
    """What two agents of torchrun, each in a directory of its own, wrote of the one command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node"]
    agent += ["1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    command = [*agent, "-m", "rlvr_cli", "train", *map(str, args)]
    both = subprocess.PIPE, subprocess.STDOUT
    options = {"stdout": both[0], "stderr": both[1], "text": True}
    options["env"] = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    nodes = [subprocess.Popen(command, cwd=place, **options) for place in places]
    return [node.communicate(timeout=600)[0] for node in nodes]


@pytest.mark.skipif(sys.platform != "linux", reason="gloo is told the name of the loopback")
@pytest.mark.slow
def test_two_nodes_of_torchrun_train_what_one_process_does(one_process_run, tmp_path):  # noqa: F811
    places = [tmp_path / name for name in ("one", "other")]
    for place in places:
        place.mkdir()
    message = "".join(on_two_nodes(places, *SMALL, "--steps", 2, "--out", tmp_path / "run"))
    assert message.count('{"step": ') == 2, message
    names = ["held-out-before", "step-000001", "step-000002"]
    for name in (f"rollouts/{name}.jsonl" for name in names):
        assert (tmp_path / "run" / name).read_bytes() == (one_process_run / name).read_bytes()

    message = "".join(on_two_nodes(places, *SMALL, "--steps", 2, "--out", "run"))
    lines = [line for line in message.splitlines() if line.startswith("rlvr: error: ")]
    line = "run: not seen by all processes: name a directory that all nodes share"
    assert lines == [f"rlvr: error: {line}"], message
    assert message.count("exitcode  : 2 ") >= 1
    assert not any(list(place.iterdir()) for place in places)
