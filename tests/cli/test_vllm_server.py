"""vLLM's own server beside the engine of this process: equal greedy texts and pass@1."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest
from conftest import jsonl

from rlvr_cli.model.loading import TINY, model_directory

pytestmark = pytest.mark.skipif(util.find_spec("vllm") is None, reason="vLLM is not installed here")
PATIENCE_S = 400
GREEDY = ("--temperature", "0", "-n", "2", "--max-tokens", "60", "--prompt", "plain")
SUMS = [
    {"problem": f"Calculate {left} + {right}. Reply with the sum only.", "answer": left + right}
    for left, right in [(7, 5), (18, 9), (3, 4), (12, 30)]
]


@pytest.fixture(scope="module", params=[TINY, pytest.param("real", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest) -> str:
    """The built-in policy, and a real chat model."""
    return TINY if request.param == TINY else str(request.getfixturevalue("real_model"))


@pytest.fixture(scope="module")
def endpoint(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """vLLM's server of the model, in a session of its own, all of which ends with the block."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    log = tmp_path_factory.mktemp("server") / "log"
    options = {
        "--model": str(model_directory(model)),
        "--served-model-name": "served",
        "--host": "127.0.0.1",
        "--port": port,
        "--dtype": "float32",
        "--max-model-len": "1024",
        "--max-num-seqs": "8",
        "--generation-config": "vllm",
        "--kv-cache-memory-bytes": str(256 << 20),
    }
    arguments = [part for option in options.items() for part in option]
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"),
                *arguments,
            ],
            env={**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        deadline = time.monotonic() + PATIENCE_S
        while not answers(f"{url}/models"):
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.5)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def measured(rlvr, place: Path, out: str, *arguments: str) -> tuple[list[tuple], dict]:
    """The texts, ends and verdicts of an evaluation, and its pass@k."""
    result = rlvr("eval", *arguments, *GREEDY, "--out", out)
    assert result.returncode == 0, result.stderr
    (file,) = (place / out / "responses").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    (entry,) = json.loads((place / out / "report.json").read_text())["results"]
    keys = ("id", "sample", "response", "finish_reason", "verdict")
    return [tuple(row[key] for key in keys) for row in rows], entry["pass@k"]


def test_a_server_says_what_the_engine_here_says(rlvr, tmp_path, model, endpoint):
    problems = ("chains", "--limit", "8", "--set", "data.answer_format=think_answer")
    if model != TINY:
        (tmp_path / "sums.jsonl").write_text(jsonl(*SUMS))
        problems = ("sums.jsonl",)
    here = measured(rlvr, tmp_path, "here", *problems, "--model", model, "--set", "threads=1")
    there = measured(
        rlvr, tmp_path, "there", *problems, "--model", "served", "--endpoint", endpoint
    )
    assert there == here
    assert len({text for _, _, text, _, _ in here[0]}) > 2  # not one text for all
    assert {verdict for *_, verdict in here[0]} >= {"correct"}
