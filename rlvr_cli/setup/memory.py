"""Predict the memory that a command needs, by part and phase, and choose what fits a machine."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.text import GIB
from rlvr_cli.model.adapter import ALL_LINEAR, LINEAR
from rlvr_cli.model.loading import default_device
from rlvr_cli.model.packing import attention_sizes
from rlvr_cli.model.policy import chunk_rows, decoder_layers, keeps_whole
from rlvr_cli.ranks.group import gather, local_world, world
from rlvr_cli.rollout.engines.vllm_engine import SEQUENCES
from rlvr_cli.setup.plan import is_sharded

_FLOAT, _HALF = 4, 2
"""Bytes of a number."""
_KEPT_HIDDEN, _KEPT_HEADS, _KEPT_INNER, _KEPT_RANK = 7, 4, 4, 7
"""Vectors that autograd keeps per token in one layer, by their width (hidden, heads, MLP inner,
LoRA rank); counted in the layers of Llama and Qwen2."""
_KEPT_NORMS = 2
"""Those of the hidden width that only the gradients of its norms need, which LoRA leaves out."""
_LOGITS = 5
"""Copies of one chunk: logits, log-softmax, softmax, two of the gradient (model/head.py)."""
_ROUNDED = 8
"""Copies in float32 or int32 of the weight that AdamW rounds (training/optimizer.py)."""
_TOKEN = 100
"""Bytes of one sampled token with its log-probability, as Python keeps them."""
_CONTEXT, _GRAPHS, _WORKSPACE = GIB, GIB, GIB
"""Estimates, not measured on a GPU: torch's context and kernels; the CUDA graphs that vLLM has
outside of its share, asleep too; its activations inside the share."""
_ALONE = 0.9
"""The engine's share of a GPU that nothing is trained on."""
_KEYS_MB = 1024
"""MiB for keys and values on a CPU."""
_DRAWN = 16
"""Bytes of a row's logit while a GPU draws its token: as computed, in float32, its logarithm and
its probability (rollout/engines/sampling.py)."""
_WAYS = 3
"""Ways to need less memory that are named."""
VLLM, GRADIENTS = "vLLM", "gradients"


@dataclass(frozen=True)
class Machine:
    """The memory of one process before anything is loaded: a GPU's, or its part of the host's."""

    device: str
    """cuda or cpu."""
    total: int
    free: int


@dataclass(frozen=True)
class Need:
    """The bytes needed, by part: at any time, while sampling, and at the worst stage of an update.

    The moments of AdamW count from the start: vLLM has to wake up beside them after the first step.
    """

    always: dict[str, int]
    sampling: dict[str, int]
    updating: dict[str, int]

    @property
    def phases(self) -> dict[str, int]:
        """Return the bytes of each phase, with those that are always needed."""
        always = sum(self.always.values())
        parts = {"to sample": self.sampling, "to update": self.updating}
        return {phase: always + sum(part.values()) for phase, part in parts.items()}

    @property
    def peak(self) -> int:
        """Return the bytes of the larger phase."""
        return max(self.phases.values())

    @property
    def resident(self) -> int:
        """Return the bytes without those that depend on the lengths of the responses."""
        lasting = max(self.sampling.get(VLLM, 0), self.updating.get(GRADIENTS, 0))
        return sum(self.always.values()) + lasting

    def shortage(self, free: int) -> str:
        """Say how much is needed, in which phase, and how much there is."""
        phase = max(self.phases, key=self.phases.__getitem__)
        needed = f"about {self.peak / GIB:.1f} GiB are needed {phase}"
        return f"{needed} and {free / GIB:.1f} GiB are free"


def this_machine() -> Machine:
    """Measure the memory there is; of several processes, the least that any of them has."""
    device = default_device()
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
    else:
        free = total = host_memory() // local_world()
    measured = gather([total, free])
    return Machine(device, *(min(sizes) for sizes in zip(*measured, strict=True)))


def host_memory() -> int:
    """Return the bytes still available of this computer's or container's memory."""
    limits, group = list[int](), Path("/sys/fs/cgroup")
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable"))
        limits.append(int(line.split()[1]) << 10)
    with suppress(OSError, ValueError):  # no limit is the word max
        limit = int((group / "memory.max").read_text(encoding="utf-8"))
        limits.append(limit - int((group / "memory.current").read_text(encoding="utf-8")))
    return min(limits, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@dataclass(frozen=True)
class Memory:
    """The memory of a command on a machine, which may be another than this one. The models may be
    outlines without weights; a configuration has its engine and types decided."""

    model: Any
    machine: Machine
    training: bool = True
    teacher: Any = None

    def needed(self, config: Config) -> Need:
        """Predict what the command needs on the machine's device."""
        on_gpu, with_vllm = self.machine.device == "cuda", config.engine == "vllm"
        optim, algo, rollout = config.optim, config.algorithm, config.rollout
        has_adapter = config.lora.rank is not None
        count, responses = self.model.num_parameters(), rollout.prompts * rollout.samples
        size = _bytes(optim.weights if self.training else "float32")
        of_engine = _bytes(rollout.precision)
        always, sampling = dict[str, int](), dict[str, int]()
        if with_vllm and on_gpu:
            always["graphs and context"] = _GRAPHS + _CONTEXT
            share = int(rollout.gpu_share * self.machine.total)
            sampling[VLLM] = max(share, _vllm_memory(self.model, config, responses=1))
        elif with_vllm:
            always[VLLM] = of_engine * count + _keys_and_values(config)
        else:
            always["context"] = _CONTEXT if on_gpu else 0
            has_own = has_adapter or is_sharded(optim) or of_engine != size
            always["the engine's weights"] = of_engine * count if self.training and has_own else 0
            sampling["keys and values"] = keys = _keys_and_values(config)
            if on_gpu:
                of_row, of_draw = _decoded_row(self.model, config)
                sampling["logits"] = keys // of_row * of_draw
        if not self.training:
            always["weights"] = 0 if with_vllm and on_gpu else size * count
            return _without_zeros(always, sampling, {})
        if optim.offload != "all":
            copies, trained, of_trained = _trained(self.model, config)
            own, trained_here = size * count // world(), trained // world()
            reference = 0 if config.reference_is_base else own
            if self.teacher is not None:
                reference = size * self.teacher.num_parameters() // world()
            always |= {
                "weights": own,
                "responses of a step": 0 if on_gpu else responses * rollout.max_tokens * _TOKEN,
                "AdamW": copies * 2 * of_trained * trained_here,
                "adapter": copies * _FLOAT * trained_here if has_adapter else 0,
                "reference policy": reference if algo.has_reference_model else 0,
                "critic": (copies - 1) * own,
            }
        stages = _stages_of_update(self.model, config, self.machine)
        return _without_zeros(always, sampling, max(stages, key=lambda part: sum(part.values())))

    def fitted(self, config: Config) -> Config:
        """Decide what depends on the memory: the engine's part of it, and `checkpointing: auto`.

        vLLM's share of a GPU becomes smaller where vLLM could not wake up beside what stays after
        the first update, but not smaller than half of it unless that holds the keys and values of a
        step's responses. Those of transformers get what else that share would leave. Layers are
        computed again in the backward pass where an update would not fit otherwise.
        """
        rollout, optim, machine = config.rollout, config.optim, self.machine
        asked = rollout.gpu_share
        if not self.training and "gpu_share" not in rollout.model_fields_set:
            asked = _ALONE
        most = asked * machine.total
        if rollout.kv_budget_mb is None:
            budget = _KEYS_MB
            if machine.device == "cuda" and not self.lends(config):
                of_row, of_draw = _decoded_row(self.model, config)
                room = min(most, self.left(config) - _WORKSPACE) * of_row / (of_row + of_draw)
                budget = max(1, int(room) >> 20)
            config = _changed(config, "rollout", "kv_budget_mb", budget)
        if self.lends(config):
            responses = 1
            if self.training:
                responses = min(-(-rollout.prompts * rollout.samples // world()), SEQUENCES)
            enough = min(_vllm_memory(self.model, config, responses), most / 2)
            within = max(enough, self.left(config))
            share = asked if most <= within else _share(within, machine)
            config = _changed(config, "rollout", "gpu_share", share)
        if self.training and optim.checkpointing == "auto":
            kept = _changed(config, "optim", "checkpointing", "off")
            is_short = self.needed(kept).phases["to update"] > machine.free
            again = is_short and decoder_layers(self.model)
            config = _changed(config, "optim", "checkpointing", "on") if again else kept
        return config

    def lends(self, config: Config) -> bool:
        """Return whether vLLM has a share of a GPU, which it gives back for an update."""
        return config.engine == "vllm" and self.machine.device == "cuda"

    def left(self, config: Config) -> int:
        """Return the bytes that are left beside what is always needed."""
        return self.machine.free - sum(self.needed(config).always.values())

    def smaller(self, config: Config) -> Iterator[tuple[str, Config]]:
        """Yield settings that need less memory, cheapest first, each beside those before it."""
        rollout, optim, training = config.rollout, config.optim, self.training
        lends, left = self.lends(config), self.left(config)
        least = _share(left, self.machine)
        starts = lends and _vllm_memory(self.model, config, responses=1) <= left
        changes: list[tuple[bool, str, str, Any]] = [
            (starts and least < rollout.gpu_share, "rollout", "gpu_share", least),
            (training and bool(decoder_layers(self.model)), "optim", "checkpointing", "on"),
            (training, "optim", "micro_tokens", max(1, optim.micro_tokens // 4)),
            (not lends, "rollout", "kv_budget_mb", max(1, _keys_and_values(config) >> 22)),
            (training, "optim", "weights", "bfloat16"),
            (training, "lora", "rank", 32),
            (training and self.machine.device == "cuda", "optim", "offload", "all"),
        ]
        texts = list[str]()
        for applies, section, key, value in changes:
            if applies and getattr(getattr(config, section), key) != value:
                config = _changed(config, section, key, value)
                texts.append("--lora 32" if section == "lora" else f"--set {section}.{key}={value}")
                yield " ".join(texts), config

    def advice(self, config: Config) -> str:
        """Name the cheapest settings that would fit, each with the GiB that it would need."""
        ways = (
            f"{text} ({need.peak / GIB:.1f} GiB)"
            for text, changed in self.smaller(config)
            if (need := self.needed(changed)).peak <= self.machine.free
        )
        otherwise = "take a smaller model, or lower --prompts, -n or --max-tokens"
        return ", or ".join(islice(ways, _WAYS)) or otherwise


def _without_zeros(*phases: dict[str, int]) -> Need:
    return Need(*({name: size for name, size in part.items() if size} for part in phases))


def _stages_of_update(model: Any, config: Config, machine: Machine) -> list[dict[str, int]]:
    """Predict the stages in which an update may need most, beside what is always there."""
    optim, rank, shape = config.optim, config.lora.rank, model.config.get_text_config()
    count, layers, hidden = model.num_parameters(), shape.num_hidden_layers, shape.hidden_size
    head, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    outside = head.numel() if head is embedding else head.numel() + embedding.numel()
    layer = max(0, count - outside) // layers
    number = _bytes(optim.precision)
    copies, trained, of_trained = _trained(model, config)
    trains_all, shared_out = rank is None, is_sharded(optim)
    # Of the tokens of a pass, which has one response at least, each model keeps for the backward
    # pass what is in its layers, or their inputs alone and what one layer takes when it is computed
    # again. The graphs of policy and critic live at once.
    tokens = max(optim.micro_tokens, config.rollout.max_tokens)
    sizes, inner = attention_sizes(shape), getattr(shape, "intermediate_size", None) or 4 * hidden
    width = _KEPT_HIDDEN * hidden + _KEPT_HEADS * sizes.heads * sizes.head_dim + _KEPT_INNER * inner
    if rank is not None:
        width += _KEPT_RANK * rank - _KEPT_NORMS * hidden
    graph, again = number * tokens * layers * width, 0
    if optim.checkpointing == "on":
        graph, again = number * tokens * layers * hidden, number * tokens * width
    rows = min(chunk_rows(head.shape[0], torch.device(machine.device)), tokens)
    # Shared out, weights are put together for as long as they compute, and gradients wait whole, in
    # float32, for the last pass: then two copies of a group's are made to add them up, and one of
    # the group before is still there. torch 2.13 keeps none of this between the two passes.
    whole = copies * (_FLOAT if shared_out else of_trained) * trained
    gradients = 0 if optim.offload == "all" else whole
    together = number if shared_out else 0
    kept = copies * count if keeps_whole(optim) else 0
    of_sums = _FLOAT if shared_out and trains_all else 0
    of_head = head.numel() if trains_all else 0
    at_head = {
        GRADIENTS: gradients,
        "weights put together": together * max(outside, kept),
        "forward and backward": graph,
        "logits": _LOGITS * _FLOAT * head.shape[0] * rows,
        "gradients of the output layer": 2 * _FLOAT * of_head,
    }
    in_layer = {
        GRADIENTS: gradients,
        "weights put together": together * max(outside + 2 * layer, kept),
        "forward and backward": copies * graph + again,
        "sums of gradients": 3 * of_sums * layer + together * of_head,
    }
    at_end = {GRADIENTS: gradients, "sums of gradients": of_sums * (2 * outside + layer)}
    in_step = {GRADIENTS: copies * of_trained * trained // world()}
    if trains_all and optim.weights == "bfloat16" and optim.offload != "all":
        largest = max(parameter.numel() for parameter in model.parameters())
        in_step["AdamW in float32"] = _ROUNDED * _FLOAT * largest // world()
    return [at_head, in_layer, at_end, in_step]


def _trained(model: Any, config: Config) -> tuple[int, int, int]:
    """Return how many models are trained (a critic of its own is the second), the numbers that are
    trained of each, and the bytes of a number."""
    critic, rank = config.algorithm.critic, config.lora.rank
    copies = 2 if critic is not None and critic.kind == "own" else 1
    if rank is not None:
        return copies, _adapter_numbers(model, rank, config.lora.targets), _FLOAT
    return copies, model.num_parameters(), _bytes(config.optim.weights)


def _bytes(precision: str) -> int:
    return _HALF if precision == "bfloat16" else _FLOAT


def _adapter_numbers(model: Any, rank: int, targets: Any) -> int:
    """Count the numbers of an adapter: rank times both widths of each linear layer that has one."""
    head = model.get_output_embeddings()
    widths = (
        sum(module.weight.shape)
        for name, module in model.named_modules()
        if isinstance(module, LINEAR) and module is not head
        if targets == ALL_LINEAR or name.endswith(tuple(targets))
    )
    return rank * sum(widths)


def _vllm_memory(model: Any, config: Config, responses: int) -> int:
    """Estimate what vLLM holds inside its share of a GPU: weights, activations, and the keys and
    values of so many responses at full length."""
    of_row, _ = _decoded_row(model, config)
    weights = _bytes(config.rollout.precision) * model.num_parameters()
    return weights + responses * of_row + _WORKSPACE


def _decoded_row(model: Any, config: Config) -> tuple[int, int]:
    """Return the bytes of a response's keys and values at full length, and those that a GPU takes
    for the logits of one of its tokens."""
    shape = model.config.get_text_config()
    sizes = attention_sizes(shape)
    of_token = 2 * shape.num_hidden_layers * sizes.kv_heads * sizes.head_dim
    of_row = _bytes(config.rollout.precision) * of_token * config.rollout.max_tokens
    return of_row, _DRAWN * model.get_output_embeddings().weight.shape[0]


def _keys_and_values(config: Config) -> int:
    """Return the bytes that keys and values may take where vLLM has no share of a GPU."""
    return (config.rollout.kv_budget_mb or _KEYS_MB) << 20


def _share(size: float, machine: Machine) -> float:
    """Return a size as a share of the GPU, rounded down to whole percents."""
    return max(1, math.floor(100 * size / machine.total)) / 100


def _changed(config: Config, section: str, key: str, value: Any) -> Config:
    changed = getattr(config, section).model_copy(update={key: value})
    return config.model_copy(update={section: changed})
