"""A server with the routes of vLLM's, in this process: tokens and log-probabilities are real.

It samples with the transformers engine on weights that it reads from the directory of a push, so
that wrong weights are really wrong. `faults` are words that make it fail as servers were seen to.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerBase

from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.model.forward import own_logprobs
from rlvr_cli.model.packing import ATTENTION
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

KV_MB = 64


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "FakeVllm"

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: object) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.answer({})

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def answer(self, body: dict[str, Any]) -> None:
        path = urlsplit(self.path).path
        with self.server.lock:
            self.server.seen[path] += 1
            self.server.bodies.append((path, body))
            self.server.keys.append(self.headers["Authorization"])
        faults = self.server.faults
        is_dev = path not in ("/version", "/tokenize", "/inference/v1/generate")
        if is_dev and "no-dev" in faults:
            return self.send(404, {"detail": "Not Found"})
        if path == "/version":
            return self.send(200, {"version": "0.26.0" if "old" in faults else "0.32.0"})
        if path == "/server_info":
            return self.send(200, {"vllm_config": {"model_config": self.server.settings()}})
        if path == "/weight_info":
            if "no-versions" in faults:
                return self.send(404, {"detail": "Not Found"})
            return self.send(200, {"weight_version": self.server.version})
        if path == "/tokenize":
            tokens = self.server.tokenizer.encode(body["prompt"], add_special_tokens=False)
            return self.send(200, {"tokens": tokens[::-1] if "tokenizer" in faults else tokens})
        if path == "/update_weight_version":
            if "no-label" not in faults:
                self.server.version = body["new_version"]
            return self.send(200, {"success": True})
        if path == "/collective_rpc":
            return self.rpc(body)
        if path == "/reset_prefix_cache":
            return self.send(200, {"success": "busy" not in faults})
        if path in ("/pause", "/resume"):
            return self.send(200, {})
        assert path == "/inference/v1/generate", path
        return self.generate(body)

    def rpc(self, body: dict[str, Any]) -> None:
        if body["method"] == "reload_weights":
            if "refuses-weights" in self.server.faults:
                return self.send(500, {"error": {"message": "no file was found", "code": 500}})
            with self.server.lock:
                try:
                    self.server.load(Path(body["kwargs"]["weights_path"]))
                except (OSError, RuntimeError) as error:
                    return self.send(500, {"error": {"message": str(error), "code": 500}})
        return self.send(200, {"results": [None]})

    def generate(self, body: dict[str, Any]) -> None:
        faults = self.server.faults
        if "no-scale-out" in faults:
            return self.send(403, {"error": {"message": "add --enable-scale-out"}})
        if "hangs" in faults:
            self.server.released.wait(20)
        if "slow" in faults:
            time.sleep(0.2)
        if "dies" in faults:
            self.close_connection = True
            return None
        if "drips" in faults:
            self.send_response(200)
            self.end_headers()
            for _ in range(200):
                if self.server.released.wait(0.05):
                    break
                self.wfile.write(b" ")
            self.close_connection = True
            return None
        if "fails" in faults:
            return self.send(500, {"error": {"message": "out of luck", "code": 500}})
        if "page" in faults:
            return self.send(200, "<html>Gateway</html>")
        if "large" in faults:
            return self.send(200, " " * (40 << 20))
        ids = body["token_ids"]
        largest = self.server.vocab_size + (8 if "vocabulary" in faults else 0)
        if max(ids) >= largest:
            message = f"Token id {max(ids)} is out of vocabulary"
            return self.send(400, {"error": {"message": message, "code": 400}})
        ids = [min(token, self.server.vocab_size - 1) for token in ids]
        choices = self.server.choices(ids, body["sampling_params"])
        text = json.dumps({"choices": choices}).replace("Infinity", "NaN")
        return self.send(200, text)


class FakeVllm(ThreadingHTTPServer):
    """The server of a model of this configuration. Its first weights are random."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, config: PreTrainedConfig, vocab_size: int, tokenizer: PreTrainedTokenizerBase | None
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        config = deepcopy(config)
        config.tie_word_embeddings = False
        config.vocab_size = vocab_size
        self.vocab_size = vocab_size
        self.tokenizer = tokenizer
        self.model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION).eval()
        self.engine = TransformersEngine(self.model, vocab_size, (), KV_MB)
        self.version = "default"
        self.faults: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []
        self.lock = threading.RLock()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about a client that went away."""

    def settings(self) -> dict[str, object]:
        """What the server says of its model."""
        context = self.model.config.max_position_embeddings
        return {
            "dtype": "torch.bfloat16" if "half" in self.faults else "torch.float32",
            "max_model_len": context // 2 if "short-context" in self.faults else context,
            "logprobs_mode": "raw_logprobs" if "says-raw" in self.faults else "processed_logprobs",
        }

    def load(self, directory: Path) -> None:
        """Read the weights of a push, all of them or, with a fault, not."""
        tensors: dict[str, torch.Tensor] = {}
        files = sorted(directory.glob("*.safetensors"))
        if not files:
            raise OSError(f"{directory} holds no weights")
        for file in files:
            tensors.update(load_file(file))
        if "keeps-weights" in self.faults:
            return
        if "tied" in self.faults:  # the output layer does not follow
            del tensors["lm_head.weight"]
        if "leaves-out" in self.faults:
            tensors = {name: x for name, x in tensors.items() if ".layers.1." not in name}
        if "other-model" in self.faults:
            tensors = {name: x * 1.05 for name, x in tensors.items()}
        self.model.load_state_dict(tensors, strict=False)

    def forget(self) -> None:
        """Come back as after a crash: with random weights and no version."""
        with self.lock, torch.no_grad():
            for parameter in self.model.parameters():
                parameter.normal_()
            self.version = "default"

    def choices(self, ids: list[int], given_params: dict[str, Any]) -> list[dict[str, Any]]:
        """The responses to a prompt, as vLLM writes them."""
        samples = given_params["n"]
        params = SamplingParams(
            samples=samples,
            max_tokens=given_params["max_tokens"],
            temperature=given_params["temperature"],
            top_p=given_params["top_p"],
        )
        seed = given_params["seed"]
        if "ignores-seed" in self.faults:
            seed = self.seen["/inference/v1/generate"] * 1000
        if "one-seed" in self.faults:
            seed = 5
        with self.lock:
            self.engine.stop_ids = tuple(given_params["stop_token_ids"])
            if "equal-children" in self.faults:
                single = SamplingParams(**{**asdict(params), "samples": 1})
                ((_, group),) = self.engine.generate([ids], single, [seed])
                group *= samples
            elif not all(bool(x.isfinite().all()) for x in self.model.parameters()):
                completion = Completion(
                    [0] * params.max_tokens, [-9999.0] * params.max_tokens, "length"
                )
                group = [completion] * samples
            else:
                ((_, group),) = self.engine.generate([ids], params, [seed])
            choices = [self.choice(ids, i, completion) for i, completion in enumerate(group)]
        if "one-fewer" in self.faults:
            choices.pop()
        if "twice" in self.faults:
            choices[-1]["index"] = 0
        return choices[::-1]

    def choice(self, ids: list[int], index: int, completion: Completion) -> dict[str, Any]:
        tokens = list(completion.token_ids)
        logprobs = list(completion.logprobs)
        reason = completion.finish_reason
        if "raw" in self.faults:
            logprobs = own_logprobs(self.model, self.vocab_size, [(ids, tokens)]).tolist()
        if "foreign-id" in self.faults:
            tokens[0] = self.vocab_size
        if "negative-id" in self.faults:
            tokens[0] = -1
        if "positive" in self.faults:
            logprobs[0] = 0.5
        if "nan" in self.faults:
            logprobs[0] = float("inf")
        if "fewer-logprobs" in self.faults:
            logprobs.pop()
        if "no-tokens" in self.faults:
            tokens, logprobs = [], []
        if "aborts" in self.faults:
            reason = "abort"
        if "other-end" in self.faults:
            reason = "length" if reason == "stop" else "stop"
        spans = [{"version": self.version, "start": 0, "end": len(tokens)}]
        if "spans" in self.faults and len(tokens) > 1:
            spans[0]["end"] = 1
            spans.append({"version": "next", "start": 1, "end": len(tokens)})
        if "no-spans" in self.faults:
            spans = []
        return {
            "index": index,
            "finish_reason": reason,
            "token_ids": tokens,
            "logprobs": {"content": [{"logprob": logprob} for logprob in logprobs]},
            "weight_versions": spans,
        }


@contextmanager
def fake_vllm(
    config: PreTrainedConfig,
    vocab_size: int,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Iterator[FakeVllm]:
    """Serve on a free port of this machine until the end of the block."""
    server = FakeVllm(config, vocab_size, tokenizer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
