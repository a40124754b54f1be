"""Rollouts through vLLM, in this process, beside the trainer on the same device."""

import copy
import hashlib
import math
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from transformers import PreTrainedModel

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import make_directory, writing
from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.model.loading import default_device
from rlvr_cli.ranks.group import is_joined, world
from rlvr_cli.rollout.engines.base import CompletionStream, Engine, Listener, refuse_prompts

SEQUENCES = 512
"""Responses that are decoded together at most."""
_BATCH_TOKENS = 8192
_GRAPHS = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, SEQUENCES]
"""The batches that vLLM captures a CUDA graph of, and pads others to. It would take 51: each costs
a fraction of a second at the start, and memory."""
_LOG_LEVEL, _QUIET = "VLLM_LOGGING_LEVEL", "CRITICAL"
_SHOWN = 3
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no process of its own: weights are handed over live
    _LOG_LEVEL: _QUIET,
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads stay as they are
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}


class VllmEngine(Engine):
    """An engine on a copy of `model` in vLLM, whose weights are copied once at the start.

    `vocab_size` is the tokenizer's: the copy has no other ids, so none beyond can be sampled.
    `kv_budget_mb` bounds the keys and values on a CPU, `gpu_share` all that vLLM holds on a GPU. It
    computes in `precision`, and can give its memory back if it `sleeps`.
    Raises UserError if vLLM cannot start with the model or the memory.
    """

    name = "vllm"

    def __init__(
        self,
        model: PreTrainedModel,
        vocab_size: int,
        stop_ids: Sequence[int],
        kv_budget_mb: int,
        gpu_share: float,
        precision: str = "float32",
        sleeps: bool = True,
    ) -> None:
        self.stop_ids, self._asleep = list(stop_ids), False
        self._on_gpu = default_device() == "cuda"  # the model may wait on the CPU
        head = model.get_output_embeddings()
        self._vocab_size = min(vocab_size, head.weight.shape[0])
        # All names of a parameter by its first one, and those with a row for every vocabulary id.
        names: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        self._names = {own[0]: own[:1] if self._on_gpu else own for own in names.values()}
        embedding = model.get_input_embeddings()
        of_vocabulary = map(id, (embedding.weight, head.weight, head.bias))
        self._cut = {names[weight][0] for weight in of_vocabulary if weight in names}
        # What a checkpoint holds beside parameters: a buffer may correct the choice of experts.
        stored = model.state_dict(keep_vars=True)
        self._buffers = {n: buffer for n, buffer in model.named_buffers() if n in stored}
        config = copy.deepcopy(model.config)
        text_config = config.get_text_config()
        text_config.vocab_size = self._vocab_size
        # The weights say whether the output layer is the embedding: a configuration may be wrong,
        # and one of the two would overwrite the other. On a CPU vLLM packs the output layer, and a
        # tied one would not follow the embedding when weights are pushed.
        is_tied = self._on_gpu and head.weight is embedding.weight
        config.tie_word_embeddings = text_config.tie_word_embeddings = is_tied
        config.architectures = [type(model).__name__]
        if hasattr(config, "auto_map"):
            del config.auto_map
        if self._on_gpu:
            device: dict[str, Any] = {
                "gpu_memory_utilization": gpu_share,
                "enable_sleep_mode": sleeps,
                "compilation_config": {"cudagraph_capture_sizes": _GRAPHS},
            }
        else:  # vLLM cannot rewind a CPU generator between chunks of a prefill
            context = getattr(text_config, "max_position_embeddings", None) or 0
            device = {
                "enforce_eager": True,
                "kv_cache_memory_bytes": kv_budget_mb << 20,
                "enable_chunked_prefill": False,
                "max_num_batched_tokens": max(_BATCH_TOKENS, context),
            }
        self._joined = is_joined()
        if world() > 1:  # the processes are ours
            device["distributed_executor_backend"] = "external_launcher"
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
                    **device,
                )
            except Exception as error:  # whatever vLLM refuses
                reason = str(error).strip().split("\n")[0]
                raise UserError(
                    f"--engine vllm: vLLM cannot start ({reason}); {_LOG_LEVEL}=INFO shows more"
                ) from None
        self.context = int(self.llm.model_config.max_model_len)
        self._first_push(model)

    def _first_push(self, model: PreTrainedModel) -> None:
        """Copy the weights. Raises UserError unless each of vLLM's own parameters gets one and each
        of the model's has a place: vLLM would only log it."""
        (own,) = self.llm.apply_model(lambda module: module)
        load, expected = own.load_weights, {name for name, _ in own.named_parameters()}
        loaded = set[str]()

        def load_weights(weights: Iterable[tuple[str, torch.Tensor]]) -> Any:
            names = load(weights)
            loaded.update(expected if names is None else names)  # None: this model does not say
            return names

        try:
            with patch.object(own, "load_weights", load_weights):
                self.sync_weights(model.named_parameters())
        except (KeyError, ValueError, AttributeError, AssertionError) as error:
            raise UserError(
                f"--engine vllm: vLLM has no place for a weight of {type(model).__name__} "
                f"({type(error).__name__}: {error}); take --engine transformers"
            ) from None
        lost = sorted(expected - loaded)
        if lost:
            shown = ", ".join([*lost[:_SHOWN], *(["…"] if len(lost) > _SHOWN else [])])
            raise UserError(
                f"--engine vllm: {len(lost)} of vLLM's parameters are none of "
                f"{type(model).__name__}'s ({shown}): what it samples would be of random weights; "
                "take --engine transformers"
            )

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Generate as `Engine.generate` says; groups come as they end, closing aborts the rest."""
        refuse_prompts(prompts, params.max_tokens, self.context)
        core = self.llm.llm_engine
        requests = self.llm.enqueue(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            [self.request(params, seed) for seed in seeds],
            use_tqdm=False,
        )
        index = {request.rsplit("-", 1)[0]: p for p, request in enumerate(requests)}
        heard: Counter[tuple[str, int]] = Counter()
        threads = torch.get_num_threads()
        if self._on_gpu:  # several would spin against the one that feeds the GPU
            torch.set_num_threads(1)
        try:
            while index:
                for output in core.step():
                    if listener is not None:
                        for sample in output.outputs:  # each has all of its tokens so far
                            response = output.request_id, sample.index
                            for token in sample.token_ids[heard[response] :]:
                                listener(token)
                            heard[response] = len(sample.token_ids)
                    if output.finished:
                        p = index.pop(output.request_id)
                        group = [_completion(o, params.temperature) for o in output.outputs]
                        yield p, group if len(group) == params.samples else group * params.samples
        finally:
            torch.set_num_threads(threads)
            if index:
                core.abort_request(list(index))

    def request(self, params: SamplingParams, seed: int) -> Any:
        """Build vLLM's settings for a group; greedy, one response stands for all."""
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

    def sync_weights(self, named_parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy the weights into vLLM's own storage, without a file; drop caches of the old ones."""

        def renamed() -> Iterator[tuple[str, torch.Tensor]]:
            for name, parameter in named_parameters:
                tensor = parameter.detach()
                tensor = tensor[: self._vocab_size] if name in self._cut else tensor
                yield from ((alias, tensor) for alias in self._names.get(name, [name]))
            yield from self._buffers.items()

        if self._asleep:
            torch.cuda.empty_cache()
            self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": renamed()})
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("weights were pushed while responses were being generated")

    def sleep(self) -> None:
        """Drop weights, keys and values on a GPU; call `sync_weights` before `wake`."""
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

        # It ends all groups of processes, also the one that was there before it.
        end = dist.destroy_process_group
        keep = patch.object(dist, "destroy_process_group", lambda group=None: group and end(group))
        with keep if self._joined else nullcontext():
            self.llm.llm_engine.engine_core.shutdown()
            del self.llm
            parallel_state.cleanup_dist_env_and_memory()


def _completion(output: Any, temperature: float) -> Completion:
    """Return a finished response of vLLM's. Raises UserError where its numbers are none."""
    logprobs = output.logprobs.logprobs
    if not all(map(math.isfinite, logprobs)):
        raise UserError("the model gives probabilities that are not finite")
    if temperature == 0:
        logprobs = [0.0] * len(logprobs)
    return Completion(list(output.token_ids), logprobs, output.finish_reason)


def import_vllm() -> Any:
    """Import vllm, configured to stay in this process and to keep stdout clean."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import vllm

    return vllm


def config_directory(config: Any) -> Path:
    """Write a configuration where equal ones lie, under a name that is its checksum, and return the
    directory: vLLM finds what it has compiled by the directory's name. The first of several
    processes writes it. Raises UserError where the cache cannot be written."""
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
    return ModelRegistry.get_supported_archs()


@contextmanager
def unchanged_process() -> Iterator[None]:
    """Undo the side effects of starting vLLM: it prints to stdout and stderr whatever its log
    level, reseeds the random numbers and forbids setting the number of threads."""
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    torch_state, python_state = torch.random.get_rng_state(), random.getstate()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as unread:
        is_quiet = os.environ.get(_LOG_LEVEL, _QUIET) == _QUIET
        for stream in (1, 2):
            os.dup2(unread.fileno() if is_quiet else 2, stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            torch.set_num_threads = set_threads
            torch.set_num_threads(threads)
            torch.random.set_rng_state(torch_state)
            random.setstate(python_state)
