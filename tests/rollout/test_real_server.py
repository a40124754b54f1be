"""One vLLM server, started as `rlvr serve` does: the contract, what it samples, wrong pushes."""

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
import torch
from conftest import invoke, small_run

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.model.forward import own_logprobs
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.program.serve import Serving, environment, server_command
from rlvr_cli.rollout.engines.contract import Trainer, check_contract
from rlvr_cli.rollout.engines.pushed import weights_directory
from rlvr_cli.rollout.engines.server_engine import RequestFailedError, ServerEngine

pytestmark = pytest.mark.skipif(util.find_spec("vllm") is None, reason="vLLM is not installed here")
PATIENCE_S = 400
PROMPTS = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]
SEEDS = [100, 200, 300, 400]
PARAMS = SamplingParams(samples=8, max_tokens=40, temperature=0.7)
MORE = ("--max-num-seqs", "64", "--kv-cache-memory-bytes", str(256 << 20))


@pytest.fixture(scope="module")
def policy() -> LoadedModel:
    return load_model("tiny")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a session of its own, all of which ends with the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = Serving("tiny", sys.executable, port=port, device="cpu", more=MORE)
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            server_command(serving),
            env={**os.environ, **environment(serving)},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.fixture
def engine(policy: LoadedModel, url: str) -> Iterator[ServerEngine]:
    engine = ServerEngine(
        policy.model, len(policy.tokenizer), policy.stop_ids, [url], weights_directory(None)
    )
    yield engine
    engine.close()


def contract_of(policy: LoadedModel) -> Trainer:
    samples = forward_samples(policy.tokenizer, policy.context)
    return Trainer("tiny", policy.model, policy.tokenizer, samples, limit=1e-3)


def test_it_keeps_the_contract_and_samples_what_the_trainer_would(policy, engine):
    (line,) = check_contract(engine, contract_of(policy))
    assert "float32, context 2048; two pushes taken" in line
    groups = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
    for p, group in groups.items():
        pairs = [(PROMPTS[p], completion.token_ids) for completion in group]
        expected = own_logprobs(policy.model, len(policy.tokenizer), pairs, PARAMS.temperature)
        sampled = torch.tensor([x for completion in group for x in completion.logprobs])
        assert float((expected - sampled).abs().max()) < 1e-4
        ((_, alone),) = engine.generate([PROMPTS[p]], PARAMS, [SEEDS[p]])
        assert [c.token_ids for c in alone] == [c.token_ids for c in group]


def test_a_stream_that_is_closed_leaves_the_server_ready_for_a_push(policy, engine):
    engine.sync_weights(policy.model.named_parameters())
    stream = engine.generate(PROMPTS * 8, PARAMS, range(0, 3200, 100))
    next(stream)
    stream.close()
    engine.sync_weights(policy.model.named_parameters())
    assert dict(engine.generate(PROMPTS, PARAMS, SEEDS)).keys() == set(range(4))


@pytest.mark.parametrize("left_out", [".layers.1.", "lm_head", "model.embed_tokens"])
def test_a_push_that_leaves_weights_out_is_noticed(policy, engine, left_out, monkeypatch):
    """Every call of it is answered with 200, or the server says that something is missing."""
    named = engine.weights.of

    def fewer(named_parameters):
        return (pair for pair in named(named_parameters) if left_out not in pair[0])

    monkeypatch.setattr(engine.weights, "of", fewer)
    with pytest.raises(UserError, match=r"nats a token off|takes the weights"):
        check_contract(engine, contract_of(policy))


def test_a_directory_that_the_server_does_not_see_is_named(policy, engine):
    engine.directory.there = "/nowhere"
    with pytest.raises(UserError, match=r"do servers see /nowhere.*HERE:THERE"):
        check_contract(engine, contract_of(policy))


def test_other_weights_of_another_run_have_another_name(policy, engine):
    engine.sync_weights(policy.model.named_parameters())
    (server,) = engine.servers
    server.ask("/update_weight_version", {"new_version": "1"})
    with pytest.raises(EngineError, match=r"weights that it names 1, not "):
        dict(engine.generate(PROMPTS, PARAMS, SEEDS))
    with pytest.raises(RequestFailedError):
        server.load(str(Path("/nowhere")), "2")


def test_a_run_one_step_ahead_proves_each_push_and_stores_the_next_batch(url, tmp_path):
    run = tmp_path / "run"
    settings = ("eval.limit=0", "checkpoint.every=1", "checkpoint.keep=3", "optim.lr=1e-3")
    words = [part for setting in settings for part in ("--set", setting)]
    short = ("--algo", "grpo", "--steps", "3", "--max-tokens", "12", *words)
    result = invoke(*small_run(*short, "--rollout-server", url, "--ahead", "1", "--out", run))
    assert result.exit_code == 0, result.stderr
    lines = (run / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    assert all(step["mismatch"] < 1e-4 for step in steps)
    stored = run / "checkpoints" / "step-2" / "trainer" / "state.json"
    state = json.loads(stored.read_text())
    assert state["weight_version"] == 2
    (version,) = {group["weight_version"] for group in state["ahead"]["sampled"]}
    assert version == 1
