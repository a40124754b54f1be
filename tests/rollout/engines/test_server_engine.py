"""Rollout servers: their contract before a run, proofs in every step, and faults."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from importlib import util
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch
from conftest import invoke, quantizes, refused
from fake_vllm import FakeVllm, fake_vllm
from small_servers import ON_SERVERS, QUICK, is_even, trainer_on_servers
from small_trainer import make_trainer

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.model.quantized import quantize
from rlvr_cli.rollout.engines.contract import Trainer, check_contract
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.pushed import WeightsDirectory, weights_directory
from rlvr_cli.rollout.engines.server_engine import ServerEngine

PROMPTS = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]
SEEDS = [100, 200, 300, 400]
PARAMS = SamplingParams(samples=3, max_tokens=6)


@pytest.fixture(scope="module")
def policy() -> LoadedModel:
    return load_model("tiny")


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvr_cli.rollout.engines.server_engine._FIRST_WAIT", 0.01)


@contextmanager
def servers(policy: LoadedModel, *faults: str) -> Iterator[tuple[ServerEngine, list[FakeVllm]]]:
    """An engine on a server for each fault (or "")."""
    size = len(policy.tokenizer)
    with (
        fake_vllm(policy.model.config, size, policy.tokenizer) as first,
        fake_vllm(policy.model.config, size, policy.tokenizer) as second,
    ):
        running = [first, second][: len(faults)]
        for server, fault in zip(running, faults, strict=True):
            server.faults.update(fault.split())
        engine = ServerEngine(
            policy.model,
            size,
            policy.stop_ids,
            [server.url for server in running],
            weights_directory(None),
            settings=QUICK,
        )
        try:
            yield engine, running
        finally:
            engine.close()


def contract_of(policy: LoadedModel, limit: float = 1e-3) -> Trainer:
    samples = forward_samples(policy.tokenizer, policy.context)
    return Trainer("tiny", policy.model, policy.tokenizer, samples, limit)


def test_a_good_server_keeps_the_contract_and_has_the_trainers_weights(policy):
    before = [p.clone() for p in policy.model.parameters()]
    with servers(policy, "", "short-context") as (engine, (first, second)):
        lines = check_contract(engine, contract_of(policy))
        assert [line.split(": ")[0] for line in lines] == [first.url, second.url]
        assert "vLLM 0.32.0, float32, context 2048" in lines[0]
        assert engine.context == 1024
        head = policy.model.get_input_embeddings().weight
        for server in (first, second):
            assert torch.equal(server.model.lm_head.weight, head)  # untied, and as the embedding
            assert server.seen["/collective_rpc"] == 4  # two pushes of two calls
    assert all(map(torch.equal, before, policy.model.parameters()))


@quantizes
def test_a_good_server_keeps_the_contract_of_a_base_in_four_bits(policy):
    """Its linear layers are no parameters, and are pushed as the numbers that they stand for."""
    four_bits = replace(policy, model=deepcopy(policy.model))
    quantize(four_bits.model)
    with servers(four_bits, "") as (engine, (server,)):
        check_contract(engine, contract_of(four_bits))
        name = "model.layers.0.self_attn.q_proj"
        pushed = server.model.get_submodule(name).weight
        assert torch.equal(pushed, four_bits.model.get_submodule(name).weight)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("old", "vLLM 0.26.0 does not name the weights"),
        ("no-dev", "VLLM_SERVER_DEV_MODE=1"),
        ("no-versions", "names no version of its weights"),
        ("no-label", "does not take the weights|does not name the version"),
        ("no-scale-out", "--enable-scale-out"),
        ("half", "computes in bfloat16 and rollout.precision is float32"),
        ("says-raw", "raw_logprobs"),
        ("raw", "first push .* nats a token off .* at temperature 0.5"),
        ("tokenizer", "reads a text as other tokens"),
        ("vocabulary", "more than the 275 ids"),
        ("refuses-weights", "no file was found.*--weights-dir HERE:THERE"),
        ("busy", "could not be emptied"),
        ("tied", "first push .* nats a token off"),
        ("leaves-out", "first push .* nats a token off"),
        ("keeps-weights", "first push .* nats a token off"),
        ("other-model", "first push .* nats a token off"),
        ("ignores-seed", "with equal seeds it samples other tokens"),
        ("equal-children", "with equal seeds it samples other tokens"),
        ("one-seed", "with equal seeds it samples other|with other seeds it samples the same"),
        ("fails", "out of luck"),
        ("dies", "disconnected"),
    ],
)
def test_a_server_that_is_not_as_it_must_be_ends_the_run_before_it_begins(policy, fault, said):
    with (
        servers(policy, "", fault) as (engine, (_, bad)),
        pytest.raises(UserError, match=said) as error,
    ):
        check_contract(engine, contract_of(policy))
    assert bad.url in str(error.value)
    assert "rlvr serve tiny" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_second_push_that_is_not_taken_is_noticed(policy):
    with servers(policy, "") as (engine, (server,)):
        load = server.load

        def load_once(directory: Path) -> None:
            load(directory)
            server.faults.add("keeps-weights")

        server.load = load_once  # type: ignore[method-assign]
        with pytest.raises(UserError, match=r"second push of weights it is .* nats a token off"):
            check_contract(engine, contract_of(policy))


def test_one_and_two_servers_give_what_the_engine_of_this_process_gives(policy):
    here = TransformersEngine(policy.model, len(policy.tokenizer), policy.stop_ids, 64)
    expected = dict(here.generate(PROMPTS, PARAMS, SEEDS))
    for faults in ([""], ["", "slow"]):
        with servers(policy, *faults) as (engine, running):
            engine.sync_weights(policy.model.named_parameters())
            groups = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
            dealt = [server.seen["/inference/v1/generate"] for server in running]
        assert dealt == [4 // len(faults)] * len(faults)
        for p, group in groups.items():
            urls = {completion.server for completion in group}
            assert urls == {running[p % len(running)].url}
            for completion, other in zip(group, expected[p], strict=True):
                assert list(completion.token_ids) == list(other.token_ids)
                assert completion.logprobs == pytest.approx(list(other.logprobs), abs=1e-4)


FAULTS = [
    *("hangs", "dies", "fails", "page", "large", "drips", "one-fewer", "twice", "foreign-id"),
    *("negative-id", "positive", "nan", "fewer-logprobs", "no-tokens", "aborts", "other-end"),
    *("spans", "no-spans"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_is_asked_elsewhere_with_the_same_seeds(policy, fault):
    """By hanging, dying, refusing, or answering what is no group of responses."""
    with servers(policy, "", "") as (engine, (_, bad)):
        engine.sync_weights(policy.model.named_parameters())
        expected = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
        bad.faults.add(fault)
        groups = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
    assert groups.keys() == expected.keys()
    for p, group in groups.items():
        assert bad.url not in {completion.server for completion in group}
        for completion, other in zip(group, expected[p], strict=True):
            assert completion.token_ids == other.token_ids


@pytest.mark.parametrize("fault", ["hangs", "fails", "foreign-id", "spans"])
def test_without_another_server_the_error_names_server_and_reason(policy, fault):
    with servers(policy, "") as (engine, (server,)):
        engine.sync_weights(policy.model.named_parameters())
        server.faults.add(fault)
        with pytest.raises(EngineError, match=f"no rollout server .*{server.url}: "):
            dict(engine.generate(PROMPTS[:1], PARAMS, SEEDS[:1]))


def test_a_server_that_comes_back_without_its_weights_is_left_out_until_the_next_push(policy):
    with servers(policy, "", "") as (engine, (first, second)):
        engine.sync_weights(policy.model.named_parameters())
        second.forget()
        groups = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
        assert {c.server for group in groups.values() for c in group} == {first.url}
        assert [server.endpoint for server in engine.active] == [first.url]
        engine.sync_weights(policy.model.named_parameters())
        groups = dict(engine.generate(PROMPTS, PARAMS, SEEDS))
        assert {c.server for group in groups.values() for c in group} == {first.url, second.url}


def test_a_push_that_one_server_refuses_leaves_it_out_and_all_end_the_run(policy):
    with servers(policy, "", "") as (engine, (first, second)):
        second.faults.add("refuses-weights")
        engine.sync_weights(policy.model.named_parameters())
        assert [server.endpoint for server in engine.active] == [first.url]
        assert second.seen["/resume"] == 1  # it does not stay paused
        first.faults.add("refuses-weights")
        with pytest.raises(EngineError, match=f"takes the weights: .*{first.url}.*{second.url}"):
            engine.sync_weights(policy.model.named_parameters())


def test_only_the_newest_push_stays_whole_with_a_manifest_and_nothing_at_the_end(policy, tmp_path):
    size = len(policy.tokenizer)
    with fake_vllm(policy.model.config, size) as server:
        here = tmp_path / "weights"
        (here / "push-000007").mkdir(parents=True)  # of a run that was killed
        directory = weights_directory(str(here))
        engine = ServerEngine(policy.model, size, (1,), [f"{server.url}/v1/"], directory)
        assert not (here / "push-000007").exists()
        with pytest.raises(UserError, match="another process is using it"):
            WeightsDirectory(here, str(here)).open()
        for number in (1, 2):
            engine.sync_weights(policy.model.named_parameters())
            (push,) = here.glob("*push*")
            assert push.name == f"push-{number:06d}"
        files = {path.name: path.stat().st_size for path in push.iterdir()}
        manifest = json.loads((push / "manifest.json").read_text())
        del files["manifest.json"]
        assert manifest == {"push": 2, "bytes": files}
        assert {"config.json", "model-00001.safetensors"} <= files.keys()
        engine.close()
        assert not list(here.glob("*push*"))


def test_large_models_are_pushed_in_several_files(policy, monkeypatch):
    monkeypatch.setattr("rlvr_cli.rollout.engines.pushed.SHARD_BYTES", 300_000)
    with servers(policy, "") as (engine, (server,)):
        engine.sync_weights(policy.model.named_parameters())
        (push,) = engine.directory.here.glob("push-*")
        assert len(list(push.glob("*.safetensors"))) > 5
        expected = policy.model.state_dict()
        for name, tensor in server.model.state_dict().items():
            assert torch.equal(tensor, expected[name]), name


def test_a_push_without_room_is_an_error_before_anything_is_written(policy, monkeypatch):
    class Usage:
        free = 1 << 20

    with servers(policy, "") as (engine, _):
        monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
        with pytest.raises(EngineError, match="a push of the weights takes"):
            engine.sync_weights(policy.model.named_parameters())
        assert not list(engine.directory.here.glob("*push*"))


@pytest.mark.parametrize("text", [":/there", "here:there", "here:"])
def test_a_directory_on_two_machines_is_named_on_both(text):
    with pytest.raises(UserError, match="--weights-dir"):
        weights_directory(text)


def test_servers_read_the_directory_by_their_own_path(policy, tmp_path):
    (tmp_path / "there").symlink_to(tmp_path / "here")
    directory = weights_directory(f"{tmp_path}/here:{tmp_path}/there/")
    size = len(policy.tokenizer)
    with fake_vllm(policy.model.config, size) as server:
        engine = ServerEngine(policy.model, size, (1,), [server.url], directory)
        engine.sync_weights(policy.model.named_parameters())
        loaded = [
            body["kwargs"]["weights_path"]
            for path, body in server.bodies
            if path == "/collective_rpc" and body["method"] == "reload_weights"
        ]
        engine.close()
    assert loaded == [f"{tmp_path}/there/push-000001"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "give a URL such as http://127.0.0.1:8000"),
        ("http://user:secret-key@127.0.0.1:8000", "a key does not belong"),
        ("http://127.0.0.1:8000/?key=secret-key", "a key does not belong"),
    ],
)
def test_a_url_that_is_none_or_holds_a_key_is_refused_without_it(url, said):
    line = refused("train", "--rollout-server", url, "--steps", 1)
    assert said in line
    assert "secret-key" not in line


def test_a_key_goes_to_the_servers_and_nowhere_else(policy, monkeypatch):
    monkeypatch.setenv("RLVR_API_KEY", "secret-of-the-servers")
    with servers(policy, "") as (engine, (server,)):
        engine.sync_weights(policy.model.named_parameters())
        dict(engine.generate(PROMPTS[:1], PARAMS, SEEDS[:1]))
        assert set(server.keys) == {"Bearer secret-of-the-servers"}


def test_steps_on_servers_are_those_of_the_engine_of_this_process():
    here = make_trainer(is_even, *ON_SERVERS)
    expected = [result.figures for result in islice(here.train_steps(), 3)]
    with trainer_on_servers() as (trainer, _):
        for figures, other in zip(
            [result.figures for result in islice(trainer.train_steps(), 3)], expected, strict=True
        ):
            assert figures.update.loss == pytest.approx(other.update.loss, abs=1e-5)
            assert figures.update.grad_norm == pytest.approx(other.update.grad_norm, rel=1e-3)
            assert figures.update.mismatch is not None
            assert figures.update.mismatch < 1e-5


@pytest.mark.parametrize("fault", ["tied", "leaves-out", "keeps-weights", "other-model", "raw"])
def test_a_fault_in_a_step_ends_the_run_before_its_tokens_train(fault):
    """One of two servers takes the weights of the first step no more, and answers as if it did."""
    with trainer_on_servers() as (trainer, (_, second)):
        steps = trainer.train_steps()
        load = second.load

        def load_with_fault(directory: Path) -> None:
            second.faults.add(fault)
            load(directory)

        second.load = load_with_fault  # type: ignore[method-assign]
        next(steps)
        before = [p.detach().clone() for p in trainer.session.policy.model.parameters()]
        with pytest.raises(EngineError) as error:
            next(steps)
        assert f"step 2: the server {second.url} and the trainer disagree by" in str(error.value)
        assert all(map(torch.equal, before, trainer.session.policy.model.parameters()))
        assert trainer.is_between_steps  # so that the end of step 1 is saved


def test_doctor_says_what_the_servers_are(policy):
    with servers(policy, "") as (_, (server,)):
        result = invoke("doctor", "--rollout-server", server.url)
        assert result.exit_code == 0, result.stderr
        assert f"{server.url}: vLLM 0.32.0" in result.stdout.replace("\n", " ")
        server.faults.add("no-dev")
        result = invoke("doctor", "--rollout-server", server.url)
        assert result.exit_code == 2
        assert "VLLM_SERVER_DEV_MODE=1" in result.stderr


def test_serve_prints_a_server_of_this_machine_without_weights():
    result = invoke("serve", "tiny", "--print", "--python", "/vllm/python", "--device", "cpu")
    assert result.exit_code == 0, result.stderr
    words = shlex.split(result.stdout)
    assert words[0] == "env"
    assert "VLLM_SERVER_DEV_MODE=1" in words
    assert words[words.index("/vllm/python") + 2] == "vllm.entrypoints.openai.api_server"
    options = dict(pairwise(words))
    assert options["--host"] == "127.0.0.1"
    assert options["--dtype"] == "float32"
    assert options["--logprobs-mode"] == "processed_logprobs"
    overrides = json.loads(options["--hf-overrides"])
    assert overrides == {"tie_word_embeddings": False, "vocab_size": 275}
    assert "--enable-scale-out" in words
    assert result.stderr == ""
    open_to_all = invoke("serve", "tiny", "--print", "--host", "0.0.0.0", "--", "--max-num-seqs", 8)
    assert "key does not guard the routes" in open_to_all.stderr
    assert shlex.split(open_to_all.stdout)[-2:] == ["--max-num-seqs", "8"]


@pytest.mark.parametrize("python", ["/no/such/python", sys.executable, "/bin/false"])
def test_serve_names_a_python_without_vllm(python):
    if python == sys.executable and util.find_spec("vllm"):
        pytest.skip("this Python has vLLM")
    assert "--python" in refused("serve", "tiny", "--python", python)
