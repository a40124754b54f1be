"""Predict the memory that a command needs, by part and phase, and choose what fits a machine."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.text import GIB
from rlvr_cli.model.adapter import ALL_LINEAR, LINEAR
from rlvr_cli.model.packing import AttentionSizes, attention_sizes
from rlvr_cli.model.policy import chunk_rows, decoder_layers, keeps_full_weights
from rlvr_cli.model.quantized import NF4_BYTES, quantizable
from rlvr_cli.model.settings import MOMENT_BLOCK, SIXTEEN_BITS, LoraConfig
from rlvr_cli.ranks.group import world
from rlvr_cli.rollout.engines.base import SEQUENCES
from rlvr_cli.setup.machine import Machine
from rlvr_cli.setup.plan import is_sharded, samples_a_copy, with_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FLOAT_BYTES = 4

# Vectors that autograd stores per token and layer, by their width, in the layers of Llama and Qwen2
# (tests/setup/test_memory.py counts what they store).
# Input, normalized vector and output of both norms; the seventh for all that is narrower.
_HIDDEN_VECTORS = 7
# Queries, the attention's output for its kernel and for the projection, keys with values.
_HEAD_VECTORS = 4
# Gate, activated gate, up projection, and their product.
_INNER_VECTORS = 4
# One of the adapter's rank per linear layer.
_LORA_VECTORS = 7
# The normalized vectors, which only the gradients of the norms need. LoRA freezes the norms.
_FROZEN_VECTORS = 2

# Tensors of one chunk: logits, log-softmax, softmax, and two for the gradient (model/head.py).
_LOGIT_COPIES = 5
# The gradient of the output layer, and that of the chunk that is added to it. A CPU adds in place,
# but may hold the weights themselves in float32 instead.
_OUTPUT_GRADIENTS = 2
# Copies of a layer's gradients: two to reduce them, and one for the layer before it.
_REDUCED_COPIES = 3
# The first and the second moment of each trained parameter.
_ADAMW_MOMENTS = 2
# Copies, in float32 or int32, of the weight whose numbers AdamW rounds (training/optimizer.py).
_ROUNDING_COPIES = 8
# Bytes of one sampled token with its log-probability, as Python objects.
_SAMPLED_TOKEN_BYTES = 100
# Bytes of one logit while a GPU samples a token: the computed number, its float32 copy, its
# logarithm and its probability (rollout/engines/sampling.py).
_SAMPLED_LOGIT_BYTES = 16

# An estimate, not measured: torch's context and kernels on a GPU.
_TORCH_CONTEXT = GIB
# An estimate, not measured: the CUDA graphs that vLLM keeps outside its share, even asleep.
_VLLM_GRAPHS = GIB
# An estimate, not measured: activations while an engine samples on a GPU.
_WORKSPACE = GIB

# An estimate, not measured: Python, torch and the driver in the host's memory.
_LIBRARIES = 2 * GIB

# The engine's share of a GPU on which nothing is trained.
_EVALUATION_SHARE = 0.9
# MiB for keys and values on a CPU.
_CPU_CACHE_MB = 1024
_ADVISED_RANK = 32
# What the advice divides micro-batches and the cache of keys and values by.
_SMALLER_BY = 4

SAVINGS = (
    "rollout.gpu_share",
    "optim.checkpointing",
    "optim.micro_tokens",
    "rollout.kv_budget_mb",
    "optim.moments",
    "optim.weights",
    "lora.rank",
    "lora.base",
    "optim.offload",
)
"""The settings that need less memory, cheapest first. The first four change the time alone: fewer
responses at once, a forward pass more, more passes. The others change what is trained, or move all
weights to the CPU at every pass."""

VLLM = "vLLM"
GRADIENTS = "gradients"
Parts = dict[str, int]
"""Bytes by what they are needed for."""


@dataclass(frozen=True)
class Shapes:
    """The sizes of a model that decide the memory it needs, as numbers of parameters or widths."""

    parameters: int
    layers: int
    hidden: int
    inner: int
    """The width within an MLP."""
    attention: AttentionSizes
    vocabulary: int
    output_layer: int
    """Parameters of the output layer."""
    outside_layers: int
    """Parameters of the embedding and the output layer, which may be one."""
    largest: int
    """Parameters of the largest weight."""
    linear_widths: Mapping[str, int]
    """Inputs and outputs of each linear layer that may have an adapter, by its name."""
    can_recompute: bool
    """Whether the backward pass can compute the layers again."""
    quantizable: int = 0
    """Parameters of the linear layers that can be quantized to 4 bits."""
    largest_quantizable: int = 0
    """Parameters of the largest of these layers."""

    @property
    def layer(self) -> int:
        """Return the parameters of one layer."""
        return max(0, self.parameters - self.outside_layers) // self.layers

    def adapter_parameters(self, lora: LoraConfig) -> int:
        """Return the parameters of an adapter: its rank times the widths of the adapted layers."""
        widths = (
            width
            for name, width in self.linear_widths.items()
            if lora.targets == ALL_LINEAR or name.endswith(tuple(lora.targets))
        )
        return (lora.rank or 0) * sum(widths)


def read_shapes(model: "PreTrainedModel") -> Shapes:
    """Read the sizes of a model, which may be an outline without weights."""
    config = model.config.get_text_config()
    head = model.get_output_embeddings()
    embedding = model.get_input_embeddings()
    output_layer = head.weight.numel()
    is_tied = head.weight is embedding.weight
    quantized_sizes = [layer.weight.numel() for layer in quantizable(model).values()]
    return Shapes(
        parameters=model.num_parameters(),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        attention=attention_sizes(config),
        vocabulary=head.weight.shape[0],
        output_layer=output_layer,
        outside_layers=output_layer if is_tied else output_layer + embedding.weight.numel(),
        largest=max(parameter.numel() for parameter in model.parameters()),
        linear_widths={
            name: sum(module.weight.shape)
            for name, module in model.named_modules()
            if isinstance(module, LINEAR) and module is not head
        },
        can_recompute=bool(decoder_layers(model)),
        quantizable=sum(quantized_sizes),
        largest_quantizable=max(quantized_sizes, default=0),
    )


@dataclass(frozen=True)
class Need:
    """The bytes needed always, more to sample, and more at the worst stage of an update.

    AdamW's moments count as always needed, because they share the GPU with vLLM after the first
    step.
    """

    always: Parts
    sampling: Parts
    updating: Parts

    @property
    def phases(self) -> Parts:
        """Return the bytes of each phase, with those that are always needed."""
        always = sum(self.always.values())
        return {
            "to sample": always + sum(self.sampling.values()),
            "to update": always + sum(self.updating.values()),
        }

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
        return (
            f"about {self.peak / GIB:.1f} GiB are needed {phase} and {free / GIB:.1f} GiB are free"
        )


@dataclass(frozen=True)
class Memory:
    """The memory of a command on a machine, which need not be this one.

    It predicts for configurations whose engine and number types are decided.
    """

    model: Shapes
    machine: Machine
    training: bool = True
    teacher: Shapes | None = None
    prompt_tokens: int = 0
    """Tokens of the longest prompt."""

    def needed(self, config: Config, dequantizes: bool | None = None) -> Need:
        """Predict what the command needs on the machine's device.

        `dequantizes` says whether its engine samples from dequantized weights of a base in NF4.
        None means that it does if they fit.
        """
        if dequantizes is None:
            is_quantized = self.training and config.lora.base == "nf4"
            dequantizes = not is_quantized or self.holds_dequantized(config)
        return self._needed_if(config, dequantizes)

    def _needed_if(self, config: Config, dequantizes: bool) -> Need:
        """Predict it for an engine that samples from dequantized weights, or from those in NF4."""
        always = self._engine_parts(config, dequantizes)
        updating: Parts = {}
        if self.training:
            always |= self._trainer_parts(config)
            stages = update_stages(self.model, config, self.machine.device, self.prompt_tokens)
            updating = max(stages.values(), key=lambda parts: sum(parts.values()))
        elif not self.lends_gpu(config):  # The weights that vLLM copies stay on the CPU.
            always["weights"] = _FLOAT_BYTES * self.model.parameters
        return Need(
            always=_positive(always),
            sampling=_positive(self._sampling_parts(config)),
            updating=_positive(updating),
        )

    def needed_on_host(self, config: Config) -> Parts:
        """Predict what the command needs in the host's memory beside a GPU.

        Weights are read there, in float32 for training, and a process of several holds its shards
        and gathers a layer. Of a base in NF4 each process holds all codes. Those that are offloaded
        stay, with their gradients and moments.
        """
        if self.machine.device == "cpu":
            return {}
        if not self.training:
            bytes_per_weight = number_bytes(config.rollout.precision)
            is_vllm = self.lends_gpu(config)
            size = (bytes_per_weight if is_vllm else _FLOAT_BYTES) * self.model.parameters
            return {"libraries": _LIBRARIES, "weights": size // (world() if is_vllm else 1)}
        rollout = config.rollout
        parameters = self.model.parameters
        if self.teacher is not None:
            parameters += self.teacher.parameters
        gathered = max(self.model.layer, self.model.outside_layers) if world() > 1 else 0
        weights = _FLOAT_BYTES * parameters // world()
        if config.lora.base == "nf4" and world() > 1:
            # Every process quantizes all weights, and has the codes when the shards of these go.
            sharded = parameters - self.model.quantizable
            codes = int(NF4_BYTES * self.model.quantizable)
            weights = max(weights, _FLOAT_BYTES * sharded // world() + codes)
        sampled_tokens = rollout.prompts * rollout.samples * rollout.max_tokens
        offloaded = 0
        if config.optim.offload == "all":
            trained = trained_parameters(self.model, config)
            moments = int(_ADAMW_MOMENTS * moment_bytes(config, trained) * trained.parameters)
            gradients = trained.bytes_per_parameter * trained.parameters
            offloaded = trained.models * (gradients + moments)
        return _positive(
            {
                "libraries": _LIBRARIES,
                "weights": weights,
                "a layer of all processes": _FLOAT_BYTES * gathered,
                "responses of a step": sampled_tokens * _SAMPLED_TOKEN_BYTES,
                "gradients and AdamW": offloaded // world(),
            }
        )

    def fitted(self, config: Config) -> Config:
        """Decide the memory of the engine, and `checkpointing: auto`.

        If an update would not fit, its backward pass computes the layers again.
        """
        share = config.rollout.gpu_share
        if not self.training and "gpu_share" not in config.rollout.model_fields_set:
            share = _EVALUATION_SHARE
        if config.rollout.kv_budget_mb is None:
            budget = self._cache_budget_mb(config, share)
            config = with_values(config, "rollout", kv_budget_mb=budget)
        if self.lends_gpu(config):
            config = with_values(config, "rollout", gpu_share=self._fitting_share(config, share))
        if self.training and config.optim.checkpointing == "auto":
            config = with_values(config, "optim", checkpointing="off")
            is_short = self.needed(config).phases["to update"] > self.machine.free
            if is_short and self.model.can_recompute:
                config = with_values(config, "optim", checkpointing="on")
        return config

    def lends_gpu(self, config: Config) -> bool:
        """Return whether vLLM has a share of a GPU, which it gives back for an update."""
        return config.engine == "vllm" and self.machine.device == "cuda"

    def unreserved(self, config: Config) -> int:
        """Return the free bytes, less those that are always needed."""
        return self.machine.free - sum(self.needed(config).always.values())

    def smaller(self, config: Config) -> Iterator[tuple[str, Config]]:
        """Yield changes of settings that need less memory: the fewest first, then the cheapest.

        Of equally many, those are cheaper whose dearest one stands earlier in `SAVINGS`.
        """
        available = [name for name in SAVINGS if self._can_save(config, name)]
        for count in range(1, len(available) + 1):
            ranks = combinations(range(len(available)), count)
            for chosen_ranks in sorted(ranks, key=lambda numbers: numbers[::-1]):
                names = [available[number] for number in chosen_ranks]
                changed = self.saving(config, names)
                if changed.lora.base == "full" or changed.lora.rank is not None:
                    yield " ".join(_flag(changed, name) for name in names), changed

    def saving(self, config: Config, names: Sequence[str]) -> Config:
        """Return the configuration with these of `SAVINGS`."""
        optim = config.optim
        if "optim.checkpointing" in names:
            config = with_values(config, "optim", checkpointing="on")
        if "optim.micro_tokens" in names:
            tokens = max(1, optim.micro_tokens // _SMALLER_BY)
            config = with_values(config, "optim", micro_tokens=tokens)
        if "rollout.kv_budget_mb" in names:
            budget = max(1, self._cache_bytes(config) // _SMALLER_BY >> 20)
            config = with_values(config, "rollout", kv_budget_mb=budget)
        if "optim.moments" in names:
            config = with_values(config, "optim", moments="8bit")
        if "optim.weights" in names:
            config = with_values(config, "optim", weights="bfloat16")
        if "lora.rank" in names:
            config = with_values(config, "lora", rank=_ADVISED_RANK)
            if self.machine.device == "cuda" and optim.precision in SIXTEEN_BITS:
                # What `auto` makes of weights that are frozen (setup/plan.py).
                config = with_values(config, "optim", weights=optim.precision)
        if "lora.base" in names:
            config = with_values(config, "lora", base="nf4")
        if "optim.offload" in names:
            config = with_values(config, "optim", offload="all")
        if "rollout.gpu_share" in names:  # The last, for it takes what the others leave.
            share = self._as_share(self.unreserved(config))
            config = with_values(config, "rollout", gpu_share=min(config.rollout.gpu_share, share))
        return config

    def advice(self, config: Config) -> str:
        """Name the fewest and cheapest changes of settings that fit, and the GiB they need."""
        for flags, changed in self.smaller(config):
            peak = self.needed(changed).peak
            if peak <= self.machine.free and self.fits_host(changed):
                return f"{flags} ({peak / GIB:.1f} GiB)"
        return "take a smaller model, or lower --prompts, -n or --max-tokens"

    def fits_host(self, config: Config) -> bool:
        """Return whether the host of a GPU has the memory that is needed there. Unknown memory is
        enough."""
        host = self.machine.host
        return host is None or sum(self.needed_on_host(config).values()) <= host

    def holds_dequantized(self, config: Config) -> bool:
        """Return whether an engine's dequantized copy of a model in NF4 fits."""
        return self._needed_if(config, dequantizes=True).peak <= self.machine.free

    def _engine_parts(self, config: Config, dequantizes: bool) -> Parts:
        """Predict what the engine needs at any time."""
        weights = number_bytes(config.rollout.precision) * self.model.parameters
        if self.lends_gpu(config):
            return {"graphs and context": _VLLM_GRAPHS + _TORCH_CONTEXT}
        if config.engine == "vllm":
            return {VLLM: weights + self._cache_bytes(config)}
        if config.engine == "server":
            return {"context": _TORCH_CONTEXT if self.machine.device == "cuda" else 0}
        has_copy = self.training and samples_a_copy(config)
        if not dequantizes:  # It shares the codes.
            weights = number_bytes(config.rollout.precision) * unquantized(self.model, config)
        return {
            "context": _TORCH_CONTEXT if self.machine.device == "cuda" else 0,
            "the engine's weights": weights if has_copy else 0,
        }

    def _sampling_parts(self, config: Config) -> Parts:
        """Predict what the engine needs only while it samples."""
        if self.lends_gpu(config):
            share = max(config.rollout.gpu_share, self._smallest_share(config))
            return {VLLM: int(share * self.machine.total)}
        if config.engine in ("vllm", "server"):
            return {}
        cache = self._cache_bytes(config)
        if self.machine.device == "cpu":
            return {"keys and values": cache}
        row = decoded_row(self.model, config, self.prompt_tokens)
        return {"keys and values": cache, "logits": cache // row.cache * row.logits}

    def _trainer_parts(self, config: Config) -> Parts:
        """Predict what training keeps on the device from the first update on."""
        optim = config.optim
        rollout = config.rollout
        # Every process has all of the quantized weights, on the GPU.
        quantized = self.model.parameters - unquantized(self.model, config)
        in_nf4 = int(NF4_BYTES * quantized)
        if optim.offload == "all":
            return {"weights": in_nf4}
        bytes_per_weight = number_bytes(optim.weights)
        weights = bytes_per_weight * unquantized(self.model, config) // world() + in_nf4
        trained = trained_parameters(self.model, config)
        trained_here = trained.models * (trained.parameters // world())
        reference = 0
        if config.algorithm.has_reference_model:
            if self.teacher is not None:
                reference = bytes_per_weight * self.teacher.parameters // world()
            elif not config.reference_is_base:
                reference = weights
        tokens = 0
        if self.machine.device == "cpu":  # With a GPU they are in the host's memory.
            tokens = rollout.prompts * rollout.samples * rollout.max_tokens
        has_adapter = config.lora.rank is not None
        return {
            "weights": weights,
            "responses of a step": tokens * _SAMPLED_TOKEN_BYTES,
            "AdamW": int(_ADAMW_MOMENTS * moment_bytes(config, trained) * trained_here),
            "adapter": _FLOAT_BYTES * trained_here if has_adapter else 0,
            "reference policy": reference,
            "critic": (trained.models - 1) * weights,
        }

    def _cache_budget_mb(self, config: Config, share: float) -> int:
        """Return the MiB for keys and values: on a GPU, the engine's share less the logits."""
        if self.machine.device == "cpu" or self.lends_gpu(config):
            return _CPU_CACHE_MB
        room = min(share * self.machine.total, self.unreserved(config) - _WORKSPACE)
        row = decoded_row(self.model, config, self.prompt_tokens)
        return max(1, int(room * row.cache / (row.cache + row.logits)) >> 20)

    def _fitting_share(self, config: Config, share: float) -> float:
        """Return vLLM's share of the GPU, smaller if vLLM could not wake up after an update.

        It is at least half of the set share, or less if that holds a step's responses. vLLM does
        not start in a share that is too small for one.
        """
        responses = 1
        if self.training:
            sampled = config.rollout.prompts * config.rollout.samples
            responses = min(math.ceil(sampled / world()), SEQUENCES)
        wanted = share * self.machine.total
        enough = min(self._vllm_memory(config, responses), wanted / 2)
        available = max(enough, self.unreserved(config))
        fitting = share if wanted <= available else self._as_share(available)
        return max(fitting, self._smallest_share(config))

    def _smallest_share(self, config: Config) -> float:
        """Return the share of a GPU, in whole percents, in which vLLM holds one response."""
        return math.ceil(100 * self._vllm_memory(config, responses=1) / self.machine.total) / 100

    def _vllm_memory(self, config: Config, responses: int) -> int:
        """Predict the share of a GPU, in bytes, in which vLLM holds this number of responses."""
        weights = number_bytes(config.rollout.precision) * self.model.parameters
        row = decoded_row(self.model, config, self.prompt_tokens)
        return weights + responses * row.cache + _WORKSPACE

    def sampled_at_once(self, config: Config) -> int:
        """Predict how many responses of full length a process's engine holds at a time."""
        row = decoded_row(self.model, config, self.prompt_tokens)
        if not self.lends_gpu(config):
            return max(1, self._cache_bytes(config) // row.cache)
        share = int(config.rollout.gpu_share * self.machine.total)
        room = share - self._vllm_memory(config, responses=0)
        return min(SEQUENCES, max(0, room) // row.cache)

    def _cache_bytes(self, config: Config) -> int:
        """Return the bytes of keys and values if vLLM has no share of a GPU.

        vLLM takes its budget. The transformers engine takes no more than all responses have that a
        training samples at once.
        """
        budget = (config.rollout.kv_budget_mb or _CPU_CACHE_MB) << 20
        if config.engine == "vllm" or not self.training:
            return budget
        of_a_step = config.rollout.prompts * config.rollout.samples
        responses = max(of_a_step, config.eval.limit * config.eval.samples)
        return min(budget, responses * decoded_row(self.model, config, self.prompt_tokens).cache)

    def _as_share(self, size: float) -> float:
        """Return bytes as a share of the GPU, rounded down to whole percents."""
        return max(1, math.floor(100 * size / self.machine.total)) / 100

    def _can_save(self, config: Config, name: str) -> bool:
        """Return whether one of `SAVINGS` changes the configuration to one that can run."""
        optim = config.optim
        match name:
            case "rollout.gpu_share":
                free = self.unreserved(config)
                return self.lends_gpu(config) and self._as_share(free) < config.rollout.gpu_share
            case "rollout.kv_budget_mb":
                return not self.lends_gpu(config) and self._cache_bytes(config) >= 2 << 20
        if not self.training:
            return False
        match name:
            case "optim.checkpointing":
                return self.model.can_recompute and optim.checkpointing != "on"
            case "optim.micro_tokens":
                return optim.micro_tokens > 1
            case "optim.moments":
                return optim.moments != "8bit"
            case "optim.weights":
                # Weights in bfloat16 are computed with in it, which a run in another type was
                # denied.
                may_round = ["bfloat16"]
                if self.machine.device == "cpu":
                    may_round.append("float32")
                return optim.weights != "bfloat16" and optim.precision in may_round
            case "lora.rank":
                return config.lora.rank is None or config.lora.rank > _ADVISED_RANK
            case "lora.base":
                return self.model.quantizable > 0 and config.lora.base == "full"
            case "optim.offload":
                return self.machine.device == "cuda" and optim.offload != "all"
        raise ValueError(name)


def _flag(config: Config, name: str) -> str:
    """Return how one of `SAVINGS` is typed, with its value in the configuration."""
    section, _, key = name.partition(".")
    value = getattr(getattr(config, section), key)
    return f"--lora {value}" if name == "lora.rank" else f"--set {name}={value}"


def update_stages(
    model: Shapes, config: Config, device: str, prompt_tokens: int = 0
) -> dict[str, Parts]:
    """Predict the stages at which an update may peak, without what is always needed."""
    optim = config.optim
    trained = trained_parameters(model, config)
    graph = stored_graph(model, config, prompt_tokens)
    trains_all = config.lora.rank is None
    gathers = is_sharded(optim)
    # With FSDP2, weights are gathered while they compute. Gradients stay unsharded, in float32,
    # until the last micro-batch has reduced them. torch 2.13 frees all of it between two passes.
    gathered_bytes = number_bytes(optim.precision) if gathers else 0
    reduced_bytes = _FLOAT_BYTES if gathers and trains_all else 0
    gradient_bytes = _FLOAT_BYTES if gathers else trained.bytes_per_parameter
    gradients = trained.models * trained.parameters * gradient_bytes
    if optim.offload == "all":
        gradients = 0
    # Weights that a pass would gather twice are not freed in between, if the settings permit it.
    held_weights = trained.models * unquantized(model, config) if keeps_full_weights(optim) else 0
    gathered_layer = model.layer
    dequantized = 0
    if config.lora.base == "nf4":
        gathered_layer = max(0, model.layer - model.quantizable // model.layers)
        # In float32, and rounded to what the pass computes in (model/quantized.py).
        rounded_bytes = number_bytes(optim.precision) if optim.precision != "float32" else 0
        dequantized = (_FLOAT_BYTES + rounded_bytes) * model.largest_quantizable
    trained_output = model.output_layer if trains_all else 0
    tokens = tokens_of_a_pass(config, prompt_tokens)
    rows = min(chunk_rows(model.vocabulary, torch.device(device)), tokens)
    step_gradients = trained.models * trained.bytes_per_parameter * trained.parameters // world()
    # A CPU multiplies by the output layer in float32 (model/head.py).
    is_half_on_cpu = device == "cpu" and optim.precision != "float32"
    factor = model.output_layer if is_half_on_cpu and not trains_all else 0
    rounded = 0
    in_float32 = optim.weights == "bfloat16" or optim.moments == "8bit"
    if trains_all and in_float32 and optim.offload != "all":
        rounded = model.largest
    return {
        "backward through the output layer": {
            GRADIENTS: gradients,
            "gathered weights": gathered_bytes * max(model.outside_layers, held_weights),
            "forward and backward": graph.stored,
            "logits": _LOGIT_COPIES * _FLOAT_BYTES * model.vocabulary * rows,
            "gradients of the output layer": _OUTPUT_GRADIENTS * _FLOAT_BYTES * trained_output,
            "output layer in float32": _FLOAT_BYTES * factor,
        },
        "backward through the last layer": {
            GRADIENTS: gradients,
            # The next layer's weights are gathered while this one computes.
            "gathered weights": gathered_bytes
            * max(model.outside_layers + 2 * gathered_layer, held_weights),
            "a dequantized weight": dequantized,
            # Policy and critic both run forward before either runs backward.
            "forward and backward": trained.models * graph.stored + graph.recomputed,
            "sums of gradients": _REDUCED_COPIES * reduced_bytes * model.layer
            + gathered_bytes * trained_output,
        },
        "backward through the embedding": {
            GRADIENTS: gradients,
            "sums of gradients": reduced_bytes * (2 * model.outside_layers + model.layer),
        },
        "step of the optimizer": {
            GRADIENTS: step_gradients,
            "AdamW in float32": _ROUNDING_COPIES * _FLOAT_BYTES * rounded // world(),
        },
    }


class Graph(NamedTuple):
    """The bytes that one model's forward pass leaves for its backward pass."""

    stored: int
    """Of all layers."""
    recomputed: int
    """Of the one layer that the backward pass computes again."""


def stored_graph(model: Shapes, config: Config, prompt_tokens: int = 0) -> Graph:
    """Predict the bytes that autograd stores of one pass through a model."""
    rank = config.lora.rank
    width = (
        _HIDDEN_VECTORS * model.hidden
        + _HEAD_VECTORS * model.attention.heads * model.attention.head_dim
        + _INNER_VECTORS * model.inner
    )
    if rank is not None:
        width += _LORA_VECTORS * rank - _FROZEN_VECTORS * model.hidden
    # A column has one number for each token.
    tokens = tokens_of_a_pass(config, prompt_tokens)
    bytes_per_column = number_bytes(config.optim.precision) * tokens
    if config.optim.checkpointing == "on":  # Only each layer's input is stored.
        return Graph(
            bytes_per_column * model.layers * model.hidden, recomputed=bytes_per_column * width
        )
    return Graph(bytes_per_column * model.layers * width, recomputed=0)


def tokens_of_a_pass(config: Config, prompt_tokens: int = 0) -> int:
    """Return the largest number of tokens in a pass, with prompts of this many tokens.

    It has at least one response with its prompt, and at most those of a step, each prompt once.
    """
    rollout = config.rollout
    of_a_step = rollout.prompts * (prompt_tokens + rollout.samples * rollout.max_tokens)
    return min(max(config.optim.micro_tokens, prompt_tokens + rollout.max_tokens), of_a_step)


def unquantized(model: Shapes, config: Config) -> int:
    """Return the parameters that are not in NF4."""
    return model.parameters - (model.quantizable if config.lora.base == "nf4" else 0)


class Trained(NamedTuple):
    """What the optimizer holds."""

    models: int
    """2 with a critic of its own."""
    parameters: int
    """Of each model."""
    bytes_per_parameter: int


def trained_parameters(model: Shapes, config: Config) -> Trained:
    """Return what the optimizer holds: all parameters of a model, or those of its adapter."""
    critic = config.algorithm.critic
    models = 2 if critic is not None and critic.kind == "own" else 1
    if config.lora.rank is not None:
        return Trained(models, model.adapter_parameters(config.lora), _FLOAT_BYTES)
    return Trained(models, model.parameters, number_bytes(config.optim.weights))


def moment_bytes(config: Config, trained: Trained) -> float:
    """Return the bytes of one moment of one parameter, with its share of a scale."""
    if config.optim.moments == "8bit":
        return 1 + _FLOAT_BYTES / MOMENT_BLOCK
    return trained.bytes_per_parameter


class DecodedRow(NamedTuple):
    """The bytes that one response takes while it is sampled."""

    cache: int
    """Keys and values at full length."""
    logits: int
    """The logits of one token on a GPU."""


def decoded_row(model: Shapes, config: Config, prompt_tokens: int = 0) -> DecodedRow:
    """Predict the bytes that one response to a prompt of this length takes while it is sampled."""
    numbers_per_token = 2 * model.layers * model.attention.kv_heads * model.attention.head_dim
    bytes_per_number = number_bytes(config.rollout.precision)
    tokens = prompt_tokens + config.rollout.max_tokens
    return DecodedRow(
        cache=bytes_per_number * numbers_per_token * tokens,
        logits=_SAMPLED_LOGIT_BYTES * model.vocabulary,
    )


def number_bytes(precision: str) -> int:
    """Return the bytes of a number."""
    return 2 if precision in SIXTEEN_BITS else _FLOAT_BYTES


def _positive(parts: Parts) -> Parts:
    """Return the parts that need any memory."""
    return {name: size for name, size in parts.items() if size}
