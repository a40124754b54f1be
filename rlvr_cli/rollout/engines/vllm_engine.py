"""Sample with vLLM in this process, on the same device as the trainer."""

import copy
import hashlib
import math
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from transformers import PreTrainedConfig, PreTrainedModel

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import make_directory, writing
from rlvr_cli.core.seeds import continued_seed
from rlvr_cli.core.text import first_line
from rlvr_cli.core.types import Completion, SamplingParams, TokenIds, Unfinished
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.model.loading import default_device
from rlvr_cli.model.pretrained import first_names
from rlvr_cli.ranks.group import is_joined, world
from rlvr_cli.rollout.engines.base import (
    SEQUENCES,
    CompletionStream,
    Engine,
    Extensions,
    Listener,
    NamedTensors,
    not_finite,
    refuse_prompts,
    refuse_responses,
)
from rlvr_cli.rollout.engines.pushed import VllmWeights

BATCH_TOKENS = 8192
_GRAPHS = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, SEQUENCES]
"""The batch sizes of which vLLM captures a CUDA graph, and to which it pads others. Its default is
51 sizes, and each takes a fraction of a second at the start, and memory."""
_LOG_LEVEL = "VLLM_LOGGING_LEVEL"
_QUIET = "CRITICAL"
_SHOWN = 3
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in this process, so that weights are copied directly
    _LOG_LEVEL: _QUIET,
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads stay as they are
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}


class VllmEngine(Engine):
    """An engine on a copy of `model` in vLLM, whose weights are copied once at the start.

    `vocab_size` is the tokenizer's. The copy has no other ids, so none beyond can be sampled.
    `kv_budget_mb` bounds the keys and values on a CPU, `gpu_share` all that vLLM holds on a GPU. It
    computes in `precision`, and can free its memory if it `sleeps`. Raises UserError if vLLM cannot
    start with the model or the memory.
    """

    name = "vllm"

    def __init__(
        self,
        model: PreTrainedModel,
        vocab_size: int,
        stop_ids: TokenIds,
        kv_budget_mb: int,
        gpu_share: float,
        precision: str = "float32",
        sleeps: bool = True,
    ) -> None:
        self.stop_ids = list(stop_ids)
        self._precision = precision
        self._asleep = False
        self._joined = is_joined()
        self._on_gpu = default_device() == "cuda"  # where vLLM runs; the model may be on the CPU
        self._weights = VllmWeights(model, vocab_size, ties=self._on_gpu)
        config = self._vllm_config(model)
        if self._on_gpu:
            options: dict[str, Any] = {
                "gpu_memory_utilization": gpu_share,
                "enable_sleep_mode": sleeps,
                "compilation_config": {"cudagraph_capture_sizes": _GRAPHS},
            }
        else:  # vLLM cannot rewind a CPU generator between chunks of a prefill
            text_config = config.get_text_config()
            context = getattr(text_config, "max_position_embeddings", None) or 0
            options = {
                "enforce_eager": True,
                "kv_cache_memory_bytes": kv_budget_mb << 20,
                "enable_chunked_prefill": False,
                "max_num_batched_tokens": max(BATCH_TOKENS, context),
            }
        if world() > 1:  # the processes are ours
            options["distributed_executor_backend"] = "external_launcher"
        directory = config_directory(config)
        with unchanged_process():
            vllm = import_vllm()
            try:
                self.llm = vllm.LLM(
                    str(directory),
                    dtype=precision,
                    trust_remote_code=False,
                    skip_tokenizer_init=True,
                    load_format="dummy",
                    max_model_len=-1,
                    max_num_seqs=SEQUENCES,
                    logprobs_mode="processed_logprobs",
                    generation_config="vllm",
                    **options,
                )
            except Exception as error:  # whatever vLLM refuses
                raise UserError(
                    f"--engine vllm: vLLM cannot start ({first_line(error)}); {_LOG_LEVEL}=INFO "
                    "shows more"
                ) from None
        self.context = int(self.llm.model_config.max_model_len)
        self._first_push(model)

    def _vllm_config(self, model: PreTrainedModel) -> Any:
        """Return the configuration of vLLM's copy of the model."""
        config = copy.deepcopy(model.config)
        text_config = config.get_text_config()
        text_config.vocab_size = self._weights.vocab_size
        # The weights say whether the output layer is the embedding: a configuration may be wrong,
        # and one of the two would overwrite the other. On a CPU vLLM packs the output layer, and a
        # tied one would not follow the embedding when weights are pushed.
        head_weight = model.get_output_embeddings().weight
        is_tied = self._on_gpu and head_weight is model.get_input_embeddings().weight
        config.tie_word_embeddings = text_config.tie_word_embeddings = is_tied
        config.architectures = [type(model).__name__]
        if hasattr(config, "auto_map"):
            del config.auto_map
        return config

    def _first_push(self, model: PreTrainedModel) -> None:
        """Copy the weights for the first time.

        Raises UserError unless each of vLLM's parameters gets one and each of the model's has a
        place. vLLM would only log it.
        """
        (vllm_model,) = self.llm.apply_model(lambda module: module)
        load_all = vllm_model.load_weights
        expected = {name for name, _ in vllm_model.named_parameters()}
        loaded = set[str]()

        def load_weights(weights: NamedTensors) -> Any:
            names = load_all(weights)
            loaded.update(expected if names is None else names)  # None: this model does not say
            return names

        try:
            with patch.object(vllm_model, "load_weights", load_weights):
                self.sync_weights(merged_parameters(model))
        except (KeyError, ValueError, AttributeError, AssertionError) as error:
            raise UserError(
                f"--engine vllm: vLLM has no place for a weight of {type(model).__name__} "
                f"({type(error).__name__}: {error}); take --engine transformers"
            ) from None
        missing = expected - loaded
        if missing:
            raise UserError(
                f"--engine vllm: {len(missing)} of vLLM's parameters were not loaded from "
                f"{type(model).__name__} ({first_names(missing)}): it would sample from random "
                "weights; take --engine transformers"
            )

    def generate(
        self,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Generate as `Engine.generate` says. Closing the stream aborts unfinished requests."""
        refuse_prompts(prompts, params.max_tokens, self.context)
        requests = [self.request(params, seed) for seed in seeds]
        with closing(self._finished(prompts, requests, listener)) as finished:
            for p, outputs in finished:
                group = [_completion(o, params.temperature, self._precision) for o in outputs]
                if params.temperature == 0:  # all are equal, so only one was sampled
                    group *= params.samples
                yield p, group

    def extend(
        self,
        responses: Sequence[Unfinished],
        params: SamplingParams,
        tokens: int,
        listener: Listener | None = None,
    ) -> Extensions:
        """Extend as `Engine.extend` says, by requests of their own with seeds of their own.

        A generator cannot be put where another stood, so each continuation has a new one, whose
        seed is a function of the response's and its position.
        """
        refuse_responses(responses, params.max_tokens, self.context)
        requests = []
        for response in responses:
            limit = min(tokens, params.max_tokens - response.position)
            part = replace(params, samples=1, max_tokens=limit)
            requests.append(self.request(part, continued_seed(response.seed, response.position)))
        contexts = [response.context for response in responses]
        with closing(self._finished(contexts, requests, listener)) as finished:
            for r, (output,) in finished:
                yield r, _completion(output, params.temperature, self._precision)

    def _finished(
        self, contexts: Sequence[TokenIds], params: Sequence[Any], listener: Listener | None
    ) -> Generator[tuple[int, Sequence[Any]]]:
        """Yield (index, vLLM's outputs) of each context as it is finished. `params` are vLLM's.

        Closing it aborts what is not finished.
        """
        core = self.llm.llm_engine
        requests = self.llm.enqueue(
            [{"prompt_token_ids": list(context)} for context in contexts],
            params,
            use_tqdm=False,
        )
        prompt_index = {request.rsplit("-", 1)[0]: p for p, request in enumerate(requests)}
        tokens_heard: Counter[tuple[str, int]] = Counter()
        threads = torch.get_num_threads()
        if self._on_gpu:  # several would compete with the one that feeds the GPU
            torch.set_num_threads(1)
        try:
            while prompt_index:
                for output in core.step():
                    if listener is not None:
                        for sample in output.outputs:  # each has all of its tokens so far
                            response = (output.request_id, sample.index)
                            for token in sample.token_ids[tokens_heard[response] :]:
                                listener(token)
                            tokens_heard[response] = len(sample.token_ids)
                    if output.finished:
                        yield prompt_index.pop(output.request_id), output.outputs
        finally:
            torch.set_num_threads(threads)
            if prompt_index:
                core.abort_request(list(prompt_index))

    def request(self, params: SamplingParams, seed: int) -> Any:
        """Build vLLM's settings for a group. At temperature 0 only one response is sampled."""
        return import_vllm().SamplingParams(
            n=params.samples if params.temperature > 0 else 1,
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=seed,
            stop_token_ids=self.stop_ids,
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
        )

    def sync_weights(self, named_parameters: NamedTensors) -> None:
        """Copy the weights into vLLM's memory, without a file, and drop caches of the old ones."""

        if self._asleep:
            torch.cuda.empty_cache()
            self.llm.wake_up(tags=["weights"])
        weights = self._weights.of(named_parameters)
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self.drop_keys()

    def drop_keys(self) -> None:
        """Drop keys and values of earlier responses."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("keys were dropped while responses were being generated")

    def sleep(self) -> None:
        """Drop weights, keys and values on a GPU. Call `sync_weights` before `wake`."""
        if self._on_gpu:
            self.llm.sleep(level=2)
            self._asleep = True

    def wake(self) -> None:
        """Allocate room for keys and values on a GPU again."""
        if self._asleep:
            self.llm.wake_up(tags=["kv_cache"])
            self._asleep = False

    def close(self) -> None:
        """Stop vLLM and free its memory."""
        from vllm.distributed import parallel_state

        destroy_group = dist.destroy_process_group

        def destroy_vllm_group(group: dist.ProcessGroup | None = None) -> None:
            if group is not None:
                destroy_group(group)

        with ExitStack() as stack:
            if self._joined:  # vLLM would also end our own group, which was there before it
                stack.enter_context(patch.object(dist, "destroy_process_group", destroy_vllm_group))
            self.llm.llm_engine.engine_core.shutdown()
            del self.llm
            parallel_state.cleanup_dist_env_and_memory()


def _completion(output: Any, temperature: float, precision: str) -> Completion:
    """Convert a finished response of vLLM. Raises UserError if its numbers are not finite."""
    logprobs = output.logprobs.logprobs
    if not all(map(math.isfinite, logprobs)):
        raise not_finite(precision)
    if temperature == 0:
        logprobs = [0.0] * len(logprobs)
    return Completion(list(output.token_ids), logprobs, output.finish_reason)


def import_vllm() -> ModuleType:
    """Import vLLM, configured to stay in this process and to keep stdout clean."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return import_module("vllm")


def config_directory(config: PreTrainedConfig) -> Path:
    """Write the configuration to the cache, in a directory named by its checksum, and return that.

    vLLM finds what it has compiled by the directory's name. The first of several processes writes
    it. Raises UserError if the cache cannot be written.
    """
    digest = hashlib.sha256(config.to_json_string().encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "rlvr" / "vllm" / digest
    if not directory.exists():
        with writing(directory), suppress(FileExistsError):
            make_directory(directory, config.save_pretrained)
    return directory


def known_architectures() -> Collection[str]:
    """Return the architectures that this version of vLLM supports."""
    with unchanged_process():
        import_vllm()
        from vllm.model_executor.models import ModelRegistry
    known: Collection[str] = ModelRegistry.get_supported_archs()
    return known


@contextmanager
def unchanged_process() -> Iterator[None]:
    """Undo the side effects of starting vLLM.

    It prints to stdout and stderr at any log level, reseeds the random numbers and forbids setting
    the number of threads.
    """
    set_num_threads = torch.set_num_threads
    threads = torch.get_num_threads()
    torch_state = torch.random.get_rng_state()
    python_state = random.getstate()
    sys.stdout.flush()
    sys.stderr.flush()
    copies = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as discarded:
        is_quiet = os.environ.get(_LOG_LEVEL, _QUIET) == _QUIET
        for stream in (1, 2):
            os.dup2(discarded.fileno() if is_quiet else 2, stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in enumerate(copies, 1):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            torch.set_num_threads = set_num_threads
            torch.set_num_threads(threads)
            torch.random.set_rng_state(torch_state)
            random.setstate(python_state)
