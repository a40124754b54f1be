"""What vLLM is asked for and what is made of its answers, with a stand-in for vLLM itself; the
contract of an engine is tested in test_engine.py with the real one."""

import json
import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from small_models import random_model

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines import vllm_engine
from rlvr_cli.rollout.engines.vllm_engine import VllmEngine, import_vllm, unchanged_process


class Core:
    """The engine inside: gives one more token a step to every request, two in all."""

    def __init__(self) -> None:
        self.requests = {}
        self.aborted = []

    def step(self):
        for name, request in list(self.requests.items()):
            request["steps"] += 1
            tokens = [request["first"], 1][: request["steps"]]
            result = request["steps"] == request["first"]  # the first prompt ends last
            outputs = [
                SimpleNamespace(
                    index=n,
                    token_ids=[token + n for token in tokens],
                    logprobs=SimpleNamespace(logprobs=[request["logprob"]] * len(tokens)),
                    finish_reason="stop",
                )
                for n in range(request["params"].n)
            ]
            if result:
                del self.requests[name]
            yield SimpleNamespace(request_id=name, outputs=outputs, finished=result)

    def abort_request(self, names):
        self.aborted += names


class Own(torch.nn.Module):
    """vLLM's own model, of the parameters that it is said to have."""

    def __init__(self, names) -> None:
        super().__init__()
        self.names = names
        self.weights = []

    def named_parameters(self):
        return [(name, None) for name in self.names]

    def load_weights(self, weights):
        self.weights = [(name, tensor.clone()) for name, tensor in weights]
        for name, _ in self.weights:
            if name == "no.place":
                raise KeyError(name)
        return {name for name, _ in self.weights}


class LLM:
    """Keeps what it was started with and the weights that it was given."""

    logprob = -0.5
    asks_for = ()

    def __init__(self, directory, **settings) -> None:
        self.directory = directory
        self.config = json.loads((Path(directory) / "config.json").read_text())
        self.settings = settings
        self.own = Own(self.asks_for)
        self.model_config = SimpleNamespace(max_model_len=128)
        self.llm_engine = Core()
        os.write(1, b"said on stdout by vLLM")
        os.write(2, b"and on stderr")
        torch.manual_seed(99)

    def enqueue(self, prompts, params, use_tqdm):
        names = [f"{p}-x" for p in range(len(prompts))]
        for name, prompt, item in zip(names, prompts, params, strict=True):
            first = prompt["prompt_token_ids"][0]
            request = {"first": first, "params": item, "steps": 0, "logprob": self.logprob}
            self.llm_engine.requests[name.rsplit("-", 1)[0]] = request
        return names

    def collective_rpc(self, name, kwargs):
        assert name == "reload_weights"
        self.own.load_weights(kwargs["weights_iterator"])

    def apply_model(self, function):
        return [function(self.own)]

    @property
    def weights(self):
        return self.own.weights

    def reset_prefix_cache(self) -> bool:
        return not self.llm_engine.requests


@pytest.fixture(autouse=True)
def vllm(monkeypatch, tmp_path):
    """The stand-in; the variables of the environment are as before afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module = SimpleNamespace(LLM=LLM, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", module)
    before = dict(os.environ)
    yield module
    for name in os.environ.keys() - before:
        del os.environ[name]


def make(model, vocab_size=50) -> VllmEngine:
    return VllmEngine(model, vocab_size, (1,), kv_budget_mb=3, gpu_share=0.5)


def test_vllm_is_started_with_the_models_sizes_and_runs_no_code_of_it():
    model = random_model("qwen2-tied")
    engine = make(model, vocab_size=45)
    settings, config = engine.llm.settings, engine.llm.config
    assert settings["trust_remote_code"] is False
    assert settings["kv_cache_memory_bytes"] == 3 * 1024 * 1024
    assert settings["max_num_batched_tokens"] == 8192
    assert settings["logprobs_mode"] == "processed_logprobs"
    assert (config["vocab_size"], config["tie_word_embeddings"]) == (45, False)
    assert config["architectures"] == ["Qwen2ForCausalLM"]
    assert (model.config.vocab_size, model.config.tie_word_embeddings) == (50, True)
    assert engine.context == 128


def test_weights_are_pushed_by_every_name_and_without_rows_of_no_token():
    model = random_model("qwen2-tied")
    engine = make(model, vocab_size=45)
    pushed = dict(engine.llm.weights)
    own = dict(model.named_parameters())
    assert pushed.keys() == {*own, "lm_head.weight"}
    embedding = own["model.embed_tokens.weight"]
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        assert torch.equal(pushed[name], embedding[:45])
    assert all(
        torch.equal(pushed[name], value) for name, value in own.items() if "embed" not in name
    )
    engine.llm.llm_engine.requests["0"] = {}
    with pytest.raises(RuntimeError, match="while responses were being generated"):
        engine.sync_weights([])


@pytest.fixture
def _on_gpu(monkeypatch):
    monkeypatch.setattr(vllm_engine, "default_device", lambda: "cuda")


@pytest.mark.usefixtures("_on_gpu")
@pytest.mark.parametrize("is_tied", [True, False])
def test_on_a_gpu_the_weights_say_whether_they_are_tied_and_not_the_configuration(is_tied):
    model = random_model("qwen2-tied" if is_tied else "qwen2-untied")
    model.config.tie_word_embeddings = not is_tied
    engine = make(model)
    assert engine.llm.config["tie_word_embeddings"] == is_tied
    pushed = [name for name, _ in engine.llm.weights]
    assert ("lm_head.weight" in pushed) != is_tied
    assert len(set(pushed)) == len(pushed)


@pytest.mark.usefixtures("_on_gpu")
def test_on_a_gpu_a_dozen_graphs_are_captured_up_to_the_most_responses_at_once():
    settings = make(random_model()).llm.settings
    sizes = settings["compilation_config"]["cudagraph_capture_sizes"]
    assert (len(sizes), sizes[0], sizes[-1]) == (12, 1, settings["max_num_seqs"])
    assert sizes == sorted(sizes)


@pytest.mark.usefixtures("_on_gpu")
def test_while_a_gpu_samples_torch_has_one_thread_and_then_all_again():
    engine = make(random_model())
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        actual = engine.generate([[2], [1]], SamplingParams(1, 5), [10, 20])
        next(actual)
        assert torch.get_num_threads() == 1
        actual.close()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_equal_configurations_lie_in_one_directory_and_others_in_another():
    first, repeated = (make(random_model("qwen2-tied")).llm.directory for _ in range(2))
    assert first == repeated
    assert make(random_model("qwen2-tied"), vocab_size=45).llm.directory != first
    (other,) = {path.name for path in Path(first).parent.iterdir()} - {Path(first).name}
    assert len(other) == 16


def test_buffers_that_a_checkpoint_holds_are_pushed_with_every_push():
    model = random_model()
    model.model.register_buffer("correction", torch.arange(3.0))
    model.model.register_buffer("of_the_moment", torch.arange(2.0), persistent=False)
    engine = make(model)
    for _ in range(2):
        pushed = dict(engine.llm.weights)
        assert pushed["model.correction"].tolist() == [0, 1, 2]
        assert "model.of_the_moment" not in pushed
        engine.sync_weights([])


def test_weights_without_a_counterpart_are_one_line(monkeypatch):
    monkeypatch.setattr(LLM, "asks_for", ["model.norm.weight", "b", "a", "d", "c"])
    with pytest.raises(UserError, match=r"4 of vLLM's parameters .* from Qwen2.* \(a, b, c, …\)"):
        make(random_model())
    monkeypatch.setattr(LLM, "asks_for", [])
    model = random_model()
    model.no = torch.nn.Module()
    model.no.place = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(UserError, match=r"no place for a weight of Qwen2ForCausalLM \(KeyError"):
        make(model)


def test_closing_ends_a_group_of_processes_only_if_it_was_vllms(monkeypatch):
    ended = []
    monkeypatch.setattr(dist, "destroy_process_group", lambda group=None: ended.append(group))
    state = SimpleNamespace(cleanup_dist_env_and_memory=lambda: dist.destroy_process_group())
    distributed = SimpleNamespace(parallel_state=state)
    monkeypatch.setitem(sys.modules, "vllm.distributed", distributed)
    core = SimpleNamespace(shutdown=lambda: dist.destroy_process_group("vllm's"))
    for joined, expected in ((True, ["vllm's"]), (False, ["vllm's", None])):
        monkeypatch.setattr(vllm_engine, "is_joined", lambda joined=joined: joined)
        engine = make(random_model())
        engine.llm.llm_engine.engine_core = core
        engine.close()
        assert ended == expected
        ended.clear()


def test_a_group_comes_when_it_ends_and_every_token_is_heard_once():
    engine = make(random_model())
    tokens_heard = []
    actual = engine.generate([[2], [1]], SamplingParams(2, 5), [10, 20], tokens_heard.append)
    assert list(actual) == [
        (1, [Completion([1], [-0.5], "stop"), Completion([2], [-0.5], "stop")]),
        (0, [Completion([2, 1], [-0.5] * 2, "stop"), Completion([3, 2], [-0.5] * 2, "stop")]),
    ]
    assert sorted(tokens_heard) == [1, 1, 2, 2, 2, 3]
    assert engine.llm.llm_engine.aborted == []


def test_closing_aborts_what_is_not_done():
    engine = make(random_model())
    actual = engine.generate([[2], [1]], SamplingParams(1, 5), [10, 20])
    next(actual)
    actual.close()
    assert engine.llm.llm_engine.aborted == ["0"]


def test_greedy_one_response_stands_for_all_and_has_no_chance():
    engine = make(random_model())
    ((_, group),) = engine.generate([[1]], SamplingParams(3, 5, temperature=0), [10])
    assert group == [Completion([1], [0.0], "stop")] * 3


def test_the_settings_of_a_request():
    params = SamplingParams(4, 9, temperature=0.7, top_p=0.8)
    requested = make(random_model()).request(params, seed=11)
    assert (requested.n, requested.max_tokens, requested.temperature, requested.top_p) == (
        4,
        9,
        0.7,
        0.8,
    )
    assert (requested.seed, requested.stop_token_ids, requested.ignore_eos) == (11, [1], True)


def test_what_goes_wrong_is_one_line(vllm, monkeypatch):
    monkeypatch.setattr(LLM, "logprob", float("-inf"))
    with pytest.raises(UserError, match="probabilities that are not finite"):
        list(make(random_model()).generate([[1]], SamplingParams(1, 5), [10]))

    def refuse(*args, **kwargs):
        raise ValueError("no room\nfor keys")

    vllm.LLM = refuse
    with pytest.raises(UserError, match=r"--engine vllm: vLLM cannot start \(no room\); "):
        make(random_model())


def test_the_process_is_as_it_was(capfd, monkeypatch):
    monkeypatch.delenv("VLLM_LOGGING_LEVEL", raising=False)
    before = torch.random.get_rng_state(), random.getstate(), torch.get_num_threads()
    with unchanged_process():
        os.write(1, b"said on stdout by vLLM")
        os.write(2, b"and on stderr")
        torch.manual_seed(99)
        random.seed(99)
        torch.set_num_threads(before[2] + 1)
        torch.set_num_threads = None
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (random.getstate(), torch.get_num_threads()) == before[1:]
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    with unchanged_process():
        os.write(1, b"said")
    assert capfd.readouterr() == ("", "said")


def test_what_was_set_stays_set(monkeypatch):
    for name in vllm_engine._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    import_vllm()
    actual = {name: os.environ.pop(name) for name in vllm_engine._ENVIRONMENT}
    assert actual.pop("VLLM_LOGGING_LEVEL") == "INFO"
    assert actual.pop("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"
    assert len(actual) == 3
