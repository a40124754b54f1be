"""Load what a command samples and trains with: rewards, models, engine and verifier."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch

from rlvr_cli.algorithm.reward import RewardConfig, RewardObjects
from rlvr_cli.config import Config
from rlvr_cli.config.sections import ServersConfig
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.signals import raise_if_interrupted
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.versions import describe_versions, untried_versions
from rlvr_cli.data.prompts import forward_samples, turn_end, writes_date
from rlvr_cli.model.adapter import adapter_parameters, add_adapter, merged_parameters
from rlvr_cli.model.forward import PACKED, Forward, Sample, choose_forward
from rlvr_cli.model.loading import LoadedModel, cast, load_model, model_outline, unused_gpu
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.model.quantized import dequantize, quantize, quantized_copy
from rlvr_cli.model.settings import SIXTEEN_BITS
from rlvr_cli.ranks.group import broadcast_from_first, gather, make_whole, shard, world
from rlvr_cli.rollout.engines.base import Engine, check_scores
from rlvr_cli.rollout.engines.contract import Trainer, check_contract
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.pushed import weights_directory
from rlvr_cli.rollout.engines.server_engine import ServerEngine, ServerSettings
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.setup.checks import (
    check_adapter,
    check_architecture,
    check_memory,
    check_quantization,
    check_range,
    check_vocabulary,
    naming_the_teacher,
)
from rlvr_cli.setup.machine import this_machine
from rlvr_cli.setup.memory import Memory, read_shapes
from rlvr_cli.setup.plan import Plan, is_sharded, samples_a_copy, with_values
from verifiers import Verifier

if TYPE_CHECKING:
    from rlvr_cli.rewards.rewarder import Rewarder

_USUAL_PROMPT = 256
"""Tokens of a prompt, for memory, before any was rendered: one of GSM8K in a box has some 150."""


@dataclass(frozen=True)
class Session:
    """A loaded policy, ready to be sampled and judged."""

    plan: Plan
    policy: LoadedModel
    engine: Engine
    sampler: Sampler
    forward: Forward
    device: torch.device
    """Where the engine samples and the trainer computes. The policy's weights may be on the CPU."""
    memory: Memory
    opened_rewarder: "Rewarder | None" = None
    """None in an evaluation, which rewards by verdicts alone."""
    teacher: LoadedModel | None = None
    teacher_forward: Forward = PACKED
    servers: Sequence[str] = ()
    """A line for each rollout server, which keeps its contract."""

    @cached_property
    def rewarder(self) -> "Rewarder":
        """Return what rewards responses in training, by default the verdicts."""
        from rlvr_cli.rewards.rewarder import Rewarder

        return self.opened_rewarder or Rewarder()

    @property
    def clocks(self) -> "dict[str, Sampler | Rewarder]":
        """Return the objects that time verdicts and rewards, by the name of the phase."""
        return {"verification": self.sampler, "reward": self.rewarder}

    def push_weights(self) -> None:
        """Hand the policy's present weights to the engine."""
        model = self.policy.model
        weights = merged_parameters(model)
        if self.engine.has_adapter:
            weights = adapter_parameters(model)
        self.engine.sync_weights(weights)

    @property
    def versions(self) -> str:
        """Describe the libraries, and which of their versions were tried, in one line."""
        return describe_versions(libraries(self.plan.config.engine))

    @property
    def description(self) -> str:
        """Describe model, device and engine in one line."""
        device = self.device.type
        if device == "cpu":
            device = f"cpu, {plural(self.plan.config.threads or 1, 'thread')}{unused_gpu()}"
        size = self.memory.model.parameters / 1e6
        choice = self.plan.engine
        source = ""
        if self.plan.config.lora.base == "nf4" and choice.name == "transformers":
            source = ", from a dequantized copy of the merged weights"
            if self.engine.has_adapter:
                source = ", from the 4-bit weights, since memory holds no dequantized copy"
        return (
            f"{size:.1f} M parameters on {device}; engine {choice.name} ({choice.reason}){source}"
        )


@contextmanager
def open_session(
    plan: Plan,
    training: bool = False,
    date: datetime | None = None,
    objects: RewardObjects | None = None,
) -> Iterator[Session]:
    """Load rewards, models, engine and verifier. On leaving, stop them all.

    Without `training`, responses are not rewarded, and no model but the policy is loaded. A chat
    template may write the `date` of the first process, unless the settings have another. `objects`
    are the function objects among the rewards, by name.
    """
    warning = untried_versions(libraries(plan.config.engine))
    if warning:
        LOG.warning("warning    %s", warning)
    with ExitStack() as stack:
        verifier = stack.enter_context(Verifier(format=plan.answer_format))
        config = plan.config.model_copy(update={"reward": RewardConfig()})
        rewarder = None
        if training:
            from rlvr_cli.setup.parts import load_parts

            rewarder = stack.enter_context(_rewarder(plan.config, objects))
            config = with_values(plan.config, "reward", sources=rewarder.sources)
            config = with_values(config, "algorithm", sources=load_parts(config.algorithm))
        memory, config = fit_to_machine(config, training)
        device = torch.device(memory.machine.device)
        models, config = load_models(config, device, training)
        policy = models.policy
        raise_if_interrupted()
        if date is not None and config.data.date is None and writes_date(policy.tokenizer):
            first_date = datetime.fromisoformat(broadcast_from_first(str(date)))
            config = with_values(config, "data", date=first_date)
        plan = replace(plan, config=config).with_threads(memory.model.parameters)
        threads = torch.get_num_threads()
        torch.set_num_threads(plan.config.threads or 1)
        samples = forward_samples(policy.tokenizer, policy.context)
        forward, teacher_forward = choose_forwards(models, samples, config.engine, training)
        if training or config.engine != "vllm":
            check_range(config.model, policy.model, samples[0], config, training)
        if models.teacher is not None:
            with naming_the_teacher():
                check_range(models.teacher.name, models.teacher.model, samples[0], config, training)
        if training and config.optim.weights in SIXTEEN_BITS:
            for model in models:
                if model is not None:
                    cast(model.model, getattr(torch, config.optim.weights))
        engine = start_engine(policy, config, forward, memory, training)
        servers: list[str] = []
        try:
            if config.engine == "vllm":
                limit = config.rollout.mismatch_limit
                check_scores(engine, policy.model, len(policy.tokenizer), samples, limit)
            if isinstance(engine, ServerEngine):
                servers = check_servers(engine, policy, samples, config)
                policy = replace(policy, context=min(policy.context, engine.context))
            lora = config.lora
            if training and lora.rank is not None:
                add_adapter(policy.model, lora.rank, lora.alpha, lora.targets, config.seed)
            yield Session(
                plan=plan,
                policy=policy,
                engine=engine,
                sampler=Sampler(engine, policy.tokenizer, verifier),
                forward=forward,
                device=device,
                memory=memory,
                opened_rewarder=rewarder,
                teacher=models.teacher,
                teacher_forward=teacher_forward,
                servers=servers,
            )
        finally:
            engine.close()
            torch.set_num_threads(threads)


def _rewarder(config: Config, objects: RewardObjects | None) -> "Rewarder":
    """Load the rewards of a run."""
    from rlvr_cli.rewards.rewarder import Rewarder

    return Rewarder(
        config.reward,
        config.rollout.max_tokens,
        advantage=config.algorithm.advantage,
        objects=objects,
    )


def say_policy(name: str, session: Session, display: Display) -> None:
    """Say which policy is sampled, on which device, and with which versions of the libraries."""
    display.say("policy", f"{name}: {session.description}")
    display.say("versions", session.versions)
    for line in session.servers:
        display.say("server", line)


def libraries(engine: str) -> list[str]:
    """Return the libraries that compute if this engine samples."""
    return ["torch", "transformers", *(["vllm"] if engine == "vllm" else [])]


def fit_to_machine(config: Config, training: bool) -> tuple[Memory, Config]:
    """Predict a command's memory and fit its settings to the machine, before a model is loaded.

    Raises UserError for a model that does not fit, and for what vLLM, peft or torch would refuse
    once it is loaded.
    """
    outline = model_outline(config.model)
    check_architecture(config, outline)
    teacher = None
    if training:
        check_adapter(config)
        check_quantization(config, outline)
        if config.teacher is not None:
            with naming_the_teacher():
                teacher = read_shapes(model_outline(config.teacher))
    memory = Memory(read_shapes(outline), this_machine(), training, teacher, _USUAL_PROMPT)
    config = memory.fitted(config)
    check_memory(memory, config)
    if training and is_sharded(config.optim):
        shard(outline, decoder_layers(outline))
    return memory, config


class LoadedModels(NamedTuple):
    """The models of a command."""

    policy: LoadedModel
    teacher: LoadedModel | None


def load_models(
    config: Config, device: torch.device, training: bool
) -> tuple[LoadedModels, Config]:
    """Load the policy and, for training, the teacher. Return them, and settings with all ends.

    Weights that training will round or shard wait on the CPU, in float32, until the model's
    log-probabilities were checked. An evaluation leaves the GPU to vLLM. Of several processes each
    holds its shards alone of what waits.
    """
    optim = config.optim
    dtype = "float32"
    if training:
        on_cpu = world() > 1 or optim.weights in SIXTEEN_BITS or optim.offload == "all"
    else:
        on_cpu = config.engine == "vllm" and device.type == "cuda"
        if on_cpu:
            dtype = config.rollout.precision
    is_quantized = training and config.lora.base == "nf4"
    policy = load_model(config.model, on_cpu or is_quantized, dtype)
    if is_quantized:
        quantize(policy.model)
        if not on_cpu:
            policy.model.to(device)
    ends = added_ends(policy, config)
    config = with_values(config, "rollout", ends=ends)
    stop_ids = {*policy.stop_ids, *policy.tokenizer.convert_tokens_to_ids(list(ends))}
    policy = replace(policy, stop_ids=tuple(sorted(stop_ids)))
    if not training or config.teacher is None:
        return LoadedModels(policy, None), config
    with naming_the_teacher():
        teacher = load_model(config.teacher, on_cpu)
    check_vocabulary(teacher, policy, config.teacher)
    policy = replace(policy, context=min(policy.context, teacher.context))
    return LoadedModels(policy, teacher), config


def added_ends(policy: LoadedModel, config: Config) -> tuple[str, ...]:
    """Return the tokens that end a response in addition to the model's own stop tokens.

    They are those of `rollout.ends` or, if it is not set, the token with which the chat template
    ends a turn. Raises UserError for an end that is not a token.
    """
    tokenizer = policy.tokenizer
    vocabulary = tokenizer.get_vocab()
    ends = config.rollout.ends
    if ends is None:
        end = turn_end(tokenizer)
        if end is None or vocabulary[end] in policy.stop_ids:
            return ()
        stops = map(str, tokenizer.convert_ids_to_tokens(list(policy.stop_ids)))
        LOG.warning(
            "%s: its chat template ends a turn with %s, which ends no response of it, only %s "
            "does; here both do (--set rollout.ends=[] takes it back)",
            config.model,
            end,
            " or ".join(stops),
        )
        return (end,)
    for end in ends:
        if end not in vocabulary:
            raise UserError(f"rollout.ends {shortened(end)}: {config.model} has no such token")
    return ends


def choose_forwards(
    models: LoadedModels, samples: Sequence[Sample], engine: str, training: bool
) -> tuple[Forward, Forward]:
    """Choose how policy and teacher are run. Raises UserError if processes choose differently."""
    policy, teacher = models
    vocab_size = len(policy.tokenizer)
    forward = PACKED
    teacher_forward = PACKED
    if training or engine != "vllm":
        forward = choose_forward(policy.model, vocab_size, samples, policy.context)
    if teacher is not None:
        teacher_forward = choose_forward(teacher.model, vocab_size, samples, policy.context)
    choice = (forward.packed, forward.attention, teacher_forward.packed, teacher_forward.attention)
    if len(set(map(str, gather([choice])))) > 1:
        raise UserError("--processes: the machines are too unlike to run the model in one way")
    return forward, teacher_forward


def start_engine(
    policy: LoadedModel, config: Config, forward: Forward, memory: Memory, training: bool
) -> Engine:
    """Start the engine with the policy's weights.

    vLLM always copies them. The transformers engine samples from the policy's model itself, unless
    training needs it in another form (`samples_a_copy`). Of a base in NF4 it has a dequantized copy
    with the adapter merged if memory holds one, else the policy's codes and an adapter.
    """
    model = policy.model
    rollout = config.rollout
    device = torch.device(memory.machine.device)
    assert rollout.kv_budget_mb is not None  # `fit_to_machine` has decided it.
    if config.engine == "vllm":
        from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

        return VllmEngine(
            model,
            vocab_size=len(policy.tokenizer),
            stop_ids=policy.stop_ids,
            kv_budget_mb=rollout.kv_budget_mb,
            gpu_share=rollout.gpu_share,
            precision=rollout.precision,
            sleeps=training,
        )
    if config.engine == "server":
        return start_server_engine(policy, config.servers, rollout.precision)
    dtype = getattr(torch, rollout.precision)
    lora = config.lora
    has_adapter = training and lora.base == "nf4" and not memory.holds_dequantized(config)
    if has_adapter:
        model = quantized_copy(model)
        make_whole(model, device)
        model.to(device)
        assert lora.rank is not None  # The settings demand it.
        add_adapter(model, lora.rank, lora.alpha, lora.targets, config.seed)
    elif training and samples_a_copy(config):
        model = cast(deepcopy(model), dtype)
        make_whole(model, device)
        dequantize(model, dtype)  # in float32 it might not fit the GPU
        model.to(device)
    return TransformersEngine(
        cast(model, dtype),
        vocab_size=len(policy.tokenizer),
        stop_ids=policy.stop_ids,
        kv_budget_mb=rollout.kv_budget_mb,
        forward=forward,
        has_adapter=has_adapter,
    )


def start_server_engine(
    policy: LoadedModel, servers: ServersConfig, precision: str
) -> ServerEngine:
    """Make the engine on the servers. It asks them nothing yet.

    Raises UserError for an invalid URL, a directory that cannot be used, and several processes.
    """
    if world() > 1:
        raise UserError("--rollout-server with --processes: the servers take the weights of one")
    return ServerEngine(
        policy.model,
        vocab_size=len(policy.tokenizer),
        stop_ids=policy.stop_ids,
        urls=servers.urls or (),
        directory=weights_directory(servers.weights_dir),
        precision=precision,
        settings=ServerSettings(
            key_variable=servers.key_env,
            in_flight=servers.in_flight,
            timeout=servers.timeout,
            tries=servers.tries,
        ),
    )


def check_servers(
    engine: ServerEngine, policy: LoadedModel, samples: Sequence[Sample], config: Config
) -> list[str]:
    """Return a line for each server that keeps the contract. Raises UserError for one that does
    not."""
    trainer = Trainer(
        name=config.model,
        model=policy.model,
        tokenizer=policy.tokenizer,
        samples=samples,
        limit=config.mismatch_limit,
        temperature=config.rollout.temperature,
    )
    return check_contract(engine, trainer)
